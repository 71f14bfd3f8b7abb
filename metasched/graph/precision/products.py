"""Sums of products in programs: products of matrices, convolutions. They are told by what they compute."""

from __future__ import annotations

from collections.abc import Iterator

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import names_in, rewrite_expression
from metasched.graph.fusion.stages import Stages
from metasched.ir.nodes import BinOp, Reducer
from metasched.ir.source import (
    Apply,
    BoolLit,
    FloatLit,
    IfElse,
    IntLit,
    Operation,
    Read,
    Reduce,
    SourceExpr,
    SourceNode,
    Stage,
)
from metasched.support.data_classes import dataclass

# Columns that instructions for products compute at a time.
_COLUMNS = 16
_TYPES = frozenset(str(dtype) for dtype in DType)


def cast(value: SourceExpr, dtype: DType) -> Apply:
    """A value in another type, as it is written."""
    return Apply(str(dtype), (value,))


def literal(value: SourceExpr) -> int | float | bool | None:
    """The number that an expression is, whatever its type; None where it is no literal."""
    match value:
        case IntLit(number) | FloatLit(number) | BoolLit(number):
            return number
        case Apply(func, (inner,)) if func in _TYPES:
            return literal(inner)
    return None


def new_name(stages: Stages, like: str) -> str:
    """A name that no buffer has."""
    name, number = like, 0
    while name in stages.types:
        name, number = f"{like}{number}", number + 1
    return name


# --- what is moved ---------------------------------------------------------------------------------------


def moves(value: SourceExpr) -> bool:
    """Whether a value is an element of a buffer or a literal, by conditions: nothing is computed of elements."""
    return any(True for _ in moved_reads(value)) and all(
        isinstance(end, Read) or literal(end) is not None for end in _ends(value)
    )


def moved_reads(value: SourceExpr) -> Iterator[Read]:
    """The elements that a value is one of, without those that its indices and conditions read."""
    return (end for end in _ends(value) if isinstance(end, Read))


def _ends(value: SourceExpr) -> Iterator[SourceExpr]:
    if isinstance(value, IfElse):
        yield from _ends(value.then)
        yield from _ends(value.otherwise)
    else:
        yield value


# --- sums of products ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProductSum:
    """A stage that sums products of two buffers' elements.

    Attributes:
        stage: the stage.
        reduction: its value.
        factors: what is multiplied: elements, cast where the stage says so.

    """

    stage: Stage
    reduction: Reduce
    factors: tuple[SourceExpr, SourceExpr]

    @property
    def operands(self) -> tuple[Read, Read]:
        """The elements that the factors are of."""
        first, second = (_element(factor) for factor in self.factors)
        assert first is not None
        assert second is not None
        return first, second

    @property
    def of_matrices(self) -> bool:
        """Whether each operand has an index of the result that the other has not, as rows and columns are.

        Instructions multiply such operands. A depthwise convolution is none: its filters have no index of their own.
        One of groups of as many channels as instructions take is: all of a group read the same elements.
        """
        first, second = (_names(_in_groups(read)) for read in self.operands)
        result = {axis.name for axis in self.stage.axes}
        return bool((first - second) & result) and bool((second - first) & result)


def _element(factor: SourceExpr) -> Read | None:
    """The element that a factor is, or is a cast of."""
    match factor:
        case Read():
            return factor
        case Apply(func, (Read() as read,)) if func in _TYPES:
            return read
    return None


def _names(read: Read) -> frozenset[str]:
    """The indices that an element's place depends on."""
    return frozenset[str]().union(*(names_in(index) for index in read.indices))


def _in_groups(read: Read) -> Read:
    """A read whose place is taken for the same in all of a group that fills vectors."""

    def change(node: SourceNode) -> SourceNode:
        match node:
            case Operation(BinOp.FLOORDIV, _, IntLit(size)) if size % _COLUMNS == 0:
                return IntLit(0)
        return node

    return rewrite_expression(read, change)


def product_sum(stage: Stage) -> ProductSum | None:
    """A stage as a sum of products in which elements are used again: None where it is none.

    What is summed over must index both buffers, and an index of the result only one of them, as a matrix's row does. So
    a sum of squares, which a layer norm has, is none.
    """
    match stage.value:
        case Reduce(Reducer.SUM, axes, Operation(BinOp.MUL, a, b)) as reduction:
            first, second = _element(a), _element(b)
        case _:
            return None
    if first is None or second is None:
        return None
    used = [_names(read) for read in (first, second)]
    if not used[0] & used[1] & {axis.name for axis in axes}:
        return None
    if not (used[0] ^ used[1]) & {axis.name for axis in stage.axes}:
        return None
    return ProductSum(stage, reduction, (a, b))


def product_sums(stages: Stages) -> tuple[ProductSum, ...]:
    """All sums of products of a program, in order."""
    return tuple(found for stage in stages.stages if (found := product_sum(stage)) is not None)
