"""Values and their positions in arg-reductions: updates by comparison and selection, in scalars and in lanes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from metasched.compiler import lir
from metasched.compiler.cpu.emit.expressions import Expressions
from metasched.compiler.cpu.emit.scope import Lane
from metasched.compiler.cpu.emit.types import SSAValue
from metasched.ir.integers.linear import Linear
from metasched.ir.nodes import BinOp, Cast, Const, Load
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class _Pair:
    """A value and its position, or a vector of each."""

    value: SSAValue
    position: SSAValue


@dataclass(frozen=True)
class _Order:
    """What comes first: NaN, then the `better` value, then the lowest position.

    `rising`: a new position is higher than the old one. Without `nans` it is undefined where they come.
    """

    better: BinOp
    rising: bool = False
    nans: bool = True

    def may_be_nan(self, value: SSAValue) -> bool:
        """Whether a value may be NaN, and that counts."""
        return self.nans and value.dtype.is_float


class ArgReductions:
    """Emits the updates of arg-reductions by way of `emitter`."""

    def __init__(self, emitter: Expressions) -> None:
        self._emitter = emitter
        self._arith = emitter.arith

    def update(self, stmt: lir.ArgReduction) -> None:
        """One update in the current scope."""
        with self._float_flags(stmt):
            value = self._emitter.value(stmt.value)
        self._update_element(stmt, _Pair(value, self._emitter.value(stmt.position)))

    def is_fold(self, loop: lir.VectorLoop) -> bool:
        """Whether a loop of one strip updates one element with the value and the position in each lane."""
        best, names = loop.body, self._emitter.scope.indices.names
        if (
            not isinstance(best, lir.ArgReduction)
            or loop.extent != Const(loop.lanes)
            or self._emitter.scope.lane is not None
        ):
            return False
        targets = (*names(best.values), *names(best.positions))
        return loop.var not in targets and loop.var in names(best.value)

    def fold(self, loop: lir.VectorLoop) -> None:
        """Reduce the lanes by halves to one, and update the element with it."""
        stmt = loop.body
        assert isinstance(stmt, lir.ArgReduction)
        # A wider type, if any, is for the one that is found.
        position = stmt.position.value if isinstance(stmt.position, Cast) else stmt.position
        if not isinstance(position, Load):
            position = stmt.position
        with self._float_flags(stmt), self._emitter.scope.enter_lanes(Lane(loop.var, loop.lanes), Linear(0)):
            lanes = _Pair(
                self._arith.widen(self._emitter.value(stmt.value), loop.lanes),
                self._arith.widen(self._emitter.value(position), loop.lanes),
            )
        found = self._fold_lanes(_Order(stmt.better, nans=not stmt.fast), lanes)
        self._update_element(stmt, _Pair(found.value, self._arith.cast(found.position, stmt.position.dtype)))

    def _float_flags(self, stmt: lir.ArgReduction) -> AbstractContextManager[None]:
        return self._arith.fastmath() if stmt.fast else nullcontext()

    def _update_element(self, stmt: lir.ArgReduction, new: _Pair) -> None:
        emitter = self._emitter
        old = _Pair(emitter.value(stmt.values), emitter.value(stmt.positions))
        best = self._select_best(_Order(stmt.better, rising=stmt.rising, nans=not stmt.fast), new, old)
        emitter.store(stmt.values.buffer, stmt.values.indices[0], best.value)
        emitter.store(stmt.positions.buffer, stmt.positions.indices[0], best.position)

    def _fold_lanes(self, order: _Order, lanes: _Pair) -> _Pair:
        width = lanes.value.width
        if width == 1:
            return self._take_lane(lanes, 0)
        half = width // 2
        halves = self._select_best(order, self._take_lanes(lanes, half, half), self._take_lanes(lanes, 0, half))
        out = self._fold_lanes(order, halves)
        return self._select_best(order, self._take_lane(lanes, width - 1), out) if width % 2 else out

    def _take_lanes(self, pair: _Pair, first: int, count: int) -> _Pair:
        arith = self._arith
        return _Pair(arith.lanes(pair.value, first, count), arith.lanes(pair.position, first, count))

    def _take_lane(self, pair: _Pair, n: int) -> _Pair:
        return _Pair(self._arith.lane(pair.value, n), self._arith.lane(pair.position, n))

    def _select_best(self, order: _Order, new: _Pair, old: _Pair) -> _Pair:
        moves = self._is_better(order, new.value, old.value) if order.rising else self._comes_first(order, new, old)
        select = self._arith.select
        return _Pair(select(moves, new.value, old.value), select(moves, new.position, old.position))

    def _is_better(self, order: _Order, new: SSAValue, old: SSAValue) -> SSAValue:
        """Whether a value is better than one before it: where neither is NaN, or the new one is."""
        compare = self._arith.binary
        if not order.may_be_nan(new):
            return compare(order.better, new, old)
        no_better = compare(BinOp.LE if order.better is BinOp.GT else BinOp.GE, new, old)
        return compare(BinOp.AND, self._arith.invert(no_better), compare(BinOp.EQ, old, old))

    def _comes_first(self, order: _Order, new: _Pair, old: _Pair) -> SSAValue:
        compare = self._arith.binary
        earlier = compare(BinOp.LT, new.position, old.position)
        tied = compare(BinOp.AND, compare(BinOp.EQ, new.value, old.value), earlier)
        wins = compare(BinOp.OR, compare(order.better, new.value, old.value), tied)
        if not order.may_be_nan(new.value):
            return wins
        is_nan = compare(BinOp.NE, new.value, new.value)
        is_first = compare(BinOp.OR, compare(BinOp.EQ, old.value, old.value), earlier)
        return compare(BinOp.OR, wins, compare(BinOp.AND, is_nan, is_first))
