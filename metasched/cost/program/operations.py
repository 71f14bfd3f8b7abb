"""What one instance of a statement computes, counted from its expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metasched.cost.program.conditions import is_by_index, sides_taken
from metasched.dtypes import DType
from metasched.functions.declaration import DIVISION_COST
from metasched.functions.registry import functions
from metasched.ir.integers.affine import free_vars
from metasched.ir.nodes import Binary, BinOp, Call, Cast, Const, Expr, Load, Reducer, Select, Unary
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Operations:
    """Counts for one instance: arithmetic, divisions, math functions, comparisons with selections, casts.

    `instructions` estimates vector instructions: a multiplication of floats that feeds a sum is one with it (FMA),
    divisions, math functions, maxima of floats and products of integers count by their cost. `conversions` are casts of
    what is read, which are apart from them: there are as many as reads, and a register tile reads an operand once.
    `of_update` are the instructions by which a value is reduced into its accumulator. `long` are divisions and costly
    functions of floats: the instructions of each, and the iteration variables that it depends on. `widest` are the
    bytes of the widest type of operations on data and of their operands, 0 without one.
    """

    arithmetic: int
    divisions: int
    special: int
    choices: int
    casts: int
    instructions: float
    conversions: int = 0
    of_update: float = 0.0
    long: tuple[tuple[float, frozenset[str]], ...] = ()
    widest: int = 0

    @property
    def flops(self) -> int:
        return self.arithmetic + self.divisions + self.special


def count(value: Expr, reducer: Reducer | None, ranges: Mapping[str, Expr]) -> Operations:
    """The operations of `value`, and of reducing it; index arithmetic does not count.

    `ranges` are the extents of the iteration variables. A selection by an index is one choice, as its condition is the
    same for many instances, and none where the condition always holds or never does. Where it is between what is read
    and a constant, it is no instruction of its own: what such reads cost depends on the schedule.
    """
    counter = _Counter(ranges)
    counter.count(value)
    update = 0.0 if reducer is None else _update_instructions(value, reducer)
    fused = reducer is Reducer.SUM and isinstance(value, Binary) and value.op is BinOp.MUL and _adds_up(value)
    instructions = counter.instructions + (0.0 if fused else update)
    return Operations(
        arithmetic=counter.arithmetic + (reducer is not None),
        divisions=counter.divisions,
        special=counter.special,
        # Of an arg-reduction: whether the position moves, and the position.
        choices=counter.choices + (2 if reducer is not None and reducer.is_arg else 0),
        casts=counter.casts,
        instructions=max(instructions, 0.0 if counter.conversions else 1.0),
        conversions=counter.conversions,
        of_update=update,
        long=_long_operations(value, ranges),
        widest=max(_widest_bytes(value), 0 if reducer is None else value.dtype.compute.bytes),
    )


class _Counter:
    """Counts what an expression computes, a kind of node at a time."""

    def __init__(self, ranges: Mapping[str, Expr]) -> None:
        self._ranges = ranges
        self.arithmetic = 0
        self.divisions = 0
        self.special = 0
        self.choices = 0
        self.casts = 0
        self.conversions = 0
        # Choices that are no instruction, and instructions that take more than one.
        self._merged = 0
        self._extra = 0.0

    @property
    def instructions(self) -> float:
        simple = self.arithmetic + self.choices - self._merged + self.casts - self.conversions
        return self._extra + simple + self.divisions * DIVISION_COST

    def count(self, value: Expr) -> None:
        stack = [value]
        while stack:
            stack.extend(self._count_node(stack.pop()))

    def _count_node(self, node: Expr) -> Iterable[Expr]:
        """Count a node; what is to be counted below it."""
        match node:
            case Load():
                return ()
            case Call():
                self.special += 1
                self._extra += functions()[node.func].cost
            case Binary():
                self._count_binary(node)
            case Unary():
                self.arithmetic += 1
            case Select() if is_by_index(node):
                return self._sides_by_index(node)
            case Select():
                self.choices += 1
            case Cast():
                self.casts += 1
                self.conversions += isinstance(node.value, Load)
        return (child for child in node.children() if isinstance(child, Expr))

    def _count_binary(self, node: Binary) -> None:
        if node.op.is_comparison or node.op.is_logical:
            self.choices += 1
        elif node.op in _DIVISIONS and not _is_by_power_of_two(node):
            self.divisions += 1
        else:
            self.arithmetic += 1
            self._extra += _extra_of_product(node) + _extra_of_extremum(node)

    def _sides_by_index(self, node: Select) -> tuple[Expr, ...]:
        taken = sides_taken(node, self._ranges)
        self.choices += len(taken) - 1
        # What is not read is zero in the register that a read under a mask fills.
        self._merged += len(taken) - 1 if isinstance(node.otherwise, Const) else 0
        return taken


def _update_instructions(value: Expr, reducer: Reducer) -> float:
    """The instructions by which a value is reduced into its accumulator."""
    moved = 2.0 if reducer.is_arg else 0.0
    return moved + (_EXTREMUM_INSTRUCTIONS if reducer in _EXTREMUM_REDUCERS and value.dtype.is_float else 1.0)


_DIVISIONS = (BinOp.DIV, BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV)


def _is_by_power_of_two(node: Binary) -> bool:
    """Whether a quotient or remainder of integers is by a power of two: a shift, or some of the bits."""
    by = int(node.b.value) if node.dtype.is_integer and isinstance(node.b, Const) else 0
    return by > 0 and by & (by - 1) == 0


def _long_operations(value: Expr, ranges: Mapping[str, Expr]) -> tuple[tuple[float, frozenset[str]], ...]:
    """Divisions and costly functions, those that a selection by an index never takes left out."""
    found: list[tuple[float, frozenset[str]]] = []
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Select) and is_by_index(node):
            stack.extend(sides_taken(node, ranges))
            continue
        if isinstance(node, Binary) and node.op is BinOp.DIV:
            found.append((DIVISION_COST, free_vars(node)))
        elif isinstance(node, Call) and functions()[node.func].costly:
            found.append((functions()[node.func].cost, free_vars(node)))
        stack.extend(child for child in node.children() if isinstance(child, Expr) and not isinstance(node, Load))
    return tuple(found)


def _widest_bytes(value: Expr) -> int:
    """Bytes of the widest type that an operation on data has, or one of its operands; 0 without an operation.

    What nothing is read for is no data: constants, and indices, whose type is wider than what code generation computes
    them in.
    """
    nodes, stack = [], [value]
    while stack:
        nodes.append(stack.pop())
        stack.extend(_operands(nodes[-1]))
    data: dict[int, int] = {}  # The bytes of each node that is data.
    widest = 0
    for node in reversed(nodes):
        operands = [data[id(operand)] for operand in _operands(node) if id(operand) in data]
        if operands or isinstance(node, Load):
            data[id(node)] = node.dtype.bytes
        if operands:
            widest = max(widest, _computed_bytes(node), *operands)
    return widest


def _operands(node: Expr) -> tuple[Expr, ...]:
    """What an expression computes its value of: of a read, nothing."""
    return () if isinstance(node, Load) else tuple(e for e in node.children() if isinstance(e, Expr))


def _computed_bytes(node: Expr) -> int:
    """Bytes of what a node is computed in, which of a type of storage is another where it is arithmetic."""
    is_moved = isinstance(node, Select | Cast)
    return node.dtype.bytes if is_moved else node.dtype.compute.bytes


# A maximum of floats that passes NaN on: the maximum, a comparison, and a selection by it.
_EXTREMUM_INSTRUCTIONS = 3.0
_EXTREMUM_REDUCERS = (Reducer.MAX, Reducer.MIN)


def _extra_of_extremum(node: Binary) -> float:
    """Instructions that a maximum takes beyond one. A constant is no NaN, so that one with it is an instruction."""
    if node.op not in (BinOp.MAX, BinOp.MIN) or not node.dtype.is_float:
        return 0.0
    return 0.0 if isinstance(node.a, Const) or isinstance(node.b, Const) else _EXTREMUM_INSTRUCTIONS - 1.0


# Bits of factors, with their signs, which vectors multiply to twice as many at once if one factor has no sign.
_FACTOR_BITS = 16


def _adds_up(product: Binary) -> bool:
    """Whether a product and a sum with it count as one instruction: of floats they are one, of short integers two that
    take half as long each."""
    return product.dtype.is_float or _is_short_product(product)


def _is_short_product(node: Binary) -> bool:
    """Whether vectors multiply to 32 bits at once, as code generation sees that a factor's upper bits are zero."""
    factors = (_before_casts(node.a), _before_casts(node.b))
    if not node.dtype.is_integer or node.dtype.bits != 2 * _FACTOR_BITS:
        return False
    return any(f.is_unsigned for f in factors) and all(f.bits + f.is_unsigned <= _FACTOR_BITS for f in factors)


def _extra_of_product(node: Binary) -> int:
    """Instructions that a product of integers takes beyond one: vectors multiply 16 bits at a time."""
    if node.op is not BinOp.MUL or node.dtype.is_float or _is_short_product(node):
        return 0
    return max(node.dtype.bits // 32, 1 if node.dtype.bits == 8 else 0)


def _before_casts(e: Expr) -> DType:
    """The type of an integer before casts to wider ones."""
    while isinstance(e, Cast) and e.value.dtype.is_integer and e.value.dtype.bits < e.dtype.bits:
        e = e.value
    return e.dtype
