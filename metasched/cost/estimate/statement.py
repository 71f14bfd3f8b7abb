"""One statement over a population: what its accesses load and touch, what it moves into caches, its register tile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps

import numpy as np

from metasched.compiler.policy import (
    LANES_PER_PIECE,
    LEAST_RUN_LANES,
    MOST_PIECES,
    MOST_RUNS,
    MOST_SHARED_ELEMENTS,
    MOST_SPREAD,
    loads_rereading,
    rereads,
)
from metasched.cost.core import Core
from metasched.cost.estimate.cache_use import CacheUse
from metasched.cost.estimate.caches import absent_share, last_cache
from metasched.cost.estimate.footprint import (
    Array,
    Footprint,
    Levels,
    Sizes,
    flat_positions,
    flat_step,
    footprint_of,
    ones,
    take_level,
)
from metasched.cost.estimate.lane_conditions import lanes_decide
from metasched.cost.estimate.same_lines import count_lines_once
from metasched.cost.estimate.statement_loops import Flags, StatementLoops, any_of
from metasched.cost.estimate.sums import steps_whole_vectors
from metasched.cost.estimate.tensor_use import (
    comfortable_registers,
    distinct_operands,
    innermost_choice,
    operand_loads,
    registers_for_sums,
    spilled_vectors,
    sum_registers,
    tile_loads,
)
from metasched.cost.estimate.transposed import transposed_runs, units_of
from metasched.cost.program.index import Index, LoopAtom, QuotientAtom, RemainderAtom, loops_of
from metasched.cost.program.nest import Statement, StatementAccess, TensorUse
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE, Target


@dataclass(frozen=True)
class RegisterTile:
    """The register tile: what runs inside one iteration of the innermost reduction loop of more than one iteration.

    Arrays have a number for each row.

    Attributes:
        place: where a table of levels has the loops around the tile fixed, as `take_level` takes it.
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


class StatementView(StatementLoops):
    """One statement's arrays, computed once and shared by the feature groups: lists have one for each access.

    Attributes:
        footprints: what accesses touch under each level.
        steps: elements between neighbouring lanes; 0 is a broadcast, 1 contiguous.
        spread: the vectors from the first lane to the last where these are near, to be loaded and shuffled; half of
            the elements where a few fill lanes, and of the pieces where lanes are parts of a few rows; 0 where lanes
            are neighbours or alone.
        decided_by_lanes: for each gate, where its condition depends on the lane alone.
        operands: (levels, rows) how many operands of a tensor intrinsic there are under each level; empty without one.
        transposed: the neighbours that are loaded at once of reads that are transposed; 0 where there are none.
        loads_of_one: loads for one operation: a vector or a broadcast, an element for each lane, or an operand of a
            tensor intrinsic.
        working_set, pressures, fits: what the statement leaves in caches, as `CacheUse` has it.
        tile: the register tile.
        traffic: for the first, second and last cache, the bytes that each access moves into it.
        handed_on: the reads of what an earlier statement stores, by number, each with how many loops are around both.
    """

    def __init__(self, statement: Statement, sizes: Sizes, rows: int, target: Target, core: Core) -> None:
        super().__init__(statement, sizes, rows, target)
        self.core = core
        self.known: dict[Callable[[StatementView], Array], Array] = {}
        self._places_of: dict[int, Array] = {}
        self._repeats_of: dict[int, Array] = {}
        self.handed_on: list[tuple[int, int]] = []
        self._set_accesses()
        self.tile = self._tile()
        self._set_caches()

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

    # --- accesses

    def _set_accesses(self) -> None:
        footprints = [footprint_of(access, self.ranges) for access in self.statement.accesses]
        self.footprints = count_lines_once(self.statement, footprints, self.ranges)
        self.steps = self._lane_steps()
        self.decided_by_lanes = [lanes_decide(self, gate.condition) for gate in self.statement.gates]
        self.spread = self._spreads()
        self.operands = self._operand_counts()
        self.transposed = transposed_runs(self.statement, self.footprints, self.ranges, self.unrolled)
        self.loads_of_one = self._operand_loads()

    def _lane_steps(self) -> list[Array]:
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
                return np.where(units.are_joined, step, self._widen_split_step(access, loop, step))
        return self._widen_split_step(access, loop, step)

    def _widen_split_step(self, access: StatementAccess, loop: int, step: Array) -> Array:
        for dim in access.dims:
            if dim.uses(loop) and not all(isinstance(term.atom, LoopAtom) for term in dim.terms):
                split = self.ranges.is_split(dim, loop, self.vector.lanes, self.unrolled[loop])
                step = np.where(split, np.maximum(step, float(CACHE_LINE)), step)
        return step

    def _spreads(self) -> list[Array]:
        depth = self.statement.vector
        if depth is None:
            return [self.full(0.0) for _ in self.footprints]
        found = [self._spread_of(n, depth) if n else self.full(0.0) for n in range(len(self.footprints))]
        for gate, of_lanes in zip(self.statement.gates, self.decided_by_lanes, strict=True):
            for n in gate.masked:
                found[n] = np.where(of_lanes, found[n], 0.0)
        return found

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
        near = apart & (reach < MOST_SPREAD * lanes) & (lanes > 1)
        few = apart & (elements <= np.minimum(MOST_SHARED_ELEMENTS, lanes / 2.0))
        spread: Array = np.where(near, np.ceil((reach + 1.0) / lanes), np.where(few, elements / 2.0, 0.0))
        register = self.target.vector_bits / (8.0 * access.element_bytes)
        split = [self.ranges.is_split(dim, loop, self.full(register), unrolled) for dim in access.dims]
        moves = [self.ranges.step(dim, loop) != 0 for dim in access.dims]
        alike = (lanes >= register) & ~np.logical_or.reduce([*split, *moves])
        spread = np.where(near & alike, 0.5, spread)
        pieces = 1.0 + np.maximum.reduce([self.ranges.lanes_pass(dim, loop, lanes, unrolled) for dim in access.dims])
        beside = np.abs(flat_step(access, footprint, self.ranges, loop)) == 1
        joined = apart & ~near & beside & (pieces <= np.minimum(MOST_PIECES, lanes / LANES_PER_PIECE))
        spread = np.where(joined, pieces / 2.0, spread)
        runs = self._runs_of(n, loop)
        return np.where(apart & (spread == 0) & (runs > 1), runs / 2.0, spread)

    def _runs_of(self, n: int, loop: int) -> Array:
        """The few runs of neighbours that the lanes of a vector read, each element once, such as rows that are packed
        in groups; else 0."""
        access, footprint, lanes = self.statement.accesses[n], self.footprints[n], self.vector.lanes
        runs, length = self.full(1.0), self.full(1.0)
        for dim, stride in zip(access.dims, footprint.strides, strict=True):
            if dim.uses(loop):
                values = self.ranges.lanes_reach(dim, loop, lanes, self.unrolled[loop]) + 1.0
                runs = np.where(stride == 1, runs, runs * values)
                length = np.where(stride == 1, length * values, length)
        few = (runs <= MOST_RUNS) & (length >= LEAST_RUN_LANES) & (np.exp2(np.rint(np.log2(runs))) == runs)
        return np.where(few & (runs * length == lanes), runs, 0.0)

    def _operand_counts(self) -> list[Array]:
        tensor = self.statement.tensor
        if tensor is None:
            return []
        return [distinct_operands(access, self.ranges, tensor.depth) for access in self.statement.accesses]

    def _operand_loads(self) -> list[Array]:
        tensor = self.statement.tensor
        if tensor is None:
            # Beside every vector that is loaded for lanes to be picked from it there is a shuffle; an element that all
            # lanes of a register read fills it when it is loaded.
            in_register = self.vector.lanes * self.vector.steps / self.vector.strips
            single = [in_register / np.maximum(run, 1.0) for run in self.transposed]
            near = zip(self.spread, single, strict=True)
            apart = [np.where(spread > 0, 2.0 * spread, loads) for spread, loads in near]
            return [np.where(step > 1, loads, 1.0) for step, loads in zip(self.steps, apart, strict=True)]
        bits = tensor.intrinsic.vector_bits or self.target.vector_bits
        pairs = zip(self.statement.accesses, self.footprints, strict=True)
        return [operand_loads(footprint, access, tensor.depth, bits) for access, footprint in pairs]

    # --- memory

    def _set_caches(self) -> None:
        slot, target, core = self.statement.streams, self.target, self.core
        streams = np.zeros(self.rows, np.bool_) if slot is None else self.sizes[slot] > 0
        caches = CacheUse(self.statement, self.footprints, self.outer, self.iterates, streams, target, core)
        self.working_set = caches.working_set
        self.pressures = caches.pressures
        self.fits = caches.fits
        of_thread = self._working_set_of_a_thread()
        near = caches.traffic_into_first(target.l1, absent_share(of_thread, target.l1, core))
        self.traffic = [
            # Nothing comes into the first cache that was not asked for.
            [np.minimum(moved, touched) for moved, touched in zip(near, self._touched_bytes(), strict=True)],
            caches.traffic_into(1, absent_share(of_thread, target.l2, core)),
            caches.traffic_into(2, absent_share(self.working_set[0], last_cache(target, core), core), past=1.0),
        ]

    def _working_set_of_a_thread(self) -> Array:
        """Bytes of cache lines that one thread touches: its part of what parallel loops divide, and all of the rest."""
        if not self.parallel:
            whole: Array = self.working_set[0]
            return whole
        total = self.full(0.0)
        for access, footprint in zip(self.statement.accesses, self.footprints, strict=True):
            if not access.is_register:
                total = total + footprint.lines[0] * self.part_of_a_thread(access)
        return total * CACHE_LINE

    def _touched_bytes(self) -> list[Array]:
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
            out.append(np.where(self.tile.held > 0, of_tiles, one_by_one) * CACHE_LINE)
        return out

    # --- registers

    def _access_places(self, access: int) -> Array:
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
        moved = moved | (self.steps[access] > 1 if loop == self.statement.vector else self._repeats_load(dims, loop))
        iterations: Array = np.where(moved, self.extents[loop], 1.0)
        return iterations

    def _repeats_load(self, dims: Sequence[Index], loop: int) -> Flags:
        """Whether an index stays what it is along a loop that no vector goes along, and the compiler does not see it: a
        quotient may be the next one from some iteration on, so each loads what it reads.
        """
        divided = [dim for dim in dims if any(isinstance(term.atom, QuotientAtom) for term in dim.terms)]
        still = [~self.ranges.moves(dim, loop) for dim in divided]
        split = [self.ranges.is_split(dim, loop, self.extents[loop], self.unrolled[loop]) for dim in divided]
        return any_of([np.zeros(self.rows, np.bool_), *(a & b for a, b in zip(still, split, strict=True))])

    def _repeated_loads(self, access: int) -> Array:
        """(levels, rows) how often each element of an access is loaded, as the compiler does not see that it is one."""
        out = self._repeats_of.get(access)
        if out is None:
            out = self._repeats_of[access] = ones((self.depth + 1, self.rows))
            for loop in reversed(range(self.depth)):
                dims = [dim for dim in self.statement.accesses[access].dims if dim.uses(loop) and loop not in dim.bare]
                again = loop != self.statement.vector and bool(dims)
                out[loop] = np.where(self._repeats_load(dims, loop), self.extents[loop], 1.0) if again else 1.0
                out[loop] *= out[loop + 1]
        return out

    def vectors(self, access: int, level: Levels, place: Levels) -> Array:
        """Loads that the tile of an access takes: whole vectors, broadcasts, single lanes, or rows of tiles."""
        if self.operands:
            return take_level(self.operands[access], place) * self.loads_of_one[access]
        places = take_level(self._access_places(access), place)
        different = take_level(self.footprints[access].elements, place)
        elements = np.minimum(different * take_level(self._repeated_loads(access), place), places)
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

    def _reduction_around_tile(self) -> tuple[Levels, Array, Array]:
        """The innermost reduction loop of more than one iteration: its level, its extent, and that of the reduction
        loops right around it as well. Where there is none, the level is 0, and the tile is all of the nest.
        """
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
        return level, runs, together

    def _tile(self) -> RegisterTile:
        level, runs, together = self._reduction_around_tile()
        place = flat_positions(level)
        operations = take_level(self.strips_inside, place)
        broadcasts = self.full(0.0)
        vectors_of = [self.vectors(n, level, place) for n in range(len(self.statement.accesses))]
        sums, taken = vectors_of[0], {n: vectors_of[n] for n in self.reads()}
        for n, vectors in taken.items():
            broadcasts = broadcasts + np.where(self.steps[n] == 0, vectors, 0.0) * (not self.in_tiles)
        accumulators, loads = self._accumulators_and_loads(sums, taken, place)
        held = self._held_accumulators(accumulators, place) if self.statement.reduces else self.full(0.0)
        spills = held * self._spilled_vectors(accumulators, place)
        return RegisterTile(
            place=place,
            runs=runs,
            together=together,
            operations=operations,
            vectors=vectors_of,
            accumulators=accumulators,
            sums=sums,
            loads=loads,
            broadcasts=broadcasts,
            held=held,
            spilled=spills,
        )

    def _held_accumulators(self, accumulators: Array, place: Levels) -> Array:
        """1 where a reduction's accumulators stay in registers: whole vectors of straight code, as far as there are."""
        straight = (self.unrolled > 0) | (self.strips == 1)
        apart = steps_whole_vectors(self.statement, self.ranges, self.vector.lanes)
        whole = self._products_inside((straight & apart).astype(np.float32))
        tensor = self.statement.tensor
        kept = accumulators * (1.0 + self.statement.positions)
        fits = kept <= registers_for_sums(None if tensor is None else tensor.intrinsic, self.target)
        return np.maximum(take_level(whole, place) * fits, float(self.statement.store.is_register))

    def _accumulators_and_loads(self, sums: Array, taken: Mapping[int, Array], place: Levels) -> tuple[Array, Array]:
        """The registers of a tile's accumulators, and its loads, of operands that do not stay in registers again."""
        tensor, loads = self.statement.tensor, total([self.full(0.0), *taken.values()])
        if tensor is not None:
            accumulators = take_level(self.operands[0], place) * sum_registers(tensor.intrinsic)
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

    def _spilled_vectors(self, accumulators: Array, place: Levels) -> Array:
        tensor = self.statement.tensor
        if tensor is None or tensor.intrinsic.tiles:
            return self.full(0.0)
        outer, inner = self._outer_and_inner(tensor, place)
        return spilled_vectors(accumulators, outer, inner, comfortable_registers(tensor.intrinsic, self.target))

    def _outer_and_inner(self, tensor: TensorUse, place: Levels) -> tuple[Array, Array]:
        """How many operands a tile takes of each of the two: of the one that changes last, and first."""
        second = innermost_choice(self.statement, self.ranges, tensor.depth) > 0
        one, other = (take_level(self.operands[n], place) for n in (1, 2))
        return np.where(second, one, other), np.where(second, other, one)


def cache_per_view(compute: Callable[[StatementView], Array]) -> Callable[[StatementView], Array]:
    """A function of a view that is computed once for each."""

    @wraps(compute)
    def known(view: StatementView) -> Array:
        found = view.known.get(compute)
        if found is None:
            found = view.known[compute] = compute(view)
        return found

    return known


def total(parts: Sequence[Array]) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
