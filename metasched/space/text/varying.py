"""Which values differ between the candidates of one structure, as far as the text of a module shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import Enum

from metasched.ir.source import (
    Apply,
    IfElse,
    Item,
    Keyword,
    ListLit,
    Name,
    NoneLit,
    Operation,
    Prefix,
    Read,
    SourceExpr,
    Starred,
)
from metasched.lang.module_tree import AssignedName, Draw
from metasched.schedule.kinds import ArgumentKind
from metasched.schedule.primitive import Param, registry
from metasched.space.text.values import FUNCTIONS
from metasched.support.data_classes import dataclass

_OF_NUMBERS = FUNCTIONS.keys() - {"len"}


class _Mark(Enum):
    """What is certain about a name."""

    NUMBER = "one random variable, or arithmetic on some: no list"
    OPEN = "a random variable without `:=`, or several"
    LOOP = "a loop that runs as often as such a variable says"
    SIZE = "how often such a loop runs"


_Marks = frozenset[tuple[str, _Mark]]


def _is_varying(op: str) -> bool:
    """Whether a sampler's results differ where Python or a module could not follow."""
    return op in registry() and registry()[op].random and not registry()[op].branches


@dataclass
class Varying:
    """The names of one module, as of the line that is read.

    `random` are the names whose last definition depends on a random variable. `marks` are certain: they hold on every
    path.
    """

    random: set[str] = field(default_factory=set)
    marks: _Marks = frozenset()

    # --- statements

    def draw(self, draw: Draw) -> None:
        """Define the names of a random variable."""
        varying = _is_varying(draw.call.func)
        drawn = registry()[draw.call.func].drawn if varying else None
        single = drawn is not None and (len(draw.targets) > 1 or not drawn.gives_list)
        for target in draw.targets:
            marks = {_Mark.OPEN} if varying and draw.decision is None else set()
            self._define(target, varying, marks | ({_Mark.NUMBER} if single and not target.starred else set()))

    def bind(self, targets: tuple[AssignedName, ...], value: SourceExpr) -> None:
        """Define the names of a value, or those of its parts."""
        whole = self._marks(value)
        parts = _distribute_parts(targets, self._loops_made(value, len(targets))) if isinstance(value, Apply) else None
        for n, target in enumerate(targets):
            marks = set(whole) if len(targets) == 1 and not target.starred else whole & {_Mark.OPEN, _Mark.LOOP}
            if parts is not None:
                marks = {_Mark.LOOP} if parts[n] else set()
            self._define(target, self.is_random(value), marks)

    def repeat(self, targets: tuple[AssignedName, ...], over: SourceExpr) -> None:
        """Define the names of a loop's items."""
        for target in targets:
            self._define(target, self.is_random(over), ())

    def join(self, paths: Sequence[_Marks]) -> None:
        """Join several paths."""
        self.marks = frozenset.intersection(*paths)

    def _define(self, target: AssignedName, random: bool, marks: Iterable[_Mark]) -> None:
        self.random = self.random | {target.name} if random else self.random - {target.name}
        kept = {(name, mark) for name, mark in self.marks if name != target.name}
        self.marks = frozenset(kept | {(target.name, mark) for mark in marks})

    # --- expressions

    def is_random(self, e: SourceExpr) -> bool:
        """Whether a value may depend on a random variable."""
        match e:
            case Name(name=name) | Read(buffer=name):
                return name in self.random
            case Apply(func=func) if func not in _OF_NUMBERS:
                return False
        return any(self.is_random(child) for child in e.children() if isinstance(child, SourceExpr))

    def is_number(self, e: SourceExpr) -> bool:
        """Whether a value is certainly a random variable or arithmetic on random variables, and not a list."""
        match e:
            case Name(name=name):
                return (name, _Mark.NUMBER) in self.marks
            case Prefix(a=a):
                return self.is_number(a)
            case Operation(op=op, a=a, b=b) if not op.is_comparison and not op.is_logical:
                return self.is_number(a) or self.is_number(b)
            case Apply(func=func, args=args) if func in _OF_NUMBERS:
                return any(map(self.is_number, args))
        return False

    def is_size(self, e: SourceExpr) -> bool:
        """Whether a value certainly depends on tile sizes."""
        match e:
            case Name(name=name):
                return (name, _Mark.SIZE) in self.marks
            case Apply(func="extent", args=(Keyword(value=loop),)) | Apply(func="extent", args=(loop,)):
                return self._varies_in_length(loop)
        return False

    def _is_open(self, e: SourceExpr) -> bool:
        match e:
            case Name(name=name) | Read(buffer=name):
                return (name, _Mark.OPEN) in self.marks
            case ListLit(items=items):
                return bool(items) and all(map(self._is_open, items))
            case IfElse(then=then, otherwise=otherwise):
                return self._is_open(then) and self._is_open(otherwise)
        return self.is_number(e) and any(self._is_open(c) for c in e.children() if isinstance(c, SourceExpr))

    def _varies_in_length(self, e: SourceExpr) -> bool:
        """Whether the extent of a loop (of each loop of a list) certainly depends on an open variable."""
        match e:
            case Name(name=name) | Read(buffer=name):
                return (name, _Mark.LOOP) in self.marks
            case Starred(value=loops):
                return self._varies_in_length(loops)
            case Apply() | Item():
                parts = self._loops_made(e.call if isinstance(e, Item) else e)
                return bool(parts) and all(parts)
        return False

    def _marks(self, e: SourceExpr) -> set[_Mark]:
        known = {
            _Mark.NUMBER: self.is_number,
            _Mark.OPEN: self._is_open,
            _Mark.LOOP: self._varies_in_length,
            _Mark.SIZE: self.is_size,
        }
        return {mark for mark, holds in known.items() if holds(e)}

    def _loops_made(self, call: Apply, count: int = 1) -> Sequence[bool]:
        """Whether each loop that a primitive makes varies in length; nothing where the text does not show it.

        Where a list of integers has a name, there is one answer for all of them, `count` times.
        """
        declaration = registry().get(call.func)
        if declaration is None or declaration.varying_loops is None:
            return ()
        params = {param.name: param for param in declaration.params}
        rest = [param for param in declaration.params if not param.variadic]
        taker = next((param for param in declaration.params if param.variadic), None)
        spare: list[bool | None] = []
        given: dict[str, object] = {} if taker is None else {taker.name: spare}
        for arg in call.args:
            if isinstance(arg, Keyword):
                param, value = params.get(arg.name), arg.value
            else:
                param, value = rest.pop(0) if rest else None, arg
            if param is None:
                spare += [] if taker is None else [self._is_known(taker, value)]
            elif isinstance(value, Starred):
                return ()
            elif not param.many:
                given[param.name] = self._is_known(param, value)
            elif (items := self._are_known(param, value, count)) is not None:
                given[param.name] = items
        shown = all(param.name in given for param in declaration.params if param.required)
        return declaration.varying_loops(given) if shown else ()

    def _is_known(self, param: Param, value: SourceExpr) -> bool | None:
        if isinstance(value, NoneLit):
            return None
        return self._varies_in_length(value) if param.kind is ArgumentKind.LOOP else self._is_open(value)

    def _are_known(self, param: Param, value: SourceExpr, count: int) -> list[bool | None] | None:
        if isinstance(value, Name):
            return [self._is_known(param, value)] * count
        if not isinstance(value, ListLit) or any(isinstance(item, Starred) for item in value.items):
            return None
        return [self._is_known(param, item) for item in value.items]


def _distribute_parts(targets: tuple[AssignedName, ...], parts: Sequence[bool]) -> list[bool] | None:
    """For each name whether all parts that it takes hold; None where it is not known which those are."""
    star = next((n for n, target in enumerate(targets) if target.starred), None)
    spare = len(parts) - len(targets)
    if not parts or (len(targets) == 1 and star is None) or spare < -1 or (star is None and spare):
        return None
    ends = [n + 1 if star is None or n < star else n + spare + 1 for n in range(len(targets))]
    return [all(parts[first:end]) for first, end in zip([0, *ends], ends, strict=False)]
