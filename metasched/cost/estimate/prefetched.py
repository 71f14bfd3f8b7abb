"""How much longer lines take to come where prefetchers do not bring them in time, over a population.

Prefetchers follow rows in the order of addresses, some at a time and not into the next page. What they bring is lost
again where rows are as far apart as makes them share the few places of a cache: a multiple of a page of 4 KB. What they
do not see, a core waits for, as far as it does not see it ahead itself.
"""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.footprint import PAGE, Array, Footprint, Levels, Mask, flat_step, take_level
from metasched.cost.estimate.statement import StatementView
from metasched.target import CACHE_LINE

# Rows that prefetchers follow at a time, and from how many on they follow none of those in memory.
_FOLLOWED, _TOO_MANY = 8.0, 128.0
# Lines a multiple of a page apart that the first cache holds, and from how many on none of them is held for long.
_HELD, _LOST = 8.0, 48.0
# The share of the time for coming to another page that is left where pages are read in turns: where their lines share
# the places of a cache, and where they do not.
_AGAIN_IN_ONE_PLACE, _AGAIN = 0.5, 0.25
# The bytes that would come in the time until prefetchers follow a row that is read alone, and of how long a part on
# this is for each page of it. Cores do not see the next part ahead: it is many instructions away.
_BEGUN, _PART_BEGUN = 2000.0, 2048.0


def l3_slowdown(view: StatementView, access: int, level: Levels) -> Array:
    """How many times as long lines from the third cache take that are not next to one another: prefetchers do not
    follow short runs. Those that the second cache holds come as fast without them.

    `level` is the loop under which the second cache holds what the access touches, for each row of the population.
    Parts of rows a page or more apart only take longer where they share the places of a cache. (8 MB on a Zen 4, all
    times relative to those of 8 rows in turns: parts of 64, 128 and 256 bytes of 512 rows of 16 KB take 8, 5 and 2.3,
    of 32 such rows 5.5, 4 and 2.2; of rows of 16 KB and 64 bytes never more than 1.7.)
    """
    place = view.statement.accesses[access]
    core, footprint, element = view.core, view.footprints[access], place.element_bytes
    far = _vectors_in_page_rows(view, access)
    near = np.where(far | place.is_store, np.maximum(level, view.fits[0]), level)
    longest = core.scattered_store if place.is_store else np.where(far, core.scattered_pages, core.scatter)

    def excess(run: Array) -> Array:
        short: Array = 1.0 - np.minimum(run * element / core.stream_bytes, 1.0)
        return (longest - 1.0) * short

    found = excess(take_level(footprint.run, near))
    if not np.count_nonzero(far):
        return 1.0 + found
    sharing = _place_count(footprint, element)
    found = np.where(far, _lost_share(_row_count(footprint, near) / sharing) * found, found)
    for rows, run in _rows_in_turns(footprint, near):
        found = np.where(far, np.maximum(found, _lost_share(rows / sharing) * excess(run)), found)
    return 1.0 + found


def memory_slowdown(view: StatementView, access: int, level: Levels) -> Array:
    """How many times as long lines from memory take that are not next to one another, as `l3_slowdown` for the third
    cache. Parts of rows that are a page or more apart are translated anew each, which takes the longer the shorter they
    are, and some of it where rows are read in turns, whose translations are at hand.

    (64 MB on a Zen 4, relative to 8 rows in turns: parts of 64, 128 and 256 bytes of one row of 16 KB after another
    take 8, 3.7 and 2.4, of 64 such rows in turns 3.2, 2.3 and 2; of 64 rows of 16 KB and 64 bytes 1.3 to 1.9, of 256
    2.3.)
    """
    far = _vectors_in_page_rows(view, access)
    footprint, element = view.footprints[access], view.statement.accesses[access].element_bytes
    near = np.maximum(level, view.fits[0])
    if not np.all(far):
        begun = _row_start_factor(view, access, near, _followed_run(footprint, near))
        beside: Array = np.maximum(l3_slowdown(view, access, level), 1.0 + begun)
        if not np.count_nonzero(far):
            return beside
    sharing = _place_count(footprint, element)

    def excess(run: Array) -> Array:
        part = np.clip(run * element, element, PAGE)
        found: Array = view.core.page_bytes * (1.0 / part - 1.0 / PAGE)
        return found

    run = take_level(footprint.run, near)
    found: Array = np.maximum(excess(run), _row_start_factor(view, access, near, run))
    for rows, run in _rows_in_turns(footprint, near):
        unseen = np.clip((rows - _FOLLOWED) / (_TOO_MANY - _FOLLOWED), 0.0, 1.0)
        again = np.maximum(_AGAIN_IN_ONE_PLACE * _lost_share(rows / sharing), _AGAIN * unseen)
        found = np.maximum(found, again * excess(run))
    found = 1.0 + found
    return found if np.all(far) else np.where(far, found, beside)


def _followed_run(footprint: Footprint, near: Levels) -> Array:
    """Elements one after another in memory that loops read in their order: of what is held, and of the iterations of
    the loops around that go on where the one before ended."""
    found = take_level(footprint.run, near)
    goes_on = take_level(footprint.elements, near) <= found
    for level in reversed(range(len(footprint.run))):
        outside = level < near // len(near)
        goes_on &= ~outside | (footprint.elements[level] <= footprint.run[level])
        found = np.where(outside & goes_on, footprint.run[level], found)
    return found


def _row_start_factor(view: StatementView, access: int, near: Levels, run: Array) -> Array:
    """The time on top, relative to bytes that come, to follow the rows of a sum, of which few are read in turns.
    Where a loop asks for them, they are there.

    (A row of 4,096 to 32,000 numbers times a matrix of 180 to 260 MB on a Zen 4, relative to 8 rows in turns: parts of
    2 KB take 2.1, of 4 KB 1.6, of 8 KB 1.5, and those 1.3 where two rows are read in turns and 1.1 of four; of rows of
    128 KB, one after another in memory, 1.2. Of 16 panels of 1 MB in turns, on a busy machine, parts of 7 KB 2.3 and of
    64 KB 1.2.)
    """
    if view.statement.reducer is None:
        return view.full(0.0)
    footprint, element = view.footprints[access], view.statement.accesses[access].element_bytes
    at_a_time = view.full(1.0)
    for rows, read in _rows_in_turns(footprint, near):
        at_a_time = np.where(read < run, np.maximum(at_a_time, rows), at_a_time)
    part = run * element
    alone = 1.0 - np.log2(np.clip(at_a_time, 1.0, _FOLLOWED)) / np.log2(_FOLLOWED)
    each = _BEGUN / np.clip(part, _PART_BEGUN, PAGE) * np.minimum(PAGE / np.maximum(part, PAGE), 1.0) ** 0.25
    found: Array = np.where(_has_prefetch(view, access), np.float32(0.0), alone * each)
    return found


def _row_count(footprint: Footprint, level: Levels) -> Array:
    rows: Array = take_level(footprint.elements, level) / np.maximum(take_level(footprint.run, level), 1.0)
    return rows


def _rows_in_turns(footprint: Footprint, level: Levels) -> list[tuple[Array, Array]]:
    """For each loop the rows of which it reads a part each in turns, and the elements of a part; 0 rows outside the
    loop under which what is touched is held."""
    outermost = level // len(level)
    rows = footprint.elements / np.maximum(footprint.run, 1.0)
    return [(np.where(n > outermost, rows[n], np.float32(0.0)), footprint.run[n]) for n in range(1, len(rows))]


def _place_count(footprint: Footprint, element_bytes: int) -> Array:
    """The number of places of a cache among which lines of rows, one below the other, are spread, for each row of the
    population.
    """
    apart = (footprint.strides[-2] * element_bytes).astype(np.int64)
    found: Array = PAGE / np.clip(apart & -apart, CACHE_LINE, PAGE)
    return found


def _lost_share(rows: Array) -> Array:
    """The share of lines that are not held until the rest of a row is read, by how many share a place."""
    found: Array = np.clip((rows - _HELD) / (_LOST - _HELD), 0.0, 1.0)
    return found


def _vectors_in_page_rows(view: StatementView, access: int) -> Mask:
    """Whether whole vectors are read of rows that are a page or more apart: (rows,)."""
    apart = _has_page_rows(view.footprints[access], view.statement.accesses[access].element_bytes)
    rows: Mask = apart & (view.steps[access] == 1)
    return rows


def _has_page_rows(footprint: Footprint, element_bytes: int) -> Mask:
    if len(footprint.strides) < 2:
        return np.zeros(footprint.run.shape[1], np.bool_)
    apart: Mask = footprint.strides[-2] * element_bytes >= PAGE
    return apart


def unprefetched_cycles(view: StatementView, access: int) -> Array:
    """Cycles for a byte from beyond the second cache, on top of those of `l3_slowdown`, where rows of whole vectors
    are read one after another and prefetchers see no run: each row in code of its own, and the rest of it much later.

    A core waits for such lines as far as it does not see them ahead, which it does the less the more operations there
    are for each. Where the loop over rows asks for them, they are there.
    """
    place, core, footprint = view.statement.accesses[access], view.core, view.footprints[access]
    if place.is_store or view.statement.vector is None or view.statement.tensor is not None:
        return view.full(0.0)
    late = (view.steps[access] == 1) & ~_has_page_rows(footprint, place.element_bytes) & ~_has_prefetch(view, access)
    if not np.count_nonzero(late):
        return view.full(0.0)
    run, now = (
        np.minimum(take_level(footprint.run, level) * place.element_bytes, core.stream_bytes)
        for level in (view.fits[1], np.maximum(view.fits[1], view.fits[0]))
    )
    vectors = np.maximum(view.tile.vectors[access] * view.target.vector_bits / 8, 1.0)
    operations = np.where(view.tile.held > 0, view.tile.operations * CACHE_LINE / vectors, 1.0) * view.instructions
    waits = np.maximum(core.line_latency * operations / core.window / CACHE_LINE - 1.0 / core.l3_bytes, 0.0)
    return np.where(late, waits * (run - now) / core.stream_bytes, np.float32(0.0))


def _has_prefetch(view: StatementView, access: int) -> Mask:
    """Whether a loop asks for what it reads some iterations later, a line or more away: what is nearer is left to the
    hardware."""
    place, footprint = view.statement.accesses[access], view.footprints[access]
    found = np.zeros(view.rows, np.bool_)
    for loop, info in enumerate(view.statement.loops):
        if info.asks is not None:
            moved = np.abs(flat_step(place, footprint, view.ranges, loop)) * place.element_bytes
            found |= (view.sizes[info.asks] > 0) & (moved >= CACHE_LINE)
    return found
