"""One statement over a population: its extents, vectors and register tile, what its accesses reach under a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from metasched.compiler.policy import (
    FEW_ELEMENTS,
    LANES_OF_A_PIECE,
    MOST_PIECES,
    SPREAD,
    joins_unrolled,
    lanes_used,
    loads_rereading,
    rereads,
    vectors_for,
)
from metasched.cost.cache_use import CacheUse
from metasched.cost.caches import last_cache, missing
from metasched.cost.core import Core
from metasched.cost.footprint import (
    LINE,
    Array,
    Footprint,
    Levels,
    Ranges,
    Sizes,
    at_level,
    flat_step,
    footprint_of,
    ones,
    positions,
)
from metasched.cost.index import Index, LoopAtom, QuotientAtom, RemainderAtom, loops_of
from metasched.cost.nest import Statement, StatementAccess, TensorUse
from metasched.cost.same_lines import with_lines_once
from metasched.cost.shares import Shares
from metasched.cost.sums import whole_vectors_apart
from metasched.cost.tensor_use import (
    comfortable_registers,
    distinct_operands,
    innermost_choice,
    loads_of_one,
    registers_for_sums,
    spilled,
    sum_registers,
    tile_loads,
)
from metasched.cost.threads import part_of_a_thread, ranges_of_a_thread
from metasched.cost.transposed import transposed_runs, units_of
from metasched.ir.nodes import LoopKind
from metasched.support.data_classes import dataclass
from metasched.target import Target

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Vector:
    """How a statement uses vectors.

    `steps` counts vectors of `lanes` along the vectorised loop and `strips` the machine's vectors that they take;
    `useful` is the share of lanes at work, `masked` that of vectors with a mask (a tail that is no power of two),
    `inside` the product of the loops inside it. `of_terms` says where all of the loop is one vector of terms of a
    reduction, inside other loops of terms: it is then no loop, and each lane is a sum of its own until these end.
    """

    lanes: Array
    extent: Array
    steps: Array
    strips: Array
    useful: Array
    masked: Array
    inside: Array
    of_terms: Flags


@dataclass(frozen=True)
class RegisterTile:
    """The register tile: what runs inside one iteration of the innermost reduction loop of more than one iteration.

    Arrays have a number for each row.

    Attributes:
        place: where a table of levels has the loops around the tile fixed, as `at_level` takes it.
        runs: the extent of that loop.
        together: the extent of that loop and of the reduction loops right around it.
        operations: of vectors, or uses of a tensor intrinsic.
        vectors: of each access, the loads that one of each of its elements takes.
        accumulators: in registers: vectors, or tiles.
        sums: the vectors that accumulators are in memory.
        loads: of vectors, or of rows of tiles.
        broadcasts: of single elements.
        held: 1 where accumulators stay in registers over that loop, else less.
        spilled: registers of a tensor intrinsic that do not stay.
    """

    place: Levels
    runs: Array
    together: Array
    operations: Array
    vectors: list[Array]
    accumulators: Array
    sums: Array
    loads: Array
    broadcasts: Array
    held: Array
    spilled: Array


class StatementView:
    """One statement's arrays, computed once and shared by the feature groups."""

    def __init__(self, statement: Statement, sizes: Sizes, rows: int, target: Target, core: Core) -> None:
        self.statement = statement
        self.sizes = sizes
        self.rows = rows
        self.target = target
        self.core = core
        self.known: dict[Callable[[StatementView], Array], Array] = {}
        self._full: dict[float, Array] = {}
        self._places_of: dict[int, Array] = {}
        self.ranges = Ranges(statement, sizes, rows)
        self.extents = self.ranges.extents
        self.depth = self.ranges.depth
        self.iterates = self.extents > 1
        footprints = [footprint_of(access, self.ranges) for access in statement.accesses]
        self.footprints = with_lines_once(statement, footprints, self.ranges)
        self.outer = self._products_outside()
        self.iterations = self.outer[-1]
        self.vector = self._vector()
        self.strips = self.extents
        depth = statement.vector
        if depth is not None:
            self.strips = self.extents.copy()
            self.strips[depth] = self.vector.strips
            self.strips[statement.depth :] = 1.0  # one operation does all of a tensorized nest
        self.strips_inside = self._products_inside(self.strips)
        self.instances = self.strips_inside[0]
        self.unrolled, self.copies = self._unroll()
        self.steps = self._vector_steps()
        self.spread = self._spread()
        self.operands = [] if statement.tensor is None else self._operands(statement.tensor)
        self.transposed = transposed_runs(statement, self.footprints, self.ranges, self.unrolled)
        self.loads_of_one = self._loads_of_one()
        self.shares = Shares(self.ranges, self._copied(), tuple(info.reduces for info in statement.loops))
        self.domain = self._domain()
        self.parallel = [n for n, info in enumerate(statement.loops) if info.kind is LoopKind.PARALLEL]
        self.tasks = np.prod(self.extents[self.parallel], axis=0) if self.parallel else self.full(1.0)
        rounds = np.ceil(self.tasks / max(target.threads, 1))
        self.speedup = self.tasks / rounds if self.parallel else self.full(1.0)
        self.of_a_thread = ranges_of_a_thread(self.ranges, statement, self.parallel, target.threads)
        streams = np.zeros(rows, np.bool_) if statement.streams is None else sizes[statement.streams] > 0
        caches = CacheUse(statement, self.footprints, self.outer, self.iterates, streams, target, core)
        self.working_set = caches.working_set
        self.pressures = caches.pressures
        self.fits = caches.fits
        self.tile = self._tile()
        # Nothing comes into the first cache that was not asked for.
        of_thread = self._working_set_of_a_thread()
        near = caches.moved_into_first(target.l1, missing(of_thread, target.l1, core))
        self.traffic = [
            [np.minimum(moved, touched) for moved, touched in zip(near, self._touched(), strict=True)],
            caches.moved(1, missing(of_thread, target.l2, core)),
            caches.moved(2, missing(self.working_set[0], last_cache(target, core), core), past=1.0),
        ]

    def full(self, value: float) -> Array:
        """A constant for every row; shared, so it cannot be written."""
        found = self._full.get(value)
        if found is None:
            found = self._full[value] = np.empty(self.rows, np.float32)
            found.fill(value)
            found.setflags(write=False)
        return found

    def reads(self) -> list[int]:
        return list(range(1, len(self.statement.accesses)))

    @property
    def instructions(self) -> float:
        """Instructions of one operation, loads and stores apart."""
        return self.statement.operations.instructions if self.statement.tensor is None else 1.0

    @property
    def in_tiles(self) -> bool:
        """Whether a tensor intrinsic computes in tile registers."""
        return self.statement.tensor is not None and self.statement.tensor.intrinsic.tiles

    # --- loops

    def _products_outside(self) -> Array:
        """(levels, rows): the product of the extents of the outer loops that are fixed."""
        out = ones((self.depth + 1, self.rows))
        # One by one: `np.multiply.accumulate` takes five times as long along this axis.
        for loop in range(self.depth):
            np.multiply(out[loop], self.extents[loop], out=out[loop + 1])
        return out

    def _products_inside(self, extents: Array) -> Array:
        out = ones((self.depth + 1, self.rows))
        for loop in reversed(range(self.depth)):
            np.multiply(out[loop + 1], extents[loop], out=out[loop])
        return out

    def _domain(self) -> Array:
        """Elements and terms of the block, or those in a part of a loop (loop_partition)."""
        total = self.full(1.0)
        for slot in self.statement.domain:
            total = total * self.sizes[slot]
        here: Array = np.minimum(total, self.iterations)
        return here

    def _vector(self) -> Vector:
        depth = self.statement.vector
        one = self.full(1.0)
        if depth is None:
            return Vector(one, one, one, one, one, self.full(0.0), one, np.zeros(self.rows, np.bool_))
        slot = self.statement.loops[depth].lanes
        extent = self.extents[depth]
        lanes = self.full(1.0) if slot is None else lanes_used(self.full(0.0) + self.sizes[slot], extent)
        steps = np.ceil(extent / lanes)
        strips = steps * vectors_for(lanes, 8 * self.statement.store.element_bytes, self.target.vector_bits)
        tail = extent - np.floor(extent / lanes) * lanes
        masked = (np.exp2(np.ceil(np.log2(np.maximum(tail, 1.0)))) > tail) & (tail > 0)
        inside = np.prod(self.extents[depth + 1 :], axis=0) if depth + 1 < self.depth else one
        of_terms = (steps == 1) & self._has_terms_around(depth)
        return Vector(lanes, extent, steps, strips, extent / (steps * lanes), masked / steps, inside, of_terms)

    def _has_terms_around(self, depth: int) -> Flags:
        """Where a loop over terms is inside another one: (rows,)."""
        loops = self.statement.loops
        around = [self.iterates[loop] for loop in range(depth) if loops[loop].reduces]
        if not loops[depth].reduces or self.statement.tensor is not None or not around:
            return np.zeros(self.rows, np.bool_)
        return any_of(around)

    def _vector_steps(self) -> list[Array]:
        """For each access, elements between neighbouring lanes; 0 is a broadcast, 1 contiguous."""
        depth = self.statement.vector
        if depth is None:
            return [self.full(1.0) for _ in self.footprints]
        pairs = zip(self.statement.accesses, self.footprints, strict=True)
        return [self._lane_step(access, footprint, depth) for access, footprint in pairs]

    def _lane_step(self, access: StatementAccess, footprint: Footprint, loop: int) -> Array:
        """Lanes that are not at one distance from one another are gathered, as those far apart are."""
        step = np.abs(flat_step(access, footprint, self.ranges, loop))
        terms = (term for dim in access.dims for term in dim.terms if loop in loops_of(term.atom))
        if {QuotientAtom, RemainderAtom} <= {type(term.atom) for term in terms}:
            # Together they are what was divided, where that is how the buffer lies in memory.
            units = units_of(access, footprint, self.ranges, loop)
            if units is not None:
                return np.where(units.are_joined, step, self._far_if_split(access, loop, step))
        return self._far_if_split(access, loop, step)

    def _far_if_split(self, access: StatementAccess, loop: int, step: Array) -> Array:
        for dim in access.dims:
            if dim.uses(loop) and not all(isinstance(term.atom, LoopAtom) for term in dim.terms):
                split = self.ranges.is_split(dim, loop, self.vector.lanes, self.unrolled[loop])
                step = np.where(split, np.maximum(step, float(LINE)), step)
        return step

    def _spread(self) -> list[Array]:
        """For each access, the vectors from the first lane to the last where these are near, to be loaded and shuffled;
        half of the elements where a few fill lanes, and of the pieces where lanes are parts of a few rows; 0 where
        lanes are neighbours or alone: (rows,)."""
        depth = self.statement.vector
        if depth is None:
            return [self.full(0.0) for _ in self.footprints]
        masked = {n for gate in self.statement.gates for n in gate.masked}
        loaded = [n != 0 and n not in masked for n in range(len(self.footprints))]
        return [self._spread_of(n, depth) if is_loaded else self.full(0.0) for n, is_loaded in enumerate(loaded)]

    def _spread_of(self, n: int, loop: int) -> Array:
        apart = self.steps[n] > 1
        if not np.count_nonzero(apart):
            return self.full(0.0)
        access, footprint, lanes = self.statement.accesses[n], self.footprints[n], self.vector.lanes
        reach, elements, unrolled = self.full(0.0), self.full(1.0), self.unrolled[loop]
        for dim, stride in zip(access.dims, footprint.strides, strict=True):
            if dim.uses(loop):
                reach = reach + stride * self.ranges.lanes_reach(dim, loop, lanes, unrolled)
                elements = elements * self.ranges.lanes_values(dim, loop, lanes, unrolled)
        near = apart & (reach < SPREAD * lanes) & (lanes > 1)
        few = apart & (elements <= np.minimum(FEW_ELEMENTS, lanes / 2.0))
        spread: Array = np.where(near, np.ceil((reach + 1.0) / lanes), np.where(few, elements / 2.0, 0.0))
        register = self.target.vector_bits / (8.0 * access.element_bytes)
        split = [self.ranges.is_split(dim, loop, self.full(register), unrolled) for dim in access.dims]
        moves = [self.ranges.step(dim, loop) != 0 for dim in access.dims]
        alike = (lanes >= register) & ~np.logical_or.reduce([*split, *moves])
        spread = np.where(near & alike, 0.5, spread)
        pieces = 1.0 + np.maximum.reduce([self.ranges.lanes_pass(dim, loop, lanes, unrolled) for dim in access.dims])
        beside = np.abs(flat_step(access, footprint, self.ranges, loop)) == 1
        joined = apart & ~near & beside & (pieces <= np.minimum(MOST_PIECES, lanes / LANES_OF_A_PIECE))
        return np.where(joined, pieces / 2.0, spread)

    def _operands(self, tensor: TensorUse) -> list[Array]:
        """For each access, (levels, rows) how many operands of a tensor intrinsic there are under each level."""
        return [distinct_operands(access, self.ranges, tensor.depth) for access in self.statement.accesses]

    def _loads_of_one(self) -> list[Array]:
        """For each access, loads for one operation: a vector or a broadcast, an element for each lane, or an operand of
        a tensor intrinsic."""
        tensor = self.statement.tensor
        if tensor is None:
            # Beside every vector that is loaded for lanes to be picked from it there is a shuffle; an element that all
            # lanes of a register read fills it when it is loaded.
            single = [self.vector.lanes / np.maximum(run, 1.0) for run in self.transposed]
            near = zip(self.spread, single, strict=True)
            apart = [np.where(spread > 0, 2.0 * spread, loads) for spread, loads in near]
            return [np.where(step > 1, loads, 1.0) for step, loads in zip(self.steps, apart, strict=True)]
        bits = tensor.intrinsic.vector_bits or self.target.vector_bits
        pairs = zip(self.statement.accesses, self.footprints, strict=True)
        return [loads_of_one(footprint, access, tensor.depth, bits) for access, footprint in pairs]

    def _unroll(self) -> tuple[Array, Array]:
        """(loops, rows) 1 where a loop is unrolled, and how many copies of the statement that makes.

        Unrolled are loops marked so, loops that index a register buffer, and the innermost run of loops as far out as
        the product of their steps stays within the unroll limit.
        """
        unrolled = np.zeros((self.depth, self.rows), np.float32)
        product = self.full(1.0)
        joins = np.ones(self.rows, dtype=bool)
        for loop in reversed(range(self.depth)):
            info = self.statement.loops[loop]
            if loop >= self.statement.depth:
                unrolled[loop] = 1.0
                continue
            product = product * (self.vector.steps if loop == self.statement.vector else self.extents[loop])
            always = info.kind is LoopKind.UNROLLED
            limited = self.statement.limit is not None and (info.limited or self.statement.own_limit)
            if not info.alone or not (limited or always) or info.kind is LoopKind.PARALLEL:
                joins = np.zeros(self.rows, dtype=bool)
            elif self.statement.limit is not None and not always:
                joins = joins & joins_unrolled(product, self.sizes[self.statement.limit])
            unrolled[loop] = joins
            if always:
                unrolled[loop] = 1.0
            for dim in self._register_indices(loop):
                np.maximum(unrolled[loop], self.ranges.moves(dim, loop), out=unrolled[loop])
        copies = np.multiply.reduce(_or_one(unrolled, self.strips), axis=0)
        return unrolled, copies * self.full(1.0)

    def _copied(self) -> Array:
        """(loops, rows) how many copies of the statement each loop makes: of a vectorised one, its strips."""
        steps = self.extents
        depth = self.statement.vector
        if depth is not None:
            steps = steps.copy()
            steps[depth] = self.vector.steps
        return _or_one(self.unrolled, steps)

    def _register_indices(self, loop: int) -> list[Index]:
        """Indices of register buffers that live outside `loop`."""
        accesses = [a for a in self.statement.accesses if a.is_register and loop >= (a.alloc or 0)]
        return [dim for access in accesses for dim in access.dims if dim.uses(loop)]

    # --- memory

    def part_of_a_thread(self, access: StatementAccess) -> Array:
        """The share that one thread touches of what a statement touches by an access."""
        return part_of_a_thread(access, self.of_a_thread, self.ranges, self.parallel)

    def _working_set_of_a_thread(self) -> Array:
        """Bytes of cache lines that one thread touches: its part of what parallel loops divide, and all of the rest."""
        if not self.parallel:
            whole: Array = self.working_set[0]
            return whole
        total = self.full(0.0)
        for access, footprint in zip(self.statement.accesses, self.footprints, strict=True):
            if not access.is_register:
                total = total + footprint.lines[0] * self.part_of_a_thread(access)
        return total * LINE

    def _touched(self) -> list[Array]:
        """For each access, the bytes of the lines that its instructions touch, counted anew for each of them.

        Accumulators in registers are loaded and stored once for every run of the innermost reduction loops.
        """
        tiles = self.instances / self.tile.operations
        out: list[Array] = []
        for n, access in enumerate(self.statement.accesses):
            of_tiles = self.tile.vectors[n] * tiles
            one_by_one = self.instances * self.loads_of_one[n]
            if access.is_store:
                of_tiles, one_by_one = 2.0 * of_tiles / self.tile.together, 2.0 * one_by_one
            out.append(np.where(self.tile.held > 0, of_tiles, one_by_one) * LINE)
        return out

    # --- registers

    def _places(self, access: int) -> Array:
        """(levels, rows) at how many places an access is made: no more than its loops have iterations.

        What it reaches from the first to the last may be more, where it moves by more than one.
        """
        found = self._places_of.get(access)
        if found is None:
            found = self._places_of[access] = ones((self.depth + 1, self.rows))
            for loop in reversed(range(self.depth)):
                times = self._moving_iterations(access, loop)
                found[loop] = found[loop + 1] if times is None else found[loop + 1] * times
        return found

    def _moving_iterations(self, access: int, loop: int) -> Array | None:
        """The extent of a loop where it moves an access, else 1; None where it does not for any row."""
        dims = [dim for dim in self.statement.accesses[access].dims if dim.uses(loop)]
        if not dims:
            return None
        if any(loop in dim.bare for dim in dims):
            extent: Array = self.extents[loop]
            return extent
        moved = any_of([self.ranges.moves(dim, loop) for dim in dims])
        moved = moved | (self.steps[access] > 1 if loop == self.statement.vector else self._is_asked_again(dims, loop))
        iterations: Array = np.where(moved, self.extents[loop], 1.0)
        return iterations

    def _is_asked_again(self, dims: Sequence[Index], loop: int) -> Flags:
        """Whether an index stays what it is along a loop that no vector goes along, and the compiler does not see it: a
        quotient may be the next one from some iteration on, so each loads what it reads.
        """
        divided = [dim for dim in dims if any(isinstance(term.atom, QuotientAtom) for term in dim.terms)]
        still = [~self.ranges.moves(dim, loop) for dim in divided]
        split = [self.ranges.is_split(dim, loop, self.extents[loop], self.unrolled[loop]) for dim in divided]
        return any_of([np.zeros(self.rows, np.bool_), *(a & b for a, b in zip(still, split, strict=True))])

    def _asked(self, access: int) -> Array:
        """(levels, rows) how often each element of an access is loaded, as the compiler does not see that it is one."""
        out = ones((self.depth + 1, self.rows))
        for loop in reversed(range(self.depth)):
            dims = [dim for dim in self.statement.accesses[access].dims if dim.uses(loop) and loop not in dim.bare]
            again = loop != self.statement.vector and bool(dims)
            out[loop] = np.where(self._is_asked_again(dims, loop), self.extents[loop], 1.0) if again else 1.0
            out[loop] *= out[loop + 1]
        return out

    def vectors(self, access: int, level: Levels, place: Levels) -> Array:
        """Loads that the tile of an access takes: whole vectors, broadcasts, single lanes, or rows of tiles."""
        if self.operands:
            return at_level(self.operands[access], place) * self.loads_of_one[access]
        places = at_level(self._places(access), place)
        elements = np.minimum(at_level(self.footprints[access].elements * self._asked(access), place), places)
        depth = self.statement.vector
        if depth is None:
            return elements
        packed = elements / self.vector.extent * self.vector.strips
        picked_from = places / self.vector.extent * self.vector.strips * self.loads_of_one[access]
        apart = np.where(self.spread[access] > 0, picked_from, places)
        elements = np.where(self.steps[access] > 1, apart, elements)
        contiguous = (self.steps[access] == 1) & (level <= depth)
        # Around nothing but lanes of a reduction, a tile is one operation.
        single = np.where(level > depth, self.loads_of_one[access], elements)
        picked: Array = np.where(contiguous, packed, single)
        if self.statement.accesses[access].is_store:
            picked = np.where(self.vector.of_terms & (level <= depth), picked * self.vector.strips, picked)
        return np.maximum(picked, 1.0)

    def _tile(self) -> RegisterTile:
        level, runs = np.zeros(self.rows, np.int64), ones(self.rows)
        together, running = runs.copy(), runs.copy()
        for loop, info in enumerate(self.statement.loops[: self.statement.depth]):
            iterates = self.iterates[loop]
            if loop == self.statement.vector:
                iterates = iterates & ~self.vector.of_terms
            if info.reduces:
                running = np.where(iterates, running * self.extents[loop], running)
                np.copyto(level, loop + 1, where=iterates)
                np.copyto(runs, self.extents[loop], where=iterates)
                np.copyto(together, running, where=iterates)
            else:
                running = np.where(iterates, 1.0, running)
        place = positions(level)
        operations = at_level(self.strips_inside, place)
        broadcasts = self.full(0.0)
        vectors_of = [self.vectors(n, level, place) for n in range(len(self.statement.accesses))]
        sums, taken = vectors_of[0], {n: vectors_of[n] for n in self.reads()}
        for n, vectors in taken.items():
            broadcasts = broadcasts + np.where(self.steps[n] == 0, vectors, 0.0) * (not self.in_tiles)
        straight = (self.unrolled > 0) | (self.strips == 1)
        apart = whole_vectors_apart(self.statement, self.ranges, self.vector.lanes)
        whole = self._products_inside((straight & apart).astype(np.float32))
        accumulators, loads = self._in_registers(sums, taken, place)
        tensor = self.statement.tensor
        kept = accumulators * (1.0 + self.statement.positions)
        fits = kept <= registers_for_sums(None if tensor is None else tensor.intrinsic, self.target)
        held = np.maximum(at_level(whole, place) * fits, float(self.statement.store.is_register))
        if not self.statement.reduces:
            held = self.full(0.0)
        spills = held * self._spilled(accumulators, place)
        return RegisterTile(
            place, runs, together, operations, vectors_of, accumulators, sums, loads, broadcasts, held, spills
        )

    def _in_registers(self, sums: Array, taken: Mapping[int, Array], place: Levels) -> tuple[Array, Array]:
        """The registers of a tile's accumulators, and its loads, of operands that do not stay in registers again."""
        tensor, loads = self.statement.tensor, total([self.full(0.0), *taken.values()])
        if tensor is not None:
            accumulators = at_level(self.operands[0], place) * sum_registers(tensor.intrinsic)
            if tensor.intrinsic.tiles:
                loads = self._tile_loads(tensor, accumulators, place)
            return accumulators, loads
        if len(taken) == 2:
            fewest = np.minimum(*taken.values())
            # What is put together of several loads stays in registers, or is spilled.
            loaded = np.logical_and.reduce([self.steps[n] <= 1 for n in taken])
            again = rereads(sums, fewest, self.target.registers) & loaded
            loads = np.where(again, loads_rereading(sums, fewest), loads)
        return sums, loads

    def _tile_loads(self, tensor: TensorUse, accumulators: Array, place: Levels) -> Array:
        """Rows of tiles that are loaded for a tile of accumulators."""
        return tile_loads(*self._outer_and_inner(tensor, place), accumulators) * self.loads_of_one[1]

    def _spilled(self, accumulators: Array, place: Levels) -> Array:
        tensor = self.statement.tensor
        if tensor is None or tensor.intrinsic.tiles:
            return self.full(0.0)
        outer, inner = self._outer_and_inner(tensor, place)
        return spilled(accumulators, outer, inner, comfortable_registers(tensor.intrinsic, self.target))

    def _outer_and_inner(self, tensor: TensorUse, place: Levels) -> tuple[Array, Array]:
        """How many operands a tile takes of each of the two: of the one that changes last, and first."""
        second = innermost_choice(self.statement, self.ranges, tensor.depth) > 0
        one, other = (at_level(self.operands[n], place) for n in (1, 2))
        return np.where(second, one, other), np.where(second, other, one)


def once(compute: Callable[[StatementView], Array]) -> Callable[[StatementView], Array]:
    """A function of a view that is computed once for each."""

    @wraps(compute)
    def known(view: StatementView) -> Array:
        found = view.known.get(compute)
        if found is None:
            found = view.known[compute] = compute(view)
        return found

    return known


def any_of(flags: Sequence[Flags]) -> Flags:
    """Where any of some arrays of flags holds, of one at least."""
    found = flags[0]
    for each in flags[1:]:
        found = found | each
    return found


def _or_one(flags: Array, values: Array) -> Array:
    """Values of at least 1 where a flag, 0 or 1, is set, else 1. `np.where` takes three times as long."""
    chosen: Array = np.maximum(flags * values, 1.0)
    return chosen


def total(parts: Sequence[Array]) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
