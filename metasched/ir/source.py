"""A program as it is written: the tree that text parses to and that the Python builder makes.

Nothing is resolved here: names are names, sizes are expressions over parameters, elements have no types yet.
Equality and hashing ignore where a node stood in its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import NamedTuple, Self, TypeAlias

from metasched.dtypes import DType
from metasched.ir.node_methods import write_methods
from metasched.ir.nodes import BinOp, Reducer, UnOp
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass


class At(NamedTuple):
    """A place in a text, 1-based."""

    line: int
    column: int


NOWHERE = At(0, 0)


@dataclass(frozen=True)
class SourceNode:
    at: At = field(default=NOWHERE, compare=False, repr=False, kw_only=True)

    def children(self) -> tuple[SourceNode, ...]:
        """The nodes directly below this one, in reading order."""
        write_methods(type(self), SourceNode, _METHOD_NAMES)
        return self.children()

    def walk(self) -> Iterator[SourceNode]:
        """This node and everything below it, in reading order."""
        stack: list[SourceNode] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children()[::-1]

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """The reads in it, in reading order, those in subscripts among them: passes ask for them again and again."""
        return tuple(node for node in self.walk() if isinstance(node, Read))

    def map(self, change: Callable[[SourceNode], SourceNode]) -> Self:
        """This node with each node directly below it changed; itself where none is."""
        write_methods(type(self), SourceNode, _METHOD_NAMES)
        return self.map(change)


# What each kind of node has of its own, written out for its fields at the first use.
_METHOD_NAMES = ("children", "map")


# --- expressions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceExpr(SourceNode):
    @property
    def start(self) -> At:
        """Where the expression begins; `at` of an operation is its operator."""
        return min((node.at for node in self.walk() if node.at != NOWHERE), default=NOWHERE)


@dataclass(frozen=True)
class IntLit(SourceExpr):
    value: int


@dataclass(frozen=True)
class FloatLit(SourceExpr):
    value: float


@dataclass(frozen=True)
class BoolLit(SourceExpr):
    value: bool


@dataclass(frozen=True)
class Name(SourceExpr):
    """A parameter, a `let`, an iteration variable or a scalar argument."""

    name: str


@dataclass(frozen=True)
class Read(SourceExpr):
    buffer: str
    indices: tuple[SourceExpr, ...]


@dataclass(frozen=True)
class Operation(SourceExpr):
    """`a op b`, for the operators that have a symbol or a word; `max(a, b)` is an `Apply`."""

    op: BinOp
    a: SourceExpr
    b: SourceExpr


@dataclass(frozen=True)
class Prefix(SourceExpr):
    op: UnOp
    a: SourceExpr


@dataclass(frozen=True)
class Apply(SourceExpr):
    """A math function, `max(x, y)`, `min(x, y)`, or a cast `f32(x)`."""

    func: str
    args: tuple[SourceExpr, ...]


@dataclass(frozen=True)
class IfElse(SourceExpr):
    """`then if cond else otherwise`."""

    then: SourceExpr
    cond: SourceExpr
    otherwise: SourceExpr


@dataclass(frozen=True)
class Axis(SourceNode):
    """An iteration variable, with its range when that is written (`k < 512`)."""

    name: str
    extent: SourceExpr | None = None


@dataclass(frozen=True)
class Reduce(SourceExpr):
    """`sum[r, s < 3 if cond](operand)`: terms that do not meet the condition, where there is one, are not there."""

    reducer: Reducer
    axes: tuple[Axis, ...]
    operand: SourceExpr
    cond: SourceExpr | None = None


# --- values of modules and traces ------------------------------------------------------------------------


@dataclass(frozen=True)
class TextLit(SourceExpr):
    value: str


@dataclass(frozen=True)
class NoneLit(SourceExpr):
    pass


@dataclass(frozen=True)
class ListLit(SourceExpr):
    items: tuple[SourceExpr, ...]


@dataclass(frozen=True)
class Item(SourceExpr):
    """`get_loops(block)[0]`, an item of what a call gives; one of a list that has a name is a `Read`."""

    call: Apply
    indices: tuple[SourceExpr, ...]


@dataclass(frozen=True)
class Keyword(SourceExpr):
    """`name=value`, an argument of a call."""

    name: str
    value: SourceExpr


@dataclass(frozen=True)
class Starred(SourceExpr):
    """`*value`, the arguments of a call that a list holds."""

    value: SourceExpr


# --- definitions -----------------------------------------------------------------------------------------


# An element type, or the name of the parameter that it is.
ElementType: TypeAlias = DType | str
# What a parameter is set to: a size, or the name of an element type.
Setting: TypeAlias = int | str


@dataclass(frozen=True)
class ProgramParameter(SourceNode):
    """`N=512`, a size; `T=f32`, an element type; `U=T`, the type that an earlier parameter is set to."""

    name: str
    default: Setting

    @property
    def is_type(self) -> bool:
        return isinstance(self.default, str)


def settings_from_json(pairs: Iterable[Iterable[object]]) -> tuple[tuple[str, Setting], ...]:
    """Parameters and their values, from their JSON form."""
    return tuple((str(name), value if isinstance(value, str) else int(str(value))) for name, value in pairs)


@dataclass(frozen=True)
class Argument(SourceNode):
    """`A: f32[N, K]`, `const K: f32[R]`; `alpha: f32`, a scalar, has no shape."""

    name: str
    dtype: ElementType
    shape: tuple[SourceExpr, ...] | None
    const: bool = False


@dataclass(frozen=True)
class BufferDeclaration(SourceNode):
    """An output, or the declared shape of a buffer in between."""

    name: str
    dtype: ElementType
    shape: tuple[SourceExpr, ...]


@dataclass(frozen=True)
class Let(SourceNode):
    name: str
    value: SourceExpr


@dataclass(frozen=True)
class Stage(SourceNode):
    """`label: buffer[axes] = value`; `label` is None when the stage is named after its buffer.

    `position` is the second target of an arg-reduction: `buffer[axes], position[axes] = argmax[k](...)`.
    """

    label: str | None
    buffer: str
    axes: tuple[Axis, ...]
    value: SourceExpr
    position: str | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The buffers that the stage computes."""
        return (self.buffer,) if self.position is None else (self.buffer, self.position)

    @property
    def block(self) -> str:
        """The name of the block this stage becomes."""
        return self.label if self.label is not None else self.buffer


@dataclass(frozen=True)
class ProgramDef(SourceNode):
    name: str
    params: tuple[ProgramParameter, ...]
    arguments: tuple[Argument, ...]
    outputs: tuple[BufferDeclaration, ...]
    lets: tuple[Let, ...]
    buffers: tuple[BufferDeclaration, ...]
    stages: tuple[Stage, ...]


def negate(value: SourceExpr, at: At = NOWHERE) -> SourceExpr:
    """`-value`; the minus of a number belongs to the number."""
    if isinstance(value, IntLit) and value.value >= 0:
        return IntLit(-value.value, at=at) if value.value else Prefix(UnOp.NEG, value, at=at)
    if isinstance(value, FloatLit) and not repr(value.value).startswith("-"):
        return FloatLit(-value.value, at=at)
    return Prefix(UnOp.NEG, value, at=at)
