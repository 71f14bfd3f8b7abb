"""What results may differ by besides the order of a sum, asked for once, as `allow=`.

A kernel's results are those of its program up to the order in which floats are summed, and multiplies and adds that are
fused. Whatever else makes a kernel faster at the price of other results needs a permission, by name. Rules ask for it
(`sch.allows("fastmath")`), and what they do with it is in the trace: it shows which permissions its steps need.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeAlias

from metasched.dtypes import DType
from metasched.errors import MetaschedError
from metasched.ir import query
from metasched.ir.nodes import Binary, BinOp, Block, Cast, Expr, Func, Reducer
from metasched.support.data_classes import dataclass
from metasched.support.messages import did_you_mean, listing


class Permission(StrEnum):
    """Something that results may differ by, if the caller allows it."""

    FASTMATH = "fastmath"  # arithmetic regrouped, reciprocals in place of divisions, any sign of zero, NaN undefined
    FLUSH_DENORMALS = "flush_denormals"  # numbers below the smallest normal one are taken for zero
    WINOGRAD = "winograd"  # convolutions through transforms whose rounding errors are larger

    @classmethod
    def named(cls, name: object) -> Permission:
        """The permission of this name. Raises MetaschedError for one that is not there."""
        problem = permission_problem(name)
        if problem is not None:
            raise MetaschedError(problem[0], hint=problem[1])
        return cls(str(name))


def permission_problem(name: object) -> tuple[str, str] | None:
    """What is wrong with the name of a permission, and a hint; None where there is one of that name."""
    known = [permission.value for permission in Permission]
    if name in known:
        return None
    hint = did_you_mean(str(name), known) or f"there are {listing(known)}"
    return f"`allow`: nothing of the name {name!r} can be allowed", hint


@dataclass(frozen=True)
class Allowed:
    """What a caller allows.

    `names` are allowed everywhere. With `half_denormals`, products of bf16 or f16 that are summed in f32 may take
    denormal operands for zero, which every library does.
    """

    names: frozenset[Permission]
    half_denormals: bool = False

    @classmethod
    def of(cls, allow: Allow) -> Allowed:
        """What an argument `allow=` means: None is the default, a set allows what it names and nothing else.

        Raises MetaschedError for a name that is not known, and for what is no set of names.
        """
        if allow is None:
            return BY_DEFAULT
        if isinstance(allow, Allowed):
            return allow
        iterable: object = allow
        if isinstance(iterable, str) or not isinstance(iterable, Iterable):
            known = [permission.value for permission in Permission]
            example = f'{{"{allow if allow in known else known[0]}"}}'
            raise MetaschedError(
                f"`allow` is a set of names, such as {example}, not {allow!r}", hint=f"there are {listing(known)}"
            )
        return cls(frozenset(map(Permission.named, allow)))

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """What `str` wrote, and what the command line takes: names between commas, "none", or "default".

        Raises MetaschedError for a name that is not known.
        """
        if text in _SPECIAL_SETS:
            return _SPECIAL_SETS[text]
        return cls.of([name.strip() for name in text.split(",")])

    def __str__(self) -> str:
        special = next((text for text, value in _SPECIAL_SETS.items() if value == self), None)
        return special or ",".join(sorted(permission.value for permission in self.names))

    def in_block(self, permission: Permission, block: Block | None) -> bool:
        """Whether something is allowed in a block; with None, whether it is in every one."""
        if permission in self.names:
            return True
        halves = block is not None and sums_products_of_halves(block)
        return self.half_denormals and permission is Permission.FLUSH_DENORMALS and halves

    def in_program(self, func: Func) -> frozenset[Permission]:
        """What is allowed in some block of a program: a trace that needs no more than this is one to take."""
        return frozenset(p for p in Permission if any(self.in_block(p, block) for block in query.blocks(func)))


BY_DEFAULT = Allowed(frozenset(), half_denormals=True)
NOTHING = Allowed(frozenset())
EVERYTHING = frozenset(Permission)
_SPECIAL_SETS = {"default": BY_DEFAULT, "none": NOTHING}

Allow: TypeAlias = Iterable[str] | Allowed | None


def sums_products_of_halves(block: Block) -> bool:
    """Whether a block sums, in f32, products of two elements of bf16 or f16."""
    value = block.store.value
    if block.reducer is not Reducer.SUM or value.dtype is not DType.F32:
        return False
    return isinstance(value, Binary) and value.op is BinOp.MUL and all(map(_is_half, (value.a, value.b)))


def _is_half(side: Expr) -> bool:
    return isinstance(side, Cast) and side.value.dtype.is_storage
