"""Which instances of its blocks a small concrete program runs, by enumerating them.

Every instance is in its domain. Blocks that write outputs run every instance exactly once. A block that writes an
intermediate buffer may be recomputed: all instances of an element then run equally often, or not at all if the element
is not needed. No iteration of a parallel or vector loop reads or writes what another iteration writes, but what several
compute for themselves. Lanes of a vector have one array for that: no sum there takes a term twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from metasched.ir import query
from metasched.ir.integers.affine import as_int, free_vars
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.evaluate import evaluate
from metasched.ir.nodes import Block, Const, Expr, For, Func, IterKind, Load, LoopKind, Select
from metasched.support.data_classes import dataclass


class _Runs(Enum):
    """How often an instance may run."""

    ONCE = "once"
    EQUALLY_OFTEN = "as often as the others of its element"


Array = np.ndarray[Any, np.dtype[np.int64]]

MOST_INSTANCES = 4096  # iterations of a block's loops, and points of its domain
_LARGEST_I64_CONSTANT = 2**31  # a number of that size times a loop's is in 64 bits


@dataclass(frozen=True)
class Instances:
    """The instances of a block that run, in order: values of loops and of iteration variables, a row each."""

    block: Block
    above: tuple[For, ...]
    loops: Array
    iters: Array
    extents: tuple[int, ...]


def coverage_violations(func: Func) -> Iterator[str]:
    """What is wrong with the instances that run, a sentence each; blocks too large to enumerate are left out."""
    outputs = {b.name for b in func.outputs}
    known: dict[str, Instances] = {}
    for block in query.blocks(func):
        found = instances(block, query.loops_above(func, block.name))
        if found is not None:
            known[block.name] = found
    for parts in _parts(func):
        if all(b.name in known for b in parts):
            once = not outputs.isdisjoint(query.written_buffers(parts[0])) and not _is_over_fill(func, parts[0])
            allowed = _Runs.ONCE if once else _Runs.EQUALLY_OFTEN
            runs = [known[b.name] for b in parts]
            yield from _double_writes(runs, allowed)
            every = _merge_parts([_instances_without_guards(run) for run in runs])
            yield from (f"block `{parts[0].name}`: {v}" for v in _domain_violations(_merge_parts(runs), every, allowed))
    yield from _unwritten_reads(func, known)
    for loop in query.loops(func):
        if loop.kind in (LoopKind.PARALLEL, LoopKind.VECTORIZED) and not query.reduces_in_lanes(loop):
            yield from (f"loop `{loop.var}` is {loop.kind.value}: {v}" for v in _conflicts(func, loop, known))
        if loop.kind is LoopKind.VECTORIZED:
            yield from (f"loop `{loop.var}` is {loop.kind.value}: {v}" for v in _repeated_terms(loop, known))


def _parts(func: Func) -> Iterator[list[Block]]:
    """The blocks, those that write parts of one buffer together."""
    by_buffer: dict[str, list[Block]] = {}
    for block in query.blocks(func):
        by_buffer.setdefault(query.writes(block), []).append(block)
    for found in by_buffer.values():
        yield from query.partitions(found)


def _double_writes(parts: list[Instances], allowed: _Runs) -> Iterator[str]:
    """Instances that several parts run; where recomputation is allowed, in one iteration of the loops they share."""
    shared = 0 if allowed is _Runs.ONCE else len(query.common_loops(*(part.above for part in parts)))
    seen: dict[tuple[int, ...], str] = {}
    for part in parts:
        name = part.block.name
        for row in map(tuple, np.concatenate([part.loops[:, :shared], part.iters], axis=1).tolist()):
            other = seen.setdefault(row, name)
            if other != name:
                yield f"`{other}` and `{name}` both write `{query.writes(part.block)}`"
                return


def _merge_parts(parts: list[Instances]) -> Instances:
    """The instances of blocks that are parts of one; the loops are those of the first."""
    return replace(parts[0], iters=np.concatenate([p.iters for p in parts]))


def _is_over_fill(func: Func, block: Block) -> bool:
    """Whether an earlier block fills the buffer: this one writes over a part of it."""
    mine = [b for b in query.blocks(func) if query.writes(b) == query.writes(block)]
    return block.reducer is None and mine[0] is not block and query.is_fill(mine[0])


def instances(block: Block, above: tuple[For, ...]) -> Instances | None:
    """The instances of a block, or None when they are not known or more than `MOST_INSTANCES`."""
    sizes = [as_int(x.extent) for x in above]
    extents = [as_int(it.extent) for it in block.iters]
    if any(n is None for n in (*sizes, *extents)):
        return None
    counts = [n for n in sizes if n is not None]
    domain = tuple(n for n in extents if n is not None)
    rows = math.prod(counts)
    if rows > MOST_INSTANCES or math.prod(domain) > MOST_INSTANCES:
        return None
    loops = np.indices(counts).reshape(len(counts), rows).T
    env = {x.var: loops[:, n] for n, x in enumerate(above)}
    runs = np.ones(rows, np.bool_)
    for guard in block.guards:
        runs &= _evaluate_column(guard, env, rows).astype(np.bool_)
    iters = (
        np.stack([_evaluate_column(b, env, rows) for b in block.bindings], axis=1)
        if block.iters
        else np.zeros((rows, 0))
    )
    return Instances(block, above, loops[runs], iters[runs].astype(np.int64), domain)


def _evaluate_column(e: Expr, env: dict[str, Array], rows: int) -> Array:
    if any(isinstance(node, Const) and abs(node.value) > _LARGEST_I64_CONSTANT for node in e.walk()):
        # Imperfect tiles may leave 64 bits, which is refused when they are compiled: integers of any size count them.
        env = {name: column.astype(object) for name, column in env.items()}
    return np.broadcast_to(np.asarray(evaluate(e, env)), (rows,))


def _instances_without_guards(found: Instances) -> Instances:
    """The instances in the domain that would run without the guards that may leave instances out."""
    block = found.block
    guards = tuple(
        g for g in block.guards if not _leaves_out(block, g) and not _relates_variables(block, g, found.above)
    )
    return _domain_instances(replace(block, guards=guards), found.above)


def _domain_instances(block: Block, above: tuple[For, ...]) -> Instances:
    """The instances of a block that are in its domain."""
    every = instances(block, above)
    assert every is not None
    inside = ((every.iters >= 0) & (every.iters < np.array(every.extents, np.int64))).all(axis=1)
    return replace(every, loops=every.loops[inside], iters=every.iters[inside])


def _domain_violations(found: Instances, every: Instances, allowed: _Runs) -> Iterator[str]:
    block, iters = found.block, found.iters
    outside = [n for n, size in enumerate(found.extents) if ((iters[:, n] < 0) | (iters[:, n] >= size)).any()]
    for n in outside:
        yield f"`{block.iters[n].name}` leaves its domain of {found.extents[n]}"
    if outside:
        return
    counts = np.zeros(found.extents, np.int64)
    np.add.at(counts, tuple(iters.T), 1)
    reduce_axes = tuple(n for n, it in enumerate(block.iters) if it.kind is IterKind.REDUCE)
    most = counts.max(axis=reduce_axes, keepdims=True) if reduce_axes else counts
    highest = int(np.max(counts, initial=0))
    if allowed is _Runs.ONCE and highest > 1:
        yield f"instance {_point_text(block, counts > 1)} runs {highest} times"
    missing = (counts == 0) if allowed is _Runs.ONCE else (counts == 0) & (most > 0)
    # An instance that would run without such guards, and that they may leave out, need not run.
    excused = np.zeros(found.extents, np.bool_)
    excused[tuple(every.iters.T)] = True
    missing &= ~excused
    if missing.any():
        yield f"instance {_point_text(block, missing)} does not run"
    fewer = (counts > 0) & (counts != most)
    if fewer.any():
        yield f"instance {_point_text(block, fewer)} runs less often than others of its element"


def _leaves_out(block: Block, guard: Expr) -> bool:
    """Whether a guard is over several iteration variables, so that some combinations of them are not in the domain."""
    used = free_vars(guard)
    reduced, spatial = query.reduced_loops(block), query.spatial_loops(block)
    if not any(used <= free_vars(b) for b in block.bindings) or (used & reduced and used & spatial):
        return True
    return bool(used & reduced) and _has_unit(block)


def _has_unit(block: Block) -> bool:
    """Whether an iteration variable is always 0: a guard over it need not mention it."""
    return any(as_int(it.extent) == 1 and as_int(b) == 0 for it, b in zip(block.iters, block.bindings, strict=True))


def _relates_variables(block: Block, guard: Expr, above: tuple[For, ...]) -> bool:
    """Whether the instances that a guard leaves out do not follow from any iteration variable alone.

    Their loops may not show it: fusing makes one of several.
    """
    every, runs = (
        _domain_instances(replace(block, guards=()), above),
        _domain_instances(replace(block, guards=(guard,)), above),
    )
    kept = np.zeros(every.extents, np.bool_)
    kept[tuple(runs.iters.T)] = True
    left_out = np.zeros(every.extents, np.bool_)
    left_out[tuple(every.iters.T)] = True
    left_out &= ~kept
    axes = range(kept.ndim)
    others = [tuple(m for m in axes if m != n) for n in axes]
    return bool(axes) and all((kept.any(axis=o) & left_out.any(axis=o)).any() for o in others)


def _keep_init_guards(block: Block) -> Block:
    """The block with the guards of its `init` only: an element without terms is written as well."""
    if block.init is None:
        return block
    own = query.reduced_loops(block) - query.spatial_loops(block)
    return replace(block, guards=tuple(g for g in block.guards if own.isdisjoint(free_vars(g))))


def _point_text(block: Block, where: Any) -> str:
    first = np.argwhere(where)[0]
    return "(" + ", ".join(f"{it.name} = {value}" for it, value in zip(block.iters, first, strict=True)) + ")"


def _unwritten_reads(func: Func, known: dict[str, Instances]) -> Iterator[str]:
    """Unconditional reads of elements that no instance writes."""
    writers: dict[str, list[Block]] = {}
    for block in query.blocks(func):
        for name in query.written_buffers(block):
            writers.setdefault(name, []).append(block)
    for reader in known.values():
        for load in _certain_loads(reader.block):
            sources = [known.get(b.name) for b in writers.get(load.buffer, ())]
            if not sources or None in sources or any(depends_on_data(i) for i in load.indices):
                continue
            written = {row for s in sources if s is not None for row in _written_elements(s)}
            if not set(map(tuple, elements_of(reader, load.indices).tolist())) <= written:
                yield f"block `{reader.block.name}`: it reads elements of `{load.buffer}` that nothing writes"


def _written_elements(found: Instances) -> set[tuple[int, ...]]:
    started = instances(_keep_init_guards(found.block), found.above)
    assert started is not None
    return set(map(tuple, elements_of(started, found.block.store.indices).tolist()))


# --- loops that run at once ------------------------------------------------------------------------------


def _conflicts(func: Func, loop: For, known: dict[str, Instances]) -> Iterator[str]:
    inside = query.blocks_under(loop)
    names = {b.name for b in inside}
    everywhere = query.blocks(func)
    outputs = {b.name for b in func.outputs}
    for writer, buffer in [(b, name) for b in inside for name in query.written_buffers(b)]:
        found = known.get(writer.name)
        if found is None:
            continue
        shared = buffer in outputs or any(buffer in query.reads(r) and r.name not in names for r in everywhere)
        if shared and _overlaps(found, loop):
            yield f"several iterations write the same elements of `{buffer}`, which is read after it"
        # A fill and the copy over it count as one writer.
        together = [known.get(b.name) for b in inside if buffer in query.written_buffers(b)]
        for reader in inside:
            other = known.get(reader.name)
            if (
                buffer in query.reads(reader)
                and other is not None
                and not _reads_own_writes(together, other, loop, buffer)
            ):
                yield f"`{reader.name}` reads elements of `{buffer}` that other iterations write"


def _keys(found: Instances, loop: For, columns: Array) -> set[tuple[int, ...]]:
    """Rows of the loops down to `loop`, and the columns."""
    at = next(n for n, x in enumerate(found.above) if x.var == loop.var)
    return set(map(tuple, np.concatenate([found.loops[:, : at + 1], columns], axis=1).tolist()))


def _overlaps(found: Instances, loop: For) -> bool:
    at = next(n for n, x in enumerate(found.above) if x.var == loop.var)
    spatial = [n for n, it in enumerate(found.block.iters) if it.kind is IterKind.SPATIAL]
    per_iteration = _keys(found, loop, found.iters[:, spatial])
    return len({(*key[:at], *key[at + 1 :]) for key in per_iteration}) < len(per_iteration)


def _reads_own_writes(writers: list[Instances | None], reader: Instances, loop: For, buffer: str) -> bool:
    """Whether an iteration writes everything that it reads unconditionally, as far as the writers are known.

    Conditional reads are ignored.
    """
    written: set[tuple[int, ...]] = set()
    for writer in writers:
        if writer is None:
            return True
        started = instances(_keep_init_guards(writer.block), writer.above)
        assert started is not None
        written |= _keys(started, loop, elements_of(started, writer.block.store.indices))
    for load in _certain_loads(reader.block):
        known = load.buffer == buffer and not any(depends_on_data(i) for i in load.indices)
        if known and not _keys(reader, loop, elements_of(reader, load.indices)) <= written:
            return False
    return True


def _repeated_terms(loop: For, known: dict[str, Instances]) -> Iterator[str]:
    """Sums that lanes of a vector loop have begun together, and to which they add a term at different times."""
    inside = query.blocks_under(loop)
    for buffer in dict.fromkeys(map(query.writes, inside)):
        writers = [block for block in inside if query.writes(block) == buffer]
        if any(block.name not in known for block in writers):
            continue
        adding = [block for block in writers if block.reducer is not None and not block.reducer.allows_repeats]
        for pair in combinations_with_replacement(adding, 2):
            each_begins = all(block.init is not None for block in pair)
            shared = query.common_loops(*(known[b.name].above for b in (pair if each_begins else writers)))
            of_terms = (n for n, x in enumerate(shared) if any(_reduces_over(b, x) for b in pair))
            around = next(of_terms, len(shared))
            mixed = pair[0] is pair[1] or not each_begins or around < len(shared)
            if mixed and _adds_twice([known[block.name] for block in pair], loop, around):
                yield f"lanes add a term twice to elements of `{buffer}` in `{pair[0].name}`"


def _reduces_over(block: Block, loop: For) -> bool:
    return loop.var in query.reduced_loops(block) and as_int(loop.extent) != 1


def _adds_twice(parts: list[Instances], loop: For, around: int) -> bool:
    """Whether a term of an element is there at two times in one iteration of the first `around` loops, and in one
    vector."""
    lanes = None if loop.lanes is None else as_int(loop.lanes)
    if lanes is None:
        return False
    seen: dict[tuple[int, ...], tuple[str, tuple[int, ...]]] = {}
    for part in parts:
        at = next(n for n, x in enumerate(part.above) if x.var == loop.var)
        places = part.loops.copy()
        places[:, at] //= lanes
        terms = part.iters[:, [n for n, it in enumerate(part.block.iters) if it.kind is IterKind.REDUCE]]
        elements = elements_of(part, part.block.store.indices)
        keys = np.concatenate([places[:, :around], places[:, at : at + 1], elements, terms], axis=1)
        for key, place in zip(keys.tolist(), places.tolist(), strict=True):
            time = part.block.name, tuple(place)
            if seen.setdefault(tuple(key), time) != time:
                return True
    return False


def elements_of(found: Instances, indices: tuple[Expr, ...]) -> Array:
    """The elements that an access touches, one row per instance."""
    env = {it.name: found.iters[:, n] for n, it in enumerate(found.block.iters)}
    rows = len(found.iters)
    at = [_evaluate_column(i, env, rows) for i in indices]
    return np.stack(at, axis=1) if at else np.zeros((rows, 0), np.int64)


def _certain_loads(block: Block) -> Iterator[Load]:
    for e in [*(store.value for store in block.stores), *([] if block.init is None else [block.init])]:
        yield from _unconditional_loads(e)


def _unconditional_loads(e: Expr) -> Iterator[Load]:
    if isinstance(e, Load):
        yield e
    for child in (e.cond,) if isinstance(e, Select) else e.children():
        assert isinstance(child, Expr)
        yield from _unconditional_loads(child)
