"""Buffers whose storage outlives iterations of the loop they are computed in, and keeps a window of one dimension.

Each iteration computes only what earlier ones have not (Halide's sliding window, `store_at` apart from `compute_at`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from metasched.ir import query
from metasched.ir.coverage import elements_of, instances
from metasched.ir.integers.affine import ONE, NotAffine, as_int, const, linear, simplify, substitute
from metasched.ir.integers.data import depends_on_data
from metasched.ir.nodes import Binary, BinOp, Block, Buffer, Expr, For, Func, Roll, Var
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class RollingBuffer:
    """A rolling buffer: the block that writes it, those that read it, and the loops between storage and computation,
    outermost first."""

    buffer: Buffer
    writer: Block
    readers: tuple[Block, ...]
    between: tuple[For, ...]


def rolling_buffers(func: Func) -> Iterator[RollingBuffer]:
    """Every rolling buffer. One whose loop no longer exists, or that is no longer used as one, has no loops between."""
    blocks = query.blocks(func)
    for buffer in func.temps:
        if buffer.roll is None:
            continue
        writers = [b for b in blocks if buffer.name in query.written_buffers(b)]
        readers = tuple(b for b in blocks if buffer.name in query.reads(b))
        if writers:
            shared = shared_loops(func, [writers[0], *readers])
            outside = storage_loops(func, buffer)
            between = None if outside is None else tuple(x for x in shared if x.var not in outside)
            yield RollingBuffer(buffer, writers[0], readers, between or ())


def shared_loops(func: Func, blocks: list[Block]) -> tuple[For, ...]:
    """The loops around all of some blocks, outermost first."""
    return query.common_loops(*(query.loops_above(func, b.name) for b in blocks))


def storage_loops(func: Func, buffer: Buffer) -> frozenset[str] | None:
    """The loops that a rolling buffer's storage is inside; None when its loop is gone."""
    assert buffer.roll is not None
    if not buffer.roll.loop:
        return frozenset()
    try:
        around = query.loops_above_loop(func, buffer.roll.loop)
    except KeyError:
        return None
    return frozenset(x.var for x in around) | {buffer.roll.loop}


def rolling_violations(func: Func) -> Iterator[str]:
    """What is wrong with rolling buffers; whether what is read is still stored is checked in small programs only."""
    for found in rolling_buffers(func):
        name, roll = found.buffer.name, found.buffer.roll
        assert roll is not None
        if not 0 <= roll.axis < len(found.buffer.shape):
            yield f"buffer `{name}`: it rolls along dimension {roll.axis}, which it does not have"
        elif not found.between:
            yield f"buffer `{name}`: no loop is between its storage and where it is computed"
        else:
            yield from _early_replacements(func, found)


def _early_replacements(func: Func, found: RollingBuffer) -> Iterator[str]:
    roll = found.buffer.roll
    assert roll is not None
    window, shape = as_int(roll.window), [as_int(extent) or 0 for extent in found.buffer.shape]
    runs = [instances(b, query.loops_above(func, b.name)) for b in (found.writer, *found.readers)]
    if window is None or any(r is None for r in runs):
        return
    depth = next(n for n, x in enumerate(query.loops_above(func, found.writer.name)) if x == found.between[-1]) + 1
    start = depth - len(found.between)
    events: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = []
    for order, (block, run) in enumerate(zip((found.writer, *found.readers), runs, strict=True)):
        assert run is not None
        accesses = (
            [block.store.indices]
            if not order
            else [x.indices for x in query.reads_of(block) if x.buffer == found.buffer.name]
        )
        for indices in accesses:
            if any(depends_on_data(i) for i in indices):
                continue
            at = elements_of(run, indices)
            rows = np.concatenate([run.loops[:, :depth], at], axis=1)
            # What is outside of the buffer is not read: a condition is around it that does not hold there.
            rows = rows[((at >= 0) & (at < shape)).all(axis=1)]
            events += [(tuple(r[:depth]), order, tuple(r[depth:])) for r in np.unique(rows, axis=0).tolist()]
    held: dict[tuple[int, ...], tuple[int, ...]] = {}
    outside: tuple[int, ...] = ()
    for when, order, element in sorted(events):
        if when[:start] != outside:
            outside, held = when[:start], {}
        slot = (*element[: roll.axis], element[roll.axis] % window, *element[roll.axis + 1 :])
        if not order:
            held[slot] = element
        elif slot in held and held[slot] != element:
            yield f"buffer `{found.buffer.name}`: element {list(element)} is read when another has taken its place"
            return


def amortise_rolling(func: Func) -> Func:
    """`func` with blocks that write rolling buffers computing as many elements in each iteration as they do on average.

    For estimates of work: the first iteration computes the whole window, and each other one as much as it moves.
    """
    for found in rolling_buffers(func):
        loop = _window_loop(func, found)
        roll = found.buffer.roll
        if loop is not None and roll is not None:
            block = query.find_block(func, found.writer.name)
            kept = tuple(g for g in block.guards if not (isinstance(g, Binary) and g.op is BinOp.OR))
            func = query.replace_stmt(func, block, replace(block, guards=kept))
            loop = query.find_loop(func, loop.var)
            func = query.replace_stmt(func, loop, replace(loop, extent=_mean_progress(roll, found.between)))
    return func


def _mean_progress(roll: Roll, between: tuple[For, ...]) -> Expr:
    """Rows that an iteration computes on average, rounded to the nearest number."""
    runs: Expr = ONE
    for loop in between:
        runs = runs * loop.extent
    computed = roll.window + (runs - ONE) * roll.step
    return simplify(Binary(BinOp.FLOORDIV, computed + Binary(BinOp.FLOORDIV, runs, const(2)), runs))


def _window_loop(func: Func, found: RollingBuffer) -> For | None:
    """The loop over the window; None unless there is exactly one."""
    roll = found.buffer.roll
    assert roll is not None
    values = {it.name: b for it, b in zip(found.writer.iters, found.writer.bindings, strict=True)}
    index: Expr = substitute(found.writer.store.indices[roll.axis], values)
    own = query.loops_above(func, found.writer.name)
    between = {x.var for x in found.between}
    inside = [x for x in own[len(shared_loops(func, [found.writer, *found.readers])) :] if x.var not in between]
    try:
        _, terms = linear(index, frozenset(x.var for x in inside))
    except NotAffine:
        return None
    if len(terms) != 1:
        return None
    (digit,) = terms
    loop = next((x for x in inside if digit == Var(x.var)), None)
    return loop if loop is not None and simplify(loop.extent) == simplify(roll.window) else None
