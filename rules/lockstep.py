"""Chains of blocks that go on from element to element at one place, computed in one loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

from metasched.rules.facts import Vectorized

import metasched as ms


@ms.rule
def lockstep(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    fewest: int = 3,
    widths: tuple[int, ...] = (64, 256),
    vectors: tuple[int, ...] = (2, 4),
) -> ms.Skip | None:
    """Compute all steps of a few elements before those of the next ones, where each step reads the one before again.

    Applies to the last of several blocks each of which computes an element from that of the block before at the same
    place, which it reads several times, as a walk through a tree does: from the node where it is to the next one. Their
    elements stay in registers; apart, each step would go through memory, and inlining would compute the first ones once
    for each way to read them. A reduction that adds up what the last step leads to has them in its loops: a run of its
    columns innermost, around it what it adds up, so that the tables which one term reads stay in the nearest cache for
    the whole run.

    Steps that go on at their own place in everything that they read hide the latency of one element behind all others
    when they are apart. They are left so where memory is not what they wait for: where they call functions or divide
    (three activations `x * sigmoid(x)` one after another take .75 of the time), and where the second cache holds what
    one of them reads and writes (.45 to .9). Of comparisons beyond that, three take .4 to 1.1 of the time together.

    Few operators: of the library none has such chains; ensembles of decision trees do.

    Args:
        fewest: blocks that a chain has at least.
        widths: the possible numbers of columns in a run; the choice is a random variable.
        vectors: how many vectors of the target are computed side by side, so that the latency of one step of each is
            hidden behind the others.
    """
    info = sch.describe(block)
    chain = _find_chain(sch, info)
    if len(chain) < fewest:
        return ms.skip("it does not end a chain of blocks that each read the one before several times")
    reason = _why_apart(sch, chain)
    if reason is not None:
        return ms.skip(reason)
    reader = _find_reader(sch, info)
    width = [sch.target.lanes(info.dtype) * count for count in vectors]
    steps: Callable[[ms.Schedule], object] = partial(_compute, block=block, chain=chain, width=width)
    if reader is not None:
        steps = partial(_compute_in_reader, block=block, chain=chain, reader=reader, sizes=(widths, width))
    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(refusal)
    steps(sch)
    for step in chain:
        sch.add_fact(sch.get_block(step.name), Vectorized())
    return None


def _find_chain(sch: ms.Schedule, last: ms.BlockInfo) -> list[ms.BlockInfo]:
    """The blocks of a chain, the last one first; none where the last one is not the end of it."""
    if not _is_step(last) or any(_goes_on(sch.describe(sch.get_block(name)), last) for name in last.readers):
        return []
    found = [last]
    while True:
        step = found[-1]
        before = [source for source in map(sch.describe, map(sch.get_block, step.sources)) if _goes_on(step, source)]
        if len(before) != 1 or not _is_step(before[0]) or before[0].output:
            return found
        found.append(before[0])


def _why_apart(sch: ms.Schedule, chain: list[ms.BlockInfo]) -> str | None:
    """Why the steps of a chain are as fast apart; None where they are not."""
    if not all(step.elementwise for step in chain):
        return None
    if any(step.calls or step.divides for step in chain):
        return "its steps are element-wise, and call functions or divide, which takes longer than memory does"
    extents = [it.extent for it in chain[0].spatial]
    if None not in extents and 2 * chain[0].dtype.bytes * prod(n for n in extents if n) <= sch.target.l2:
        return "its steps are element-wise, and the second cache holds what one of them reads and writes"
    return None


def _is_step(info: ms.BlockInfo) -> bool:
    return info.trivial and not info.reduces and bool(info.spatial)


def _goes_on(step: ms.BlockInfo, before: ms.BlockInfo) -> bool:
    """Whether a block reads another at its own place alone, several times, and is all that reads it."""
    own = tuple(it.name for it in step.spatial)
    reads = [read for read in step.reads if read.buffer == before.writes]
    same = [it.extent for it in step.spatial] == [it.extent for it in before.spatial]
    return before.readers == (step.name,) and len(reads) > 1 and same and all(read.bare == own for read in reads)


@dataclass(frozen=True)
class _Reader:
    """A reduction that reads what the last step of a chain leads to.

    `along` names, for each of the last step's iteration variables, that of the reduction which it is.
    """

    info: ms.BlockInfo
    along: tuple[str, ...]


def _find_reader(sch: ms.Schedule, last: ms.BlockInfo) -> _Reader | None:
    if len(last.readers) != 1:
        return None
    info = sch.describe(sch.get_block(last.readers[0]))
    reads = {read.bare for read in info.reads if read.buffer == last.writes}
    along = next(iter(reads)) if len(reads) == 1 else ()
    names = tuple(name for name in along if name is not None)
    terms = {it.name for it in info.reduction}
    if not info.reduces or not info.trivial or len(set(names)) != len(last.spatial) or not terms <= set(names):
        return None
    columns = last.spatial[-1].extent
    long = columns is None or columns >= sch.target.lanes(last.dtype)
    return _Reader(info, names) if long and info.spatial and info.spatial[-1].name == names[-1] else None


def _compute(sch: ms.Schedule, block: ms.BlockRV, chain: list[ms.BlockInfo], width: list[int]) -> ms.Int:
    """Compute the blocks of a chain in the longest loop of the last one, moved innermost. Gives how many at a time."""
    loops, last = sch.get_loops(block), sch.describe(block)
    at = max((n for n, extent in enumerate(last.extents) if extent != 1), default=len(loops) - 1)
    if at + 1 < len(loops):
        sch.reorder(*loops[at + 1 :], loops[at])
    for step in chain[1:]:
        sch.compute_at(sch.get_block(step.name), loops[at])
    lanes = sch.sample_categorical(width, name="lanes")
    sch.vectorize(loops[at], lanes=lanes)
    return lanes


def _compute_in_reader(
    sch: ms.Schedule,
    block: ms.BlockRV,
    chain: list[ms.BlockInfo],
    reader: _Reader,
    sizes: tuple[tuple[int, ...], list[int]],
) -> None:
    """Compute the chain in the loops of a reduction that reads its last block, for a run of columns at a time."""
    widths, width = sizes
    summed = sch.get_block(reader.info.name)
    loops = dict(zip([it.name for it in reader.info.iters], sch.get_loops(summed), strict=True))
    outer, run = sch.split(loops[reader.along[-1]], [None, sch.sample_categorical(list(widths), name="columns")])
    walked = [loops[name] for name in reader.along[:-1]]
    others = [loop for name, loop in loops.items() if name not in reader.along]
    sch.reorder(outer, *walked, *others, run)
    sch.compute_at(block, walked[-1])
    sch.vectorize(sch.get_loops(summed)[-1], lanes=_compute(sch, block, chain, width))
    sch.add_fact(summed, Vectorized())
