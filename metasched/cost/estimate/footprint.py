"""How much of each buffer a statement touches under each of its loops, over a population.

Arrays here are `(levels, rows)`: level `l` means that the `l` outermost loops are fixed and the others run, so
level 0 is the whole statement and level `depth` a single instance. Sizes are float32: they end up as logarithms, and
index extents are exact to 2^24.

The span of an index under a level is the sum over its terms of |coefficient| * range of the atom, clipped to the
buffer's shape: from the first element to the last. How many of these are touched is at most as many as its loops have
iterations, which are fewer where all of them move it by more than one (strides).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from metasched.cost.program.index import Atom, ClampAtom, Index, LoopAtom, QuotientAtom, RemainderAtom, loops_of
from metasched.cost.program.nest import Statement, StatementAccess
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]
PAGE = 4096
Levels = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
# Values of the sizes by their numbers.
Sizes = Sequence[Array] | Mapping[int, Array]
FAR_REACH = 1e12  # the reach of an index that is not quasi-affine: everywhere


def ones(shape: int | tuple[int, ...]) -> Array:
    """What `np.ones` gives, in a third of its time for arrays of few rows."""
    made = np.empty(shape, np.float32)
    made.fill(1.0)
    return made


class Ranges:
    """Reach of index expressions under every level of one statement.

    `extents` are those of loops of which only the first iterations count.
    """

    def __init__(
        self, statement: Statement, sizes: Sizes, rows: int, extents: Mapping[int, Array] = MappingProxyType({})
    ) -> None:
        self.sizes = sizes
        self.rows = rows
        self.depth = len(statement.loops)
        self.extents = np.empty((self.depth, rows), np.float32)
        for loop, info in enumerate(statement.loops):
            self.extents[loop] = extents.get(loop, sizes[info.extent])
        # What is in an empty part of a loop is described as if it ran once, and does not count.
        self.runs: Mask = np.logical_and.reduce(self.extents > 0, axis=0)
        np.maximum(self.extents, 1.0, out=self.extents)
        self.steps = self.extents - 1.0
        self._nowhere: Mask = np.zeros(rows, np.bool_)
        # By identity: indices live as long as their statement.
        self._reaches: dict[int, Array] = {}
        self._moved: dict[tuple[int, int], Mask] = {}
        self._steps_of: dict[tuple[int, int], Array] = {}
        self._flat_steps: dict[tuple[int, int], Array] = {}

    def reach(self, index: Index) -> Array:
        """Largest minus smallest value of `index` under each level."""
        found = self._reaches.get(id(index))
        if found is None:
            found = self._reaches[id(index)] = self._reach(index)
        return found

    def values(self, index: Index) -> Array:
        """How many values `index` has at most under each level: as many as its loops have iterations."""
        total = ones((self.depth + 1, self.rows))
        for term in index.terms:
            if isinstance(term.atom, LoopAtom):
                total[: term.atom.loop + 1] *= self.extents[term.atom.loop]
            else:
                total *= self.reach_of_atom(term.atom) + 1.0
        return total

    def moves(self, index: Index, loop: int) -> Mask:
        """Whether `loop` adds to what `index` reaches: (rows,). A loop of one iteration moves nothing."""
        if not index.uses(loop):
            return self._nowhere
        moved = self._moved.get((id(index), loop))
        if moved is None:
            reach = self.reach(index)
            moved = self._moved[id(index), loop] = reach[loop] > reach[loop + 1]
        return moved

    def _reach(self, index: Index) -> Array:
        total = np.zeros((self.depth + 1, self.rows), np.float32)
        for term in index.terms:
            coefficient = np.abs(self.sizes[term.coefficient])
            if isinstance(term.atom, LoopAtom):
                total[: term.atom.loop + 1] += coefficient * self.steps[term.atom.loop]
            else:
                total += coefficient * self.reach_of_atom(term.atom)
        return total

    def reach_of_atom(self, atom: Atom) -> Array:
        """Largest minus smallest value of an atom under each level."""
        if isinstance(atom, QuotientAtom):
            quotient: Array = np.floor(self.reach(atom.value) / self.sizes[atom.divisor])
            return quotient
        if isinstance(atom, RemainderAtom):
            return self._reach_of_remainder(atom)
        if isinstance(atom, ClampAtom):
            return self.reach(atom.value)
        anywhere = np.zeros((self.depth + 1, self.rows), np.float32)
        if not isinstance(atom, LoopAtom):
            for loop in atom.loops:
                anywhere[: loop + 1] = np.where(self.extents[loop] > 1, FAR_REACH, anywhere[: loop + 1])
        return anywhere

    def _reach_of_remainder(self, atom: RemainderAtom) -> Array:
        """Multiples of the divisor move nothing, whether the sizes of a row make them so or a number does."""
        divisor = self.sizes[atom.divisor]
        total = np.zeros((self.depth + 1, self.rows), np.float32)
        for term in atom.value.terms:
            coefficient = np.abs(self.sizes[term.coefficient])
            inside = np.where(np.mod(coefficient, divisor) == 0, 0.0, coefficient)
            if isinstance(term.atom, LoopAtom):
                total[: term.atom.loop + 1] += inside * self.steps[term.atom.loop]
            else:
                total += inside * self.reach_of_atom(term.atom)
        remainder: Array = np.minimum(total, divisor - 1.0)
        return remainder

    def step(self, index: Index, loop: int) -> Array:
        """The elements that `index` moves by when `loop` goes on by one; the first step's where they differ."""
        found = self._steps_of.get((id(index), loop))
        if found is None:
            found = self._steps_of[id(index), loop] = self._step(index, loop)
        return found

    def _step(self, index: Index, loop: int) -> Array:
        total = np.zeros(self.rows, np.float32)
        for term in index.terms:
            if not isinstance(term.atom, LoopAtom):
                total += self.sizes[term.coefficient] * self._atom_step(term.atom, loop)
            elif term.atom.loop == loop:
                total += self.sizes[term.coefficient]
        return total

    def flat_step(self, access: StatementAccess, strides: Sequence[Array], loop: int) -> Array:
        """`flat_step` of an access with these strides, which is asked for a few times."""
        found = self._flat_steps.get((id(access), loop))
        if found is None:
            found = np.zeros(self.rows, np.float32)
            for dim, stride in zip(access.dims, strides, strict=True):
                if dim.uses(loop):
                    found = found + self.step(dim, loop) * stride
            self._flat_steps[id(access), loop] = found
        return found

    def _atom_step(self, atom: Atom, loop: int) -> Array:
        if isinstance(atom, QuotientAtom):
            quotient: Array = np.floor(self.step(atom.value, loop) / self.sizes[atom.divisor])
            return quotient
        if isinstance(atom, RemainderAtom):
            return np.fmod(self.step(atom.value, loop), self.sizes[atom.divisor])
        if isinstance(atom, ClampAtom):
            return self.step(atom.value, loop)
        return (
            np.zeros(self.rows, np.float32) if isinstance(atom, LoopAtom) else np.full(self.rows, FAR_REACH, np.float32)
        )

    def is_split(self, index: Index, loop: int, lanes: Array, unrolled: Array) -> Mask:
        """Whether a quotient or a remainder in `index` may go on to the next one within a vector of `lanes` iterations
        of `loop`, as far as the compiler sees: its lanes are at no one distance then. (rows,)

        `unrolled` says whether the vectors of the loop are unrolled, so that where each begins is a constant.
        """
        split = np.zeros(self.rows, np.bool_)
        for term in index.terms:
            if isinstance(term.atom, ClampAtom):
                split |= self.is_split(term.atom.value, loop, lanes, unrolled)
            elif isinstance(term.atom, QuotientAtom | RemainderAtom) and term.atom.value.uses(loop):
                split |= self._crosses_divisor(term.atom, loop, lanes, unrolled)
        return split

    def lanes_reach(self, index: Index, loop: int, lanes: Array, unrolled: Array) -> Array:
        """How far `index` reaches in a vector of `lanes` iterations of `loop`: FAR where the compiler does not know at
        which places its lanes are. (rows,)
        """
        reach: Array = np.zeros(self.rows, np.float32)
        for term in index.terms:
            if loop not in loops_of(term.atom):
                continue
            coefficient = np.abs(self.sizes[term.coefficient])
            if isinstance(term.atom, LoopAtom):
                reach = reach + coefficient * (lanes - 1.0)
            elif isinstance(term.atom, QuotientAtom | RemainderAtom):
                passed = self._quotients_passed(term.atom, loop, lanes, unrolled)
                if isinstance(term.atom, QuotientAtom):
                    reach = reach + coefficient * passed
                else:
                    inside = self._step_inside(term.atom, loop)[0] * (lanes - 1.0)
                    around = np.where(passed < FAR_REACH, self.sizes[term.atom.divisor] - 1.0, np.float32(FAR_REACH))
                    moved: Array = np.where(passed > 0, around, inside)
                    reach = reach + coefficient * moved
            else:
                reach = reach + np.where(self.extents[loop] > 1, np.float32(FAR_REACH), np.float32(0.0))
        return reach

    def lanes_pass(self, index: Index, loop: int, lanes: Array, unrolled: Array) -> Array:
        """How many quotients a vector of `lanes` iterations of `loop` goes on to in `index` from that of its first
        lane: FAR where the compiler does not know which lanes they begin at. (rows,)"""
        passed = np.zeros(self.rows, np.float32)
        for term in index.terms:
            if isinstance(term.atom, QuotientAtom | RemainderAtom) and term.atom.value.uses(loop):
                passed = np.maximum(passed, self._quotients_passed(term.atom, loop, lanes, unrolled))
        return passed

    def lanes_values(self, index: Index, loop: int, lanes: Array, unrolled: Array) -> Array:
        """How many values `index` takes in a vector of `lanes` iterations of `loop`: FAR where the compiler does not
        know at which places its lanes are. (rows,)
        """
        count = ones(self.rows)
        for term in index.terms:
            if loop not in loops_of(term.atom):
                continue
            if isinstance(term.atom, QuotientAtom):
                count = count * (self._quotients_passed(term.atom, loop, lanes, unrolled) + 1.0)
            else:
                count = count * np.where(
                    self.extents[loop] > 1, lanes if isinstance(term.atom, LoopAtom) else FAR_REACH, 1.0
                )
        return count

    def _step_inside(self, atom: QuotientAtom | RemainderAtom, loop: int) -> tuple[Array, Mask]:
        """The elements by which `loop` moves what is divided, and whether all else in it is a multiple of the divisor.
        (rows,)
        """
        divisor, value = self.sizes[atom.divisor], atom.value
        step = np.zeros(self.rows, np.float32)
        whole: Mask = np.mod(self.sizes[value.constant], divisor) == 0
        for term in value.terms:
            coefficient = np.abs(self.sizes[term.coefficient])
            if isinstance(term.atom, LoopAtom) and term.atom.loop == loop:
                step = step + coefficient
            else:
                whole = whole & (np.mod(coefficient, divisor) == 0)
        return step, whole

    def _quotients_passed(self, atom: QuotientAtom | RemainderAtom, loop: int, lanes: Array, unrolled: Array) -> Array:
        """How many quotients a vector goes on to from that of its first lane, at most: FAR where it may go on and the
        compiler does not know at which remainder it begins, as it is not the same for all and no code is unrolled.
        (rows,)"""
        step, whole = self._step_inside(atom, loop)
        divisor = self.sizes[atom.divisor]
        alike = (self.extents[loop] <= lanes) | (np.mod(step * lanes, divisor) == 0)
        most = np.where(alike, np.floor(step * (lanes - 1.0) / divisor), np.ceil(step * (lanes - 1.0) / divisor))
        known = whole & (alike | (unrolled > 0))
        crossed = self._crosses_divisor(atom, loop, lanes, unrolled)
        return np.where(crossed, np.where(known, most, np.float32(FAR_REACH)), np.float32(0.0))

    def _is_aligned(self, atom: QuotientAtom | RemainderAtom, loop: int, vector: Array) -> Mask:
        """Whether the divisor and all else that is divided are multiples of what a vector moves it by. (rows,)"""
        unit = np.maximum(vector, 1.0)
        aligned: Mask = (np.mod(self.sizes[atom.divisor], unit) == 0) & (
            np.mod(self.sizes[atom.value.constant], unit) == 0
        )
        for term in atom.value.terms:
            if not isinstance(term.atom, LoopAtom) or term.atom.loop != loop:
                aligned = aligned & (np.mod(np.abs(self.sizes[term.coefficient]), unit) == 0)
        return aligned

    def _crosses_divisor(self, atom: QuotientAtom | RemainderAtom, loop: int, lanes: Array, unrolled: Array) -> Mask:
        divisor, value = self.sizes[atom.divisor], atom.value
        step, whole = self._step_inside(atom, loop)
        vector = step * lanes
        begins = (self.extents[loop] <= lanes) | (np.mod(vector, divisor) == 0)
        begins |= (unrolled > 0) & (np.mod(divisor, np.maximum(vector, 1.0)) == 0)
        inside = whole & begins & (vector - step < divisor)
        inside |= self._is_aligned(atom, loop, vector)
        never = (self.sizes[value.constant] >= 0) & (self.sizes[value.constant] + self.reach(value)[0] < divisor)
        crossed: Mask = ~(inside | never) & (np.mod(step, divisor) != 0) & (self.extents[loop] > 1)
        return crossed


@dataclass(frozen=True)
class Footprint:
    """One access under every level.

    elements, lines: (levels, rows), distinct elements and cache lines touched, counted per level.
    strides: per dimension, in elements of the buffer as stored: (rows,).
    run: (levels, rows) contiguous elements at a time. places: (levels, rows) where in a page runs begin, how many.
    """

    elements: Array
    lines: Array
    strides: tuple[Array, ...]
    run: Array
    places: Array


def footprint_of(access: StatementAccess, ranges: Ranges) -> Footprint:
    """What `access` touches under each level of its statement."""
    rows = ranges.rows
    shape = [ranges.sizes[slot] for slot in access.shape]
    spans = [np.minimum(ranges.reach(dim) + 1.0, extent) for dim, extent in zip(access.dims, shape, strict=True)]
    if access.alloc is not None:
        shape = [span[access.alloc] for span in spans]
    strides: list[Array] = []
    step: Array = ones(rows)
    for axis, extent in reversed(list(enumerate(shape))):
        for dimension, factor, offset in access.alignments:
            if dimension == axis:
                step = step + np.mod(ranges.sizes[offset] - step, ranges.sizes[factor])
        strides.append(step)
        step = step * extent
    strides.reverse()
    if not spans:
        one = ones((ranges.depth + 1, rows))
        return Footprint(one, one, (), one, one)
    counts = [np.minimum(span, ranges.values(dim)) for span, dim in zip(spans, access.dims, strict=True)]
    elements = counts[0]
    for count in counts[1:]:
        elements = elements * count
    run = spans[-1]
    for inner in range(len(spans) - 1, 0, -1):
        # A row that is touched whole continues into the next one.
        whole = strides[inner - 1] <= run
        if not np.count_nonzero(whole):
            break
        run = run * np.maximum(whole * spans[inner - 1], 1.0)
    lines = _lines(elements, spans, counts, strides, CACHE_LINE / access.element_bytes)
    # Lines that are shared with what another iteration of an outer loop touches were counted for each.
    for level in range(1, ranges.depth + 1):
        np.minimum(lines[level], lines[level - 1], out=lines[level])
    # What is computed inside loops lies in the same memory in each of their iterations.
    if access.alloc:
        np.minimum(lines[: access.alloc], lines[access.alloc], out=lines[: access.alloc])
    return Footprint(elements, lines, tuple(strides), run, _page_places(counts, strides, access.element_bytes))


def _lines(
    elements: Array, spans: Sequence[Array], counts: Sequence[Array], strides: Sequence[Array], line: float
) -> Array:
    """How many lines of `line` elements are touched: (levels, rows).

    Of each dimension, `counts` elements are touched of `spans` from the first to the last, evenly apart. What is less
    than a line from the next in storage shares its lines.
    """
    run: Array = spans[-1]
    apart: Array = ones(run.shape)
    for span, count, stride in zip(reversed(spans[:-1]), reversed(counts[:-1]), reversed(strides[:-1]), strict=True):
        along = stride * (span - 1.0)
        near = along < (run + line) * (count - 1.0)
        run = run + near * along
        apart = apart * np.where(near, np.float32(1.0), count)
    lines: Array = np.minimum(np.ceil(run / line) * apart, elements)
    return lines


def _page_places(counts: Sequence[Array], strides: Sequence[Array], element_bytes: int) -> Array:
    """The number of different places of a page at which runs begin: (levels, rows).

    Rows a distance `s` apart are at `PAGE / gcd(s, PAGE)` places; virtual memory scatters pages. `counts` of them are
    touched of each dimension.
    """
    places: Array = ones(counts[-1].shape)
    nearest = np.full(counts[-1].shape, PAGE, np.float32)
    for count, stride in zip(counts[:-1], strides[:-1], strict=True):
        step = (stride * element_bytes).astype(np.int64)
        apart = np.maximum(np.minimum(step & -step, PAGE), 1).astype(np.float32)
        places = places * np.minimum(count, PAGE / apart)
        nearest = np.where(count > 1, np.minimum(nearest, apart), nearest)
    found: Array = np.minimum(places, PAGE / nearest)
    return found


def usable_sets(footprint: Footprint, element_bytes: int) -> Array:
    """The share of a cache's sets that an access's lines can be in, under each level: (levels, rows).

    It is that of a page: so it is for a first-level cache, whose ways are a page, and on average for a second-level
    one.
    """
    lines = footprint.places * np.ceil(footprint.run * (element_bytes / CACHE_LINE))
    share: Array = np.minimum(lines * (CACHE_LINE / PAGE), 1.0)
    return share


def flat_step(access: StatementAccess, footprint: Footprint, ranges: Ranges, loop: int) -> Array:
    """Elements in storage between what `access` touches at one iteration of `loop` and at the next."""
    return ranges.flat_step(access, footprint.strides, loop)


def take_level(values: Array, level: Levels) -> Array:
    """`values[l, n]` for every row n, where `level[n]` is `l * rows + n` (see `flat_positions`)."""
    picked: Array = values.ravel().take(level)
    return picked


def flat_positions(level: Levels) -> Levels:
    """A level for every row, as a position in a flat `(levels, rows)` array."""
    rows = len(level)
    return level * rows + np.arange(rows)
