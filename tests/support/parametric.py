"""Comparing a parametric program, at a row, with a concrete one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.integers.evaluate import evaluate
from metasched.ir.nodes import Block, Expr, For, Func

Values = Mapping[str, int]
POINTS = 48


def require_equal(parametric: Func, columns: tuple[str, ...], row: npt.NDArray[np.int64], concrete: Func) -> None:
    """Loops with their extents, kinds and lanes, blocks with their domains, bindings and guards, and buffers agree.

    Indices are compared by value, at random points of the iteration space: two ways of writing one are the same.
    """
    values = dict(zip(columns, (int(x) for x in row), strict=True))
    ours, theirs = list(query.walk_stmts(parametric.body)), list(query.walk_stmts(concrete.body))
    assert [type(s) for s in ours] == [type(s) for s in theirs]
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, For) and isinstance(b, For):
            _require_equal_loops(a, b, values)
        elif isinstance(a, Block) and isinstance(b, Block):
            _require_equal_blocks(a, b, query.loops_above(concrete, b.name), values)
    assert [_buffer(x, values) for x in parametric.buffers()] == [_buffer(x, {}) for x in concrete.buffers()]


def _require_equal_loops(a: For, b: For, values: Values) -> None:
    assert (a.var, a.kind) == (b.var, b.kind)
    assert _number(a.extent, values) == as_int(b.extent), f"extent of {a.var}"
    assert (a.lanes is None) == (b.lanes is None)
    if a.lanes is not None and b.lanes is not None:
        assert _number(a.lanes, values) == as_int(b.lanes)
    _require_equal_notes(a, b, values)


def _require_equal_notes(a: For | Block, b: For | Block, values: Values) -> None:
    assert [n.key for n in a.annotations] == [n.key for n in b.annotations]
    for ours, theirs in zip(a.annotations, b.annotations, strict=True):
        assert isinstance(ours.value, Expr)
        assert isinstance(theirs.value, Expr)
        assert _number(ours.value, values) == as_int(theirs.value)


def _require_equal_blocks(a: Block, b: Block, loops: tuple[For, ...], values: Values) -> None:
    assert (a.name, a.reducer, a.store.buffer) == (b.name, b.reducer, b.store.buffer)
    for x, y in zip(a.iters, b.iters, strict=True):
        assert (x.name, x.kind) == (y.name, y.kind)
        assert _number(x.extent, values) == as_int(y.extent), f"domain of {a.name}.{x.name}"
    _require_equal_notes(a, b, values)
    points = _points(loops)
    ours = dict(points) | dict(values)
    for own, other in zip((*a.bindings, *a.guards), (*b.bindings, *b.guards), strict=True):
        left, right = evaluate(own, ours), evaluate(other, points)
        shape = np.broadcast_shapes(np.shape(left), np.shape(right))
        np.testing.assert_array_equal(np.broadcast_to(left, shape), np.broadcast_to(right, shape), str(a.name))


def _points(loops: tuple[For, ...]) -> dict[str, npt.NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    out = {}
    for loop in loops:
        extent = as_int(loop.extent)
        assert extent is not None
        out[loop.var] = rng.integers(max(extent, 1), size=POINTS)  # an empty part of a loop has bindings, too
    return out


def _buffer(buffer: object, values: Values) -> tuple[object, ...]:
    shape = [_number(e, values) for e in buffer.shape]  # type: ignore[attr-defined]
    return (buffer.name, shape, buffer.dtype, buffer.scope)  # type: ignore[attr-defined]


def _number(e: Expr, values: Values) -> int:
    return int(evaluate(e, values))
