"""Features of one statement over a population: arithmetic, loops, vectors, registers, parallelism, cycles.

Every function takes the `View` of a statement and returns named arrays of one value per row, in a fixed order.
Which of them are taken as log2(1 + x) is decided where they are gathered (`metasched.cost.features`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from metasched.cost.footprint import LINE, Array, Levels, Ranges, at_level, flat_step, footprint, positions, usable_sets
from metasched.cost.index import Index
from metasched.cost.machine import CORE, Machine
from metasched.cost.nest import Statement
from metasched.ir.nodes import LoopKind

Columns = dict[str, Array]
Size = Callable[[int], Array]

CACHES = ("l1", "l2", "l3")
# Guards for which lowering makes cases, four in all (`metasched.backend.lower.specialise`).
SPECIALISED = 2.0


def capacities(machine: Machine) -> tuple[float, float, float]:
    """Usable bytes of each cache for one thread."""
    return (
        machine.l1 * CORE.usable,
        machine.l2 * CORE.usable,
        machine.l3 * CORE.usable / max(machine.threads, 1),
    )


@dataclass(frozen=True)
class Vector:
    """How a statement uses vectors.

    `steps` counts vectors of `lanes` along the vectorised loop and `strips` the machine's vectors that they take;
    `useful` is the share of lanes at work, `masked` that of vectors with a mask (a tail that is no power of two),
    `inside` the product of the loops inside it.
    """

    lanes: Array
    extent: Array
    steps: Array
    strips: Array
    useful: Array
    masked: Array
    inside: Array


@dataclass(frozen=True)
class Tile:
    """What runs inside one iteration of the innermost reduction loop that iterates (`level` loops stand still).

    `runs` is that loop's extent, `together` that of the reduction loops right around it as well. operations,
    accumulators, loads, broadcasts: in vectors. held: 1 where accumulators stay in registers over that loop.
    """

    level: Levels
    place: Levels
    runs: Array
    together: Array
    operations: Array
    accumulators: Array
    loads: Array
    broadcasts: Array
    held: Array


class View:
    """One statement's arrays, computed once and shared by the feature groups."""

    def __init__(self, statement: Statement, sizes: Sequence[Array], rows: int, machine: Machine) -> None:
        self.statement = statement
        self.sizes = sizes
        self.rows = rows
        self.machine = machine
        self._full: dict[float, Array] = {}
        self.ranges = Ranges(statement, sizes, rows)
        self.extents = self.ranges.extents
        self.depth = self.ranges.depth
        self.marks = [footprint(access, self.ranges) for access in statement.accesses]
        self.outer = self._products_outside()
        self.iterations = self.outer[-1]
        self.vector = self._vector()
        self.strips = self.extents
        depth = statement.vector
        if depth is not None:
            self.strips = self.extents.copy()
            self.strips[depth] = self.vector.strips
        self.strips_inside = self._products_inside(self.strips)
        self.instances = self.strips_inside[0]
        self.steps = self._vector_steps()
        self.unrolled, self.copies = self._unroll()
        self.domain = self._domain()
        self.working_set = self._working_set()
        self.between_uses = self._between_uses(self.working_set)
        crowded = self._between_uses(self._crowded_set())
        # The last cache spreads its lines by a hash of the address; rows far apart do not meet in few of its sets.
        self.fits = [
            self._fit(capacity, uses)
            for capacity, uses in zip(capacities(machine), (crowded, crowded, self.between_uses), strict=True)
        ]
        levels = dict(zip(CACHES, self.fits, strict=True))
        self.traffic = [
            self._traffic(levels["l1"], machine.l1, 0.0),
            self._traffic(levels["l2"], machine.l2, 0.0),
            self._traffic(levels["l3"], machine.l3, 1.0),
        ]
        self.tile = self._tile()

    def full(self, value: float) -> Array:
        """A constant for every row; shared, so it cannot be written."""
        found = self._full.get(value)
        if found is None:
            found = self._full[value] = np.full(self.rows, value, np.float32)
            found.setflags(write=False)
        return found

    def reads(self) -> list[int]:
        return list(range(1, len(self.statement.accesses)))

    # --- loops

    def _products_outside(self) -> Array:
        """(levels, rows): the product of the extents of the loops that stand still."""
        out = np.ones((self.depth + 1, self.rows), np.float32)
        np.multiply.accumulate(self.extents, axis=0, out=out[1:])
        return out

    def _products_inside(self, extents: Array) -> Array:
        out = np.ones((self.depth + 1, self.rows), np.float32)
        for loop in reversed(range(self.depth)):
            np.multiply(out[loop + 1], extents[loop], out=out[loop])
        return out

    def _domain(self) -> Array:
        total = self.full(1.0)
        for slot in self.statement.domain:
            total = total * self.sizes[slot]
        return total

    def _vector(self) -> Vector:
        depth = self.statement.vector
        one = self.full(1.0)
        if depth is None:
            return Vector(one, one, one, one, one, self.full(0.0), one)
        slot = self.statement.loops[depth].lanes
        lanes = self.full(float(slot is None)) + (0.0 if slot is None else self.sizes[slot])
        extent = self.extents[depth]
        steps = np.ceil(extent / lanes)
        strips = steps * np.ceil(lanes * (8 * self.statement.store.element_bytes / self.machine.vector_bits))
        tail = extent - np.floor(extent / lanes) * lanes
        masked = (np.exp2(np.ceil(np.log2(np.maximum(tail, 1.0)))) > tail) & (tail > 0)
        inside = np.prod(self.extents[depth + 1 :], axis=0) if depth + 1 < self.depth else one
        return Vector(lanes, extent, steps, strips, extent / (steps * lanes), masked / steps, inside)

    def _vector_steps(self) -> list[Array]:
        """For each access, elements between neighbouring lanes; 0 is a broadcast, 1 contiguous."""
        depth = self.statement.vector
        if depth is None:
            return [self.full(1.0) for _ in self.marks]
        pairs = zip(self.statement.accesses, self.marks, strict=True)
        return [np.abs(flat_step(access, mark, self.ranges, depth)) for access, mark in pairs]

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
            product = product * (self.vector.steps if loop == self.statement.vector else self.extents[loop])
            always = info.kind is LoopKind.UNROLLED
            limited = self.statement.limit is not None and (info.limited or self.statement.own_limit)
            if not info.alone or not (limited or always) or info.kind is LoopKind.PARALLEL:
                joins = np.zeros(self.rows, dtype=bool)
            elif self.statement.limit is not None and not always:
                joins = joins & (product <= self.sizes[self.statement.limit])
            unrolled[loop] = joins
            if always:
                unrolled[loop] = 1.0
            for dim in self._register_indices(loop):
                np.maximum(unrolled[loop], self.ranges.moves(dim, loop), out=unrolled[loop])
        copies = np.prod(np.where(unrolled > 0, self.strips, 1.0), axis=0)
        return unrolled, copies * self.full(1.0)

    def _register_indices(self, loop: int) -> list[Index]:
        """Indices of register buffers that live outside `loop`."""
        accesses = [a for a in self.statement.accesses if a.is_register and loop >= (a.alloc or 0)]
        return [dim for access in accesses for dim in access.dims if dim.uses(loop)]

    # --- memory

    def _working_set(self) -> Array:
        """(levels, rows) bytes of cache lines touched under each level, register buffers apart."""
        total = np.zeros((self.depth + 1, self.rows), np.float32)
        for access, mark in zip(self.statement.accesses, self.marks, strict=True):
            if not access.is_register:
                total += mark.lines
        return total * LINE

    def _crowded_set(self) -> Array:
        """As the working set, but at least what the worst access takes with the part of a cache that its lines cannot
        use. Accesses mostly crowd different sets, so that these parts do not add up.
        """
        worst = self.working_set
        for access, mark in zip(self.statement.accesses, self.marks, strict=True):
            if not access.is_register:
                worst = np.maximum(worst, mark.lines / usable_sets(mark, access.element_bytes) * LINE)
        return worst

    def _between_uses(self, working_set: Array) -> Array:
        """(levels, rows) bytes touched by one iteration of the first loop at or below a level that iterates."""
        out = np.zeros((self.depth + 1, self.rows), np.float32)
        for loop in reversed(range(self.depth)):
            out[loop] = np.where(self.extents[loop] > 1, working_set[loop + 1], out[loop + 1])
        return out

    def _fit(self, capacity: float, uses: Array) -> Levels:
        """The outermost level whose first loop finds, at every iteration, what the one before left in the cache."""
        return positions((uses > capacity).sum(axis=0))

    def _traffic(self, level: Levels, size: int, past: float) -> list[Array]:
        """Bytes brought into a cache for each access, whose lines come once for every run of what is inside `level`.

        What is stored moves twice; where it goes past the caches, it is `past` times what is moved. Kernels run again
        and again: where a cache holds all that the statement touches, it is there from the run before.
        """
        runs = np.where(self.working_set[0] > size * CORE.usable, at_level(self.outer, level) * LINE, 0.0)
        streams = self.full(0.0) if self.statement.streams is None else self.sizes[self.statement.streams] > 0
        out: list[Array] = []
        for access, mark in zip(self.statement.accesses, self.marks, strict=True):
            moved = at_level(mark.lines, level) * runs * (0.0 if access.is_register else 1.0)
            if access.is_store:
                moved = np.where(streams, mark.lines[0] * LINE * past, 2.0 * moved)
            out.append(moved)
        return out

    # --- registers

    def vectors(self, access: int, level: Levels, place: Levels) -> Array:
        """Vector loads that the tile of an access takes: whole vectors, broadcasts or single lanes."""
        elements = at_level(self.marks[access].elements, place)
        depth = self.statement.vector
        if depth is None:
            return elements
        packed = elements / self.vector.extent * self.vector.strips
        contiguous = (self.steps[access] == 1) & (level <= depth)
        picked: Array = np.where(contiguous, packed, elements)
        return np.maximum(picked, 1.0)

    def _tile(self) -> Tile:
        level, runs = np.zeros(self.rows, np.int64), np.ones(self.rows, np.float32)
        together, running = runs.copy(), runs.copy()
        for loop, info in enumerate(self.statement.loops):
            iterates = self.extents[loop] > 1
            if info.reduces:
                running = running * self.extents[loop]
                np.copyto(level, loop + 1, where=iterates)
                np.copyto(runs, self.extents[loop], where=iterates)
                np.copyto(together, running, where=iterates)
            else:
                running = np.where(iterates, 1.0, running)
        place = positions(level)
        operations = at_level(self.strips_inside, place)
        loads, broadcasts = self.full(0.0), self.full(0.0)
        for n in self.reads():
            vectors = self.vectors(n, level, place)
            loads = loads + vectors
            broadcasts = broadcasts + np.where(self.steps[n] == 0, vectors, 0.0)
        whole = np.ones((self.depth + 1, self.rows), np.float32)
        for loop in reversed(range(self.depth)):
            flat = (self.unrolled[loop] > 0) | (self.strips[loop] == 1)
            whole[loop] = whole[loop + 1] * flat
        accumulators = self.vectors(0, level, place)
        fits = accumulators <= self.machine.registers - CORE.operand_registers
        held = np.maximum(at_level(whole, place) * fits, float(self.statement.store.is_register))
        if not self.statement.reduces:
            held = self.full(0.0)
        return Tile(level, place, runs, together, operations, accumulators, loads, broadcasts, held)


# --- feature groups


def arithmetic(view: View) -> Columns:
    """Operations by kind, and iterations beyond the domain: recomputation and imperfect tiles."""
    ops = view.statement.operations
    return {
        "flops": view.iterations * ops.flops,
        "iterations": view.iterations,
        "arithmetic": view.full(ops.arithmetic),
        "divisions": view.full(ops.divisions),
        "special": view.full(ops.special),
        "choices": view.full(ops.choices + ops.casts),
        "waste": view.iterations / view.domain - 1.0,
    }


def guards(view: View) -> Columns:
    """Guards that stay, those of them that mask vector lanes, and those that stay conditions in unrolled code.

    A guard over terms of a reduction alone is one condition for a whole tile of accumulators.
    """
    statement = view.statement
    total, vector, inner = view.full(statement.opaque_guards), view.full(0.0), view.full(0.0)
    for guard in statement.guards:
        live = view.ranges.live(guard)
        total = total + live
        unrolled = np.zeros(view.rows, np.bool_)
        for loop in guard.value.loops:
            moves = view.ranges.moves(guard.value, loop)
            if loop == statement.vector:
                vector = vector + live * moves
            else:
                unrolled |= moves & (view.unrolled[loop] > 0)
        over_terms = all(statement.loops[loop].reduces for loop in guard.value.loops)
        inner = inner + live * unrolled / (view.tile.operations if over_terms else 1.0)
    return {"live_guards": total, "vector_guards": vector, "unrolled_guards": inner}


def alive(view: View) -> Array:
    """The share of instances that guards let run, where what is left out is the end of what a guard's index reaches."""
    share = view.full(1.0)
    for guard in view.statement.guards:
        limit = -view.sizes[guard.value.constant]
        reached = view.ranges.reach(guard.value)[0] + 1.0
        share = share * np.where(limit > 0, np.minimum(limit / reached, 1.0), 1.0)
    return share


def conditions_left(view: View, conditions: Columns) -> tuple[Array, Array]:
    """Guards that cost a mask, and those that cost a branch, in each instance of the innermost code.

    Around reductions, lowering makes cases of whole and partial tiles for `SPECIALISED` guards; a mask is left in the
    partial ones, the smaller part.
    """
    vector, branches = conditions["vector_guards"], conditions["unrolled_guards"]
    if not view.statement.reduces:
        return vector, branches
    left = np.maximum(vector + branches - SPECIALISED, 0.0)
    return np.minimum(vector, left), np.minimum(branches, left)


def vectors(view: View) -> Columns:
    """Lanes, and how accesses move along the vectorised loop."""
    contiguous, broadcast, strided = view.full(0.0), view.full(0.0), view.full(0.0)
    for step in view.steps:
        contiguous = contiguous + (step == 1)
        broadcast = broadcast + (step == 0)
        strided = strided + (step > 1)
    return {
        "lanes": view.vector.lanes,
        "vector_extent": view.vector.extent,
        "useful_lanes": view.vector.useful,
        "masked": view.vector.masked,
        "inside_vector": view.vector.inside,
        "contiguous": contiguous,
        "broadcast": broadcast,
        "strided": strided,
        "store_step": view.steps[0],
    }


def registers(view: View) -> Columns:
    """Unrolling and the register tile."""
    tile = view.tile
    return {
        "copies": view.copies,
        "code_bytes": code_bytes(view),
        "tile_operations": tile.operations,
        "accumulators": tile.accumulators,
        "register_pressure": tile.accumulators / (view.machine.registers - CORE.operand_registers),
        "held": tile.held,
        "loads_per_operation": tile.loads / tile.operations,
        "broadcasts_per_operation": tile.broadcasts / tile.operations,
    }


def code_bytes(view: View) -> Array:
    """Machine code of the unrolled copies, roughly."""
    per_copy = view.statement.operations.instructions + len(view.statement.accesses)
    return view.copies * (per_copy * CORE.instruction_bytes)


def parallelism(view: View) -> Columns:
    """Tasks, and how evenly the threads share them."""
    threads = float(max(view.machine.threads, 1))
    tasks = view.full(1.0)
    parallel = False
    for loop, info in enumerate(view.statement.loops):
        if info.kind is LoopKind.PARALLEL:
            parallel = True
            tasks = tasks * view.extents[loop]
    rounds = np.ceil(tasks / threads)
    return {
        "tasks": tasks,
        "tasks_per_thread": tasks / threads,
        "imbalance": rounds * threads / tasks,
        "speedup": tasks / rounds if parallel else view.full(1.0),
        "task_instances": view.instances / tasks,
    }


def reduction(view: View) -> Columns:
    """Lengths of the reduction, whole and in the innermost reduction loop."""
    total = view.full(1.0)
    for loop, info in enumerate(view.statement.loops):
        if info.reduces:
            total = total * view.extents[loop]
    return {"reduces": view.full(view.statement.reduces), "inner_reduction": view.tile.runs, "reduction": total}


def instance_cycles(view: View, conditions: Columns) -> Columns:
    """Cycles that one vector instance takes a core, by what bounds it; data is in the first-level cache."""
    tile, statement = view.tile, view.statement
    held = tile.held > 0
    loose = view.full(float(statement.reduces))  # an accumulator in memory is loaded every time
    for n in view.reads():
        loose = loose + np.where(view.steps[n] > 1, view.vector.lanes, 1.0)
    loads = np.where(held, tile.loads / tile.operations, loose)
    stores = np.where(held, 0.0, np.where(view.steps[0] > 1, view.vector.lanes, 1.0))
    # Accumulators are loaded and stored once for every run of the innermost reduction loops.
    transfers = tile.held * (tile.accumulators * CORE.transfer / (tile.operations * tile.together))
    vector_guards, unrolled_guards = conditions_left(view, conditions)
    masked = np.maximum(view.vector.masked, vector_guards) * CORE.mask_overhead
    branches = unrolled_guards * CORE.branch_overhead
    at_once = np.maximum(view.copies, view.vector.strips / view.vector.steps)
    return {
        "operations": view.full(statement.operations.instructions / CORE.operations),
        "ports": np.maximum(loads / CORE.loads, stores / CORE.stores),
        "latency": _chain(view),
        "overhead": transfers + masked + branches + CORE.loop_overhead / at_once + _crowding(view),
    }


def _chain(view: View) -> Array:
    """Cycles an instance waits for the one before in its accumulator.

    Accumulators of a tile are independent chains, and so are the tiles that the core can see at once.
    """
    tile, statement = view.tile, view.statement
    if not statement.reduces:
        return view.full(0.0)
    step = CORE.memory_round_trip + tile.held * (CORE.operation_latency - CORE.memory_round_trip)
    instructions = statement.operations.instructions + len(statement.accesses) - 1.0
    runs, chains = tile.together, tile.accumulators
    if statement.vector is not None and statement.loops[statement.vector].reduces:
        # Each register of a vector has sums of its own.
        runs = runs * view.vector.strips / view.vector.extent
        chains = chains * view.vector.strips / view.vector.steps
    in_flight = CORE.window / (runs * tile.operations * instructions)
    outside = view.instances / (runs * tile.operations)
    waiting: Array = step / (chains * np.clip(in_flight, 1.0, np.maximum(outside, 1.0)))
    return waiting


def _crowding(view: View) -> Array:
    """Code that does not fit the instruction caches."""
    crowding: Array = 0.5 * np.clip(code_bytes(view) / CORE.code_bytes - 1.0, 0.0, 4.0)
    return crowding


def cycles(view: View, speedup: Array, conditions: Columns) -> Columns:
    """A roofline by hand, in cycles of one thread divided by the speed-up of the threads."""
    each = instance_cycles(view, conditions)
    bound = np.maximum(np.maximum(each["operations"], each["ports"]), each["latency"])
    near, *far = view.traffic
    scattered = [
        _total([traffic * _scatter(view, n, level) for n, traffic in enumerate(by_access)])
        for by_access, level in zip(far, view.fits[1:], strict=True)
    ]
    share = 1.0 / speedup
    work = view.instances * alive(view) * share
    core = work * (bound + each["overhead"])
    l2 = _total(near) / CORE.l2_bytes * share
    l3 = scattered[0] / CORE.l3_bytes * share
    memory = scattered[1] / CORE.memory_bytes * np.maximum(share, 0.25)
    parts = core + l2 + l3 + memory
    worst = np.maximum(np.maximum(core, l2), np.maximum(l3, memory))
    return {
        "operation_cycles": work * each["operations"],
        "port_cycles": work * each["ports"],
        "latency_cycles": work * each["latency"],
        "overhead_cycles": work * each["overhead"],
        "core_cycles": core,
        "l2_cycles": l2,
        "l3_cycles": l3,
        "memory_cycles": memory,
        "cycles": worst + 0.3 * (parts - worst) + _handed_over(view, share) / CORE.handed_over_bytes,
    }


def _scatter(view: View, access: int, level: Levels) -> Array:
    """How much longer lines take to come that are not next to one another: prefetchers do not follow short runs.

    Those that the second cache holds come as fast without them.
    """
    run = at_level(view.marks[access].run, level) * view.statement.accesses[access].element_bytes
    slower: Array = 1.0 + (CORE.scatter - 1.0) * (1.0 - np.minimum(run / CORE.stream_bytes, 1.0))
    return slower


def _handed_over(view: View, share: Array) -> Array:
    """Bytes that a thread reads of what another has written before: they come from the caches of other cores, whatever
    its own holds. Where threads write and read a part each, it may be their own.
    """
    statement = view.statement
    parallel = [loop for loop, info in enumerate(statement.loops) if info.kind is LoopKind.PARALLEL]
    lines = view.full(0.0)
    for n in view.reads() if parallel else ():
        access = statement.accesses[n]
        part = any(dim.uses(loop) for dim in access.dims for loop in parallel)
        shared = access.alloc is not None and access.alloc <= parallel[0] and not access.is_register
        if shared and (access.by_one or not part):
            lines = lines + view.marks[n].lines[0] * (share if part else 1.0)
    others: Array = lines * (LINE * (1.0 - 1.0 / max(view.machine.threads, 1)))
    return others


def _total(parts: Sequence[Array]) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def locality(view: View) -> Columns:
    """Arithmetic per byte moved into each cache, and how much work is done inside the level that fits it."""
    flops = view.domain * max(view.statement.operations.flops, 1)
    out: Columns = {}
    for name, by_access, level in zip(CACHES, view.traffic, view.fits, strict=True):
        moved = _total(by_access)
        out[f"{name}_intensity"] = flops / np.maximum(moved, 1.0)
        out[f"{name}_inside"] = view.iterations / at_level(view.outer, level)
    return out


def shape(view: View) -> Columns:
    """Where the statement stands in the program."""
    innermost = view.extents[-1] if view.depth else view.full(1.0)
    return {
        "depth": view.full(view.depth),
        "shared_loops": view.full(view.statement.shared_loops),
        "innermost": innermost,
        "store_in_registers": view.full(view.statement.store.is_register),
        "stored_elements": view.marks[0].elements[0],
    }


def describe(view: View) -> Columns:
    """All groups of a statement, in order."""
    spread, conditions = parallelism(view), guards(view)
    return {
        **arithmetic(view),
        **conditions,
        **reduction(view),
        **vectors(view),
        **registers(view),
        **spread,
        **locality(view),
        **shape(view),
        **cycles(view, spread["speedup"], conditions),
    }
