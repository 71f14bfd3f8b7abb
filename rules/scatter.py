"""Sums of what belongs to each place, by going to the place of each term."""

from __future__ import annotations

from dataclasses import dataclass

from metasched.rules.facts import Factored, Threaded

import metasched as ms

SCATTERED, COMPARED = "scattered", "compared"


@ms.rule
def scatter(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    fewest: int = 8,
    always: int = 64,
    strips: tuple[int, ...] = (1, 2, 4),
    copies: tuple[int, ...] = (4, 2, 8),
    near: int = 1 << 14,
    tiny: int = 1 << 14,
    strip: int = 64,
) -> ms.Skip | None:
    """Add each term at the place that data says it belongs to, instead of comparing it with every place.

    Applies to reductions whose terms are under a condition that a place equals one of the result's indices: histograms,
    sums of what falls into cells or segments, products with one-hot matrices, gradients of embeddings. Indices that the
    place does not depend on are innermost, and it is found once for all of them. Where it depends on neighbouring
    elements, the terms of a strip of these are taken in turns, as they lie in memory. Where threads have nothing else
    to share, each has sums of its own of strips of the terms (`rfactor`), which are added up at the end, and so have
    neighbouring terms, as two terms for one place would wait for one another. For few places it is a structural choice:
    scattered, or compared, which vectors do for several places at a time.

    Args:
        fewest: the fewest places to apply this to.
        always: the places from which it is no choice.
        strips: the possible numbers of strips of terms for each thread.
        copies: the possible numbers of neighbouring terms that have sums of their own.
        near: the most bytes of a result for neighbouring terms to have sums of their own.
        tiny: terms below which threads take longer to start than they gain.
        strip: the most neighbouring elements whose terms are taken in turns.
    """
    info = sch.describe(block)
    if not info.places:
        return ms.skip("no condition of it says at which place a term is")
    found = _nest_of(sch, block, info)
    if found is None:
        return ms.skip("the loops over its places and terms are not its own any more")
    if found.extent < fewest:
        return ms.skip(f"it has so few places ({found.extent}) that comparing takes no longer")
    alone = found.only_terms and sch.facts(block, Threaded) is None
    limits = _Limits(strips, copies, near, tiny, strip)

    def steps(on: ms.Schedule) -> None:
        if info.sum_block:
            _lengthen_blocks(on, block, max(info.sum_block, 8 * found.extent))
        if alone and info.initialises and (info.size(info.reduction) or 0) >= limits.tiny:
            _sum_strips(on, block, info, limits)
        else:
            _place(on, block, limits)

    refusal = sch.refusal(steps)
    if refusal is not None:
        return ms.skip(refusal)
    if found.extent >= always or sch.choose("places", [SCATTERED, COMPARED]) == SCATTERED:
        steps(sch)
    return None


@dataclass(frozen=True)
class _Limits:
    """What the rule is set to, under the names of its settings."""

    strips: tuple[int, ...]
    copies: tuple[int, ...]
    near: int
    tiny: int
    strip: int


@dataclass(frozen=True)
class _Nest:
    """The loops that hold nothing but the block: those around the loops over places, these, and those inside.

    `neighbours` is the loop around that goes over neighbouring elements, each of which has terms of its own. `extent`
    is how many places there are. `only_terms` says that threads have nothing to share but terms.
    """

    around: tuple[ms.LoopRV, ...]
    places: tuple[ms.LoopRV, ...]
    inside: tuple[ms.LoopRV, ...]
    neighbours: ms.LoopRV | None
    extent: int
    only_terms: bool


def _nest_of(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, shared: ms.LoopRV | None = None) -> _Nest | None:
    """The order of a block's own loops in which it can be scattered; one that threads share is around the places."""
    own = [
        (handle, info.iter_of(name))
        for handle, name, held, kind in zip(sch.get_loops(block), info.loops, info.held, info.kinds, strict=True)
        if held == 1 and kind is ms.LoopKind.SERIAL
    ]
    over = {its[0].name: handle for handle, its in own if len(its) == 1 and its[0].name in info.places}
    placed = [it for it in info.iters if it.name in over and len(it.loops) == 1]
    extent = info.size(tuple(placed))
    if not placed or extent is None:
        return None
    places = [over[it.name] for it in placed]
    others = [(handle, its) for handle, its in own if handle not in places]
    inside = [
        handle
        for handle, its in others
        if handle != shared and its and not any(it.reduces or _decides(info, it) for it in its)
    ]
    moving = [it for it in info.spatial if it not in placed and it.extent != 1]
    enough = sch.target.threads * 64
    alone = not any((it.extent or 0) >= enough for it in moving) and (info.size(tuple(moving)) or 0) < enough
    only_terms = alone and not all(it.reduces for it in placed)
    around = [handle for handle, _ in others if handle not in inside]
    last = info.spatial[-1:]  # a scalar has none
    neighbours = next((handle for handle, its in others if handle in around and last and its == last), None)
    return _Nest(tuple(around), tuple(places), tuple(inside), neighbours, extent, only_terms)


def _decides(info: ms.BlockInfo, it: ms.IterInfo) -> bool:
    return any(it.name in used for used in info.places.values())


def _place(sch: ms.Schedule, block: ms.BlockRV, limits: _Limits, shared: ms.LoopRV | None = None) -> None:
    """Put the loops over places inside those that decide them and the one that threads share, and run them at the place
    of each term."""
    found = _nest_of(sch, block, sch.describe(block), shared)
    assert found is not None
    around = list(found.around)
    if found.neighbours is not None and found.neighbours != shared:
        strip, within = sch.split(found.neighbours, [None, limits.strip])
        around = [strip if loop == found.neighbours else loop for loop in around] + [within]
    sch.reorder(*around, *found.places, *found.inside)
    for loop in reversed(found.places):
        sch.scatter(loop)


def _lengthen_blocks(sch: ms.Schedule, block: ms.BlockRV, length: int) -> None:
    """Blocks of a sum that are long beside the places: each starts and ends with all of these."""

    def without(on: ms.Schedule) -> None:
        on.unannotate(block, "blocked_sum")

    if sch.refusal(without) is None:
        without(sch)
        sch.annotate(block, "blocked_sum", length)


def _sum_strips(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, limits: _Limits) -> None:
    """Sums of strips of the terms, on all threads, and of neighbouring terms where the result is small."""
    loops = dict(zip(info.loops, sch.get_loops(block), strict=True))
    reduction = [it for it in info.reduction if it.name not in info.places]
    terms = [loops[it.loops[0]] for it in reduction]
    threads = sch.target.threads
    first, last = terms[0], terms[-1]
    if len(terms) > 1 and (reduction[0].extent or 0) < 4 * threads * max(limits.strips):
        first = last = sch.fuse(*terms)
    small = info.dtype.bytes * (info.size(info.spatial) or limits.near + 1) <= limits.near
    strip, rest = sch.split(first, [sch.sample_categorical([threads * n for n in limits.strips], name="strips"), None])
    near = None
    if small:
        _, near = sch.split(
            rest if last is first else last, [None, sch.sample_categorical(list(limits.copies), name="copies")]
        )
    partial = sch.rfactor(strip)
    sch.add_fact(block, Factored())
    if near is not None:
        whole, partial = partial, sch.rfactor(near)
        sch.add_fact(whole, Factored())
    sch.add_fact(partial, Factored())
    _place(sch, partial, limits, strip)
    if near is not None:
        sch.unroll(near)
    sch.parallel(strip)
    sch.add_fact(partial, Threaded())
