"""Conditions that depend on the lane alone, such as `c < 3` where lanes are channels: which lanes run is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from metasched.compiler.cpu.emit.indices import Indices
from metasched.compiler.cpu.emit.scope import FunctionScope, Lane
from metasched.dtypes import INDEX
from metasched.ir.integers.evaluate import BINARY, evaluate
from metasched.ir.integers.linear import Linear
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Unary, UnOp, Var

Lanes: TypeAlias = npt.NDArray[np.bool_]  # one for each lane of the vector
Terms: TypeAlias = tuple[tuple[Expr, int], ...]


def running_lanes(scope: FunctionScope) -> Lanes | None:
    """The lanes that run, where the end of the loop and conditions on lanes decide it; None where anything else does,
    or none of them runs.
    """
    lane = scope.lane
    if lane is None or scope.wraps or (lane.mask is not None and lane.active is None):
        return None
    runs = lanes_before_end(lane)
    for guard in scope.guards:
        holds = _lanes_where(scope.indices, lane, guard.source)
        if holds is None:
            return None
        runs = runs & (holds != guard.negated)
    return runs if runs.any() else None


def lanes_before_end(lane: Lane) -> Lanes:
    """The lanes before the end of the loop, as far as that is known."""
    return np.arange(lane.width) < (lane.active or lane.width)


def substitute_lanes(runs: Lanes) -> npt.NDArray[np.intp]:
    """A lane to read for each: itself, or where it does not run, a neighbour, as what that reads is never used."""
    before = np.maximum.accumulate(np.where(runs, np.arange(len(runs)), -1))
    return np.where(before < 0, runs.argmax(), before)


def is_of_lane(indices: Indices, lane: Lane, terms: Terms) -> bool:
    """Whether terms depend on nothing but the lane."""
    return all(indices.names(atom) == (lane.name,) and is_arithmetic(atom) for atom, _ in terms)


def is_arithmetic(e: Expr) -> bool:
    """Whether an index is arithmetic of variables alone: nothing in it is read, cast or called."""
    return all(isinstance(node, Const | Var | Unary | Binary) for node in e.walk())


def sum_of_terms(lane: Lane, numbers: npt.NDArray[np.intp], terms: Iterable[tuple[Expr, int]]) -> npt.NDArray[np.intp]:
    """The sum of terms that depend on the lane alone, in the lanes of some numbers."""
    total = np.zeros_like(numbers)
    for atom, c in terms:
        total += c * np.asarray(evaluate(atom, {lane.name: numbers}), np.intp)
    return total


def _lanes_where(indices: Indices, lane: Lane, e: Expr) -> Lanes | None:
    """The lanes in which a condition holds; None where more than the lane decides it."""
    if isinstance(e, Const):
        return np.full(lane.width, bool(e.value))
    if isinstance(e, Unary) and e.op is UnOp.NOT:
        inner = _lanes_where(indices, lane, e.a)
        return None if inner is None else ~inner
    if not isinstance(e, Binary):
        return None
    if e.op.is_logical:
        a, b = _lanes_where(indices, lane, e.a), _lanes_where(indices, lane, e.b)
        return None if a is None or b is None else BINARY[e.op](a, b)
    if not e.op.is_comparison or e.a.dtype is not INDEX:
        return None
    gap: Linear = indices.form(Binary(BinOp.SUB, e.a, e.b))
    if not is_of_lane(indices, lane, gap.terms):
        return None
    holds: Lanes = BINARY[e.op](gap.const + sum_of_terms(lane, np.arange(lane.width), gap.terms), 0)
    return holds
