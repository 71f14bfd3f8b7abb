"""Index maps given as Python functions or as text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from metasched.errors import LanguageError, ScheduleError
from metasched.ir.integers.affine import const, simplify, substitute
from metasched.ir.nodes import Expr, IndexMap, Var
from metasched.ir.printer import print_index_map
from metasched.lang import parse_index_map, sizes_of
from metasched.schedule.context import Context
from metasched.schedule.kinds import ArgumentKind
from metasched.schedule.primitive import Declaration, Param
from metasched.schedule.values import Int
from metasched.support.data_classes import dataclass
from metasched.support.integers import is_integer
from metasched.support.messages import counted, listing


def with_maps_as_text(declaration: Declaration, bound: list[tuple[Param, Any]]) -> list[tuple[Param, Any]]:
    """Arguments with every index map that is a function as its text, and its sizes as the rest of the arguments."""
    if not any(param.kind is ArgumentKind.INDEX_MAP for param, _ in bound):
        return bound
    sizes: list[Int] = []
    out = []
    for param, value in bound:
        if param.kind is ArgumentKind.INDEX_MAP and callable(value):
            value, sizes = index_map_text(declaration.name, value)
        out.append((param, (*sizes, *value) if param.variadic else value))
    return out


def index_map_text(op: str, function: Callable[..., Any]) -> tuple[str, list[Int]]:
    """The text of a map given as a function of indices, `lambda i, j: (j // t, i, j % t)`, and its sizes.

    Random variables that it divides by get names of their own in the text; the sizes are these variables, in the order
    of `sizes_of`. Raises ScheduleError when it returns anything but index arithmetic on its parameters.
    """
    names = tuple(inspect.signature(function).parameters)
    indices = [Var(f"<{name}>") for name in names]  # no label is written so
    result = function(*map(Int, indices))
    outputs = tuple(_expr(op, e) for e in (result if isinstance(result, tuple | list) else (result,)))
    labels = sizes_of(IndexMap(tuple(v.name for v in indices), outputs))
    called = dict(zip((v.name for v in indices), map(Var, names), strict=True))
    called |= dict(zip(labels, map(Var, _size_names(names, len(labels))), strict=True))
    text = print_index_map(IndexMap(names, tuple(substitute(e, called) for e in outputs)))
    return text, [Int(Var(label)) for label in labels]


def _size_names(names: Collection[str], count: int) -> list[str]:
    """Names of sizes: `t` for one, `t0`, `t1`, ... for several."""
    wanted = ["t"] if count == 1 else [f"t{n}" for n in range(count)]
    while not set(wanted).isdisjoint(names):
        wanted = [f"{name}_" for name in wanted]
    return wanted


def _expr(op: str, value: object) -> Expr:
    if isinstance(value, Int):
        return simplify(value.expr)
    if is_integer(value):
        return const(value)
    raise ScheduleError(
        op,
        f"the index map returns {value!r}, which is no index",
        hint="return a tuple of index arithmetic, such as (j // 16, i, j % 16)",
    )


@dataclass(frozen=True)
class SizedMap:
    """An index map whose sizes are variables, and their values: the same steps are then taken for all values."""

    index_map: IndexMap
    values: Mapping[str, Expr]

    def map(self) -> IndexMap:
        """The map with the values of its sizes."""
        return IndexMap(self.index_map.names, tuple(map(self.valued, self.index_map.outputs)))

    def valued(self, e: Expr) -> Expr:
        """An index in terms of the sizes, with their values."""
        return simplify(substitute(e, self.values)) if self.values else e


def read_index_map(ctx: Context, op: str, text: str, sizes: Sequence[Expr], rank: int, what: str) -> SizedMap:
    """Parse a map over the `rank` indices of `what`, with the values of its sizes, which have to be positive.

    Raises ScheduleError if the text is not such a map.
    """
    try:
        index_map = parse_index_map(text)
    except LanguageError as error:
        first = error.diagnostics[0]
        hint = first.hint or 'write one such as "i, j -> j//16, i, j%16"'
        raise ScheduleError(
            op, f'the index map "{text}" is not understood: {first.message} (column {first.column})', (), hint
        ) from None
    if len(index_map.names) != rank:
        raise ScheduleError(
            op,
            f'the index map "{text}" has {len(index_map.names)} indices on its left, and {what} has {rank}',
            (),
            "name each of them once before the arrow",
        )
    return _bind_sizes(ctx, op, index_map, text, sizes)


def _bind_sizes(ctx: Context, op: str, index_map: IndexMap, text: str, sizes: Sequence[Expr]) -> SizedMap:
    names = sizes_of(index_map)
    if len(names) != len(sizes):
        raise ScheduleError(
            op,
            f'the index map "{text}" divides by {counted(len(names), "size")}, and {len(sizes)} are given',
            (),
            f"after the map, give {listing(names, none='nothing')}",
        )
    for name, size in zip(names, sizes, strict=True):
        error = ScheduleError(op, f'the size `{name}` of the index map "{text}" is less than 1', (), "make it positive")
        ctx.require(size >= 1, error)
    apart = {name: Var(f"<{name}>") for name in names}  # no variable of a program is called so
    outputs = tuple(substitute(e, apart) for e in index_map.outputs)
    values = {apart[name].name: size for name, size in zip(names, sizes, strict=True)}
    return SizedMap(IndexMap(index_map.names, outputs), values)
