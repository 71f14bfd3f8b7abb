"""Declaring annotations, which direct the compiler at a loop or a block, and their preconditions.

One file and one decorator each, in `metasched.schedule.annotations`. The file's docstring documents the annotation; the
decorated function checks its specific preconditions.

    @annotation(on=AnnotationPlace.BLOCK, values=AnnotationValues.SWITCH)
    def fastmath(ctx: Context, op: str, target: Block | For, value: Expr) -> None: ...

Lowering, the cost model and primitives read one by its declaration: `fastmath.value(block.annotations)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from types import MappingProxyType, ModuleType

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Annotation, Binary, BinOp, Block, Const, Expr, For, Func, LoopKind
from metasched.permissions import Permission
from metasched.schedule.context import Context
from metasched.support.data_classes import dataclass
from metasched.support.declared_files import DeclaredFiles, require_only
from metasched.support.documentation import documentation

Check = Callable[[Context, str, Block | For, Expr], None]


class AnnotationPlace(Enum):
    """What an annotation may be put on."""

    BLOCK = "a block"
    LOOP = "a loop"
    ANY = "a loop or a block"


class AnnotationValues(Enum):
    """The values that an annotation takes."""

    COUNT = "an integer of at least 0"
    SWITCH = "True or False"
    ON = "True"
    NAME = "a name"


@dataclass(frozen=True)
class AnnotationKey:
    """An annotation by its key.

    Attributes:
        name: the key.
        doc: what it means: the documentation of its file.
        on: what it may be put on.
        values: the values that it takes.
        counts: what a count is of.
        check: raises ScheduleError where it would do harm, or has no meaning.
        not_on: kinds of loops that it does not apply to, and why.
        set_by: the primitive that puts it there; '' where `annotate` does.
        permission: what results it lets differ by, which the caller has to allow; None where they stay the same.
        of_sums: whether it stays with both parts of a reduction that is split in two.
        of_copies: whether a copy of its loop around another statement keeps it.

    """

    name: str
    doc: str
    on: AnnotationPlace
    values: AnnotationValues
    counts: str
    check: Check
    not_on: Mapping[LoopKind, str]
    set_by: str
    permission: Permission | None
    of_sums: bool
    of_copies: bool

    @property
    def summary(self) -> str:
        """The first sentence of its documentation."""
        return self.doc.partition("\n\n")[0].replace("\n", " ")

    def value(self, annotations: Iterable[Annotation]) -> Expr | str | None:
        """The annotation's value among those of a loop or a block; None if absent."""
        return next((a.value for a in annotations if a.key == self.name), None)

    def expression(self, annotations: Iterable[Annotation]) -> Expr | None:
        """The annotation's value among those of a loop or a block, if it is numeric; None if absent."""
        value = self.value(annotations)
        assert not isinstance(value, str)
        return value

    def require(self, ctx: Context, op: str, target: Block | For, value: Expr) -> None:
        """Raise ScheduleError where it may not be put on `target` with this value."""
        wrong = self.misplaced(op, target)
        if wrong is not None:
            raise wrong
        self._require_value(ctx, op, target, value)
        self.check(ctx, op, target, value)

    def misplaced(self, op: str, target: Block | For) -> ScheduleError | None:
        """Why it may not be put on a loop or block with any value, and what to do instead; None where it may."""
        if isinstance(target, Block):
            message = f'"{self.name}" is about a loop, and `{target.name}` is a block'
            hint = "give a loop around it"
            return ScheduleError(op, message, (target.name,), hint) if self.on is AnnotationPlace.LOOP else None
        if self.on is AnnotationPlace.BLOCK:
            message = f'"{self.name}" is about a block, and `{target.var}` is a loop'
            return ScheduleError(op, message, (target.var,), "give a block inside it")
        why = self.not_on.get(target.kind)
        if why is None:
            return None
        message = f'"{self.name}" means nothing on `{target.var}`, which is {target.kind.value}: {why}'
        return ScheduleError(op, message, (target.var,), "split it first, and give the outer loop")

    def _require_value(self, ctx: Context, op: str, target: Block | For, value: Expr) -> None:
        names = (_name(target),)
        if self.values is AnnotationValues.COUNT:
            wrong = ScheduleError(op, f'"{self.name}" counts {self.counts}, and is less than 0', names, "0 is for none")
            ctx.require(value >= 0, wrong)
        elif self.values is AnnotationValues.SWITCH:
            message = f'"{self.name}" is on or off: its value is neither 1 nor 0'
            ctx.require(value >= 0, ScheduleError(op, message, names, "give True"))
            ctx.require(value <= 1, ScheduleError(op, message, names, "give True"))
        elif self.values is AnnotationValues.ON:
            message = f'"{self.name}" is on where it is left: its value is True'
            ctx.require(Binary(BinOp.EQ, value, Const(1)), ScheduleError(op, message, names, "leave it out for off"))


def _name(target: Block | For) -> str:
    return target.var if isinstance(target, For) else target.name


def annotation(
    *,
    on: AnnotationPlace,
    values: AnnotationValues,
    counts: str = "",
    not_on: Mapping[LoopKind, str] | None = None,
    set_by: str = "",
    permission: Permission | None = None,
    of_sums: bool = False,
    of_copies: bool = True,
) -> Callable[[Check], AnnotationKey]:
    """Declare an annotation by the function that checks its specific preconditions; the function's name is the key.

    Raises TypeError for a file that does not begin with documentation.
    """

    def attach(check: Check) -> AnnotationKey:
        name, module = check.__name__, inspect.getmodule(check)
        doc = documentation(module)
        if (values is AnnotationValues.COUNT) is not bool(counts):
            raise TypeError(f"annotation {name}: `counts` says what is counted, and nothing else does")
        if doc is None:
            raise TypeError(f"annotation {name}: its file begins with documentation, which says what it means")
        forbidden = MappingProxyType(dict(not_on or {}))
        return AnnotationKey(
            name=name,
            doc=doc,
            on=on,
            values=values,
            counts=counts,
            check=check,
            not_on=forbidden,
            set_by=set_by,
            permission=permission,
            of_sums=of_sums,
            of_copies=of_copies,
        )

    return attach


def _read(name: str, module: ModuleType) -> AnnotationKey:
    declared = [value for value in vars(module).values() if isinstance(value, AnnotationKey)]
    own = {key.name: key for key in declared if key.check.__module__ == module.__name__}
    return require_only("annotation", name, module, own)


FILES = DeclaredFiles("metasched.schedule.annotations", "annotation", _read)


@cache
def known_annotations() -> Mapping[str, AnnotationKey]:
    """Every annotation by its key. Raises TypeError for a file that does not declare one of its own name."""
    return FILES.load()


def problems(func: Func) -> Iterator[str]:
    """The problems with a program's annotations, a sentence each: unknown keys and misplaced annotations."""
    known = known_annotations()
    targets: tuple[For | Block, ...] = (*query.loops(func), *query.blocks(func))
    for target in targets:
        for found in target.annotations:
            if found.key not in known:
                yield f'`{_name(target)}` has an annotation "{found.key}" that nobody knows'
            elif (wrong := known[found.key].misplaced("annotation", target)) is not None:
                yield wrong.reason
