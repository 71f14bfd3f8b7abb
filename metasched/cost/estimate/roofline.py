"""A roofline by hand: the cycles of one statement over a population, by what bounds it."""

from __future__ import annotations

import numpy as np

from metasched.compiler.policy import MAX_COPIES, rereads
from metasched.cost.core import Core
from metasched.cost.estimate.condition_cycles import (
    branches,
    gated_reads,
    partial_tiles,
    remaining_guards,
    running_operations,
    running_share_in_busiest,
    share_of_terms,
)
from metasched.cost.estimate.footprint import Array, flat_positions, flat_step, take_level
from metasched.cost.estimate.handed_on import waits_for_stores
from metasched.cost.estimate.prefetched import l3_slowdown, memory_slowdown, unprefetched_cycles
from metasched.cost.estimate.shared_loads import share_of_tile_loads, shares_of_loads
from metasched.cost.estimate.statement import StatementView, cache_per_view, total
from metasched.cost.estimate.statement_loops import Flags
from metasched.cost.feature import Columns, Feature, features
from metasched.cost.program.conditions import IsNegative
from metasched.ir.nodes import LoopKind, Reducer
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE

# The share of the time that a thread alone takes for bytes of memory, below which more threads do not get.
LEAST_OF_MEMORY = 0.25
# The least part of a thread's range of iterations that another takes over (`metasched.compiler.cpu.emit.sharing`).
_LEAST_PIECE_SHARE = 1 / 16
# Vectors that a parallel loop loads and stores, from which on it lasts long enough for a thread to be held up. Of
# measured pairs as many are ranked right from 2^18 to 2^21; 2^22 is too many.
_LEAST_SHARED_ACCESSES = 1 << 20
# Bytes of an element from which on CPUs gather.
_LEAST_GATHERED_BYTES = 4
# A multiple of a cache line, in bytes: numbers of 32 bits that are larger are such multiples.
_LONG_STEP = float(1 << 30)
# How many times as long a program is taken for that is not compiled.
_REFUSED_SLOWDOWN = 1024.0


def start_cycles(regions: Array, barriers: Array, core: Core) -> Array:
    """Cycles for a call's threads to start, as often as `regions`, and to wait for one another."""
    return regions * core.parallel_launch + barriers * core.barrier


@cache_per_view
def code_bytes(view: StatementView) -> Array:
    """Machine code of the unrolled copies, roughly."""
    per_copy = view.instructions + len(view.statement.accesses)
    code: Array = _code_copies(view) * (per_copy * view.core.instruction_bytes)
    return code


@cache_per_view
def _code_copies(view: StatementView) -> Array:
    """The unrolled copies, but for those that conditions on unrolled loops leave out."""
    copies = view.copies
    for gate in view.statement.gates:
        if gate.skips:
            copies = copies * (1.0 - view.shares.copy_shares(gate.condition).excluded)
    for guard in view.statement.guards:
        if not isinstance(guard, IsNegative):
            copies = copies * (1.0 - view.shares.copy_shares(guard).excluded)
    return copies


@dataclass(frozen=True)
class Issue:
    """What one vector instance of a statement has a core start: loads, stores, and micro-operations with these."""

    loads: Array
    stores: Array
    issued: Array


def instance_cycles(view: StatementView, conditions: Columns) -> Columns:
    """Cycles that one vector instance takes a core, by what bounds it; data is in the first-level cache."""
    held = view.tile.held > 0
    reloaded = ~held & view.statement.reduces
    vector_guards, unrolled_guards = remaining_guards(view, conditions)
    # Accumulators are loaded and stored once for every run of the innermost reduction loops.
    once_a_run = view.tile.sums / (view.tile.operations * view.tile.together)
    moved = np.where(held, once_a_run, view.loads_of_one[0] * view.in_tiles)
    transfers = (moved + view.tile.spilled / view.tile.operations) * view.core.transfer
    masked = np.maximum(_tail_cycles(view, moved, reloaded), vector_guards * view.core.mask_overhead)
    branching = (unrolled_guards + branches(view)) * view.core.branch_overhead
    issue, ports, chain = issue_cycles(view), _port_cycles(view, _instance_issue(view), reloaded), _chain_cycles(view)
    bound = np.maximum(np.maximum(issue, ports), chain)
    return {
        "operations": issue,
        "ports": ports,
        "latency": chain,
        "overhead": transfers
        + masked
        + branching
        + _loop_cycles(view, bound)
        + digit_cycles(view)
        + _bound_wait_cycles(view, bound)
        + _lane_fold_cycles(view)
        + _code_size_penalty(view)
        + _register_shortfall(view),
    }


def _instance_issue(view: StatementView) -> Issue:
    held = view.tile.held > 0
    # An accumulator in memory is loaded every time; a tile waits for what has just been stored.
    loose = view.full(float(view.statement.reduces and not view.in_tiles) + view.statement.positions)
    for n, share in zip(view.reads(), shares_of_loads(view), strict=True):
        loose = loose + view.loads_of_one[n] * share
    loads = np.where(held, view.tile.loads / running_operations(view) * share_of_tile_loads(view), loose)
    gated, left_out = gated_reads(view)
    loads = np.maximum(loads - left_out, 0.0)
    stores = np.where(held | view.in_tiles, 0.0, view.loads_of_one[0] + view.statement.positions)
    return Issue(
        loads,
        stores,
        _instructions_inside(view, view.instructions) + loads + stores + gated,
    )


def _tail_cycles(view: StatementView, moved: Array, reloaded: Flags) -> Array:
    """Cycles of masks at tails: known ones cost little, unless what was stored under them is loaded again."""
    core = view.core
    in_memory = core.masked_update + core.masked_sum / _stores_between(view)
    held = np.where(view.tile.held > 0, moved * core.transfer, core.tail_overhead)
    at_tails = np.where(reloaded, in_memory, held)
    # Values and their positions are stored where these are better alone.
    cycles: Array = np.where(reloaded & (view.statement.positions > 0), at_tails, view.vector.masked * at_tails)
    return cycles


def _port_cycles(view: StatementView, issue: Issue, reloaded: Flags) -> Array:
    """Cycles until units have taken what is issued, by the kind that takes longest."""
    core = view.core
    # A store that the next load waits for takes a place of a load, and so does the second line of a vector.
    loads = issue.loads + _second_line_loads(view) + np.where(reloaded, issue.stores, 0.0)
    moving = np.maximum(loads / core.loads, issue.stores / core.stores)
    ports = np.maximum(moving, issue.issued / _issue_width(view, issue.issued))
    cycles: Array = np.maximum(ports, separate_broadcasts(view) / core.broadcasts)
    return cycles


def _loop_cycles(view: StatementView, bound: Array) -> Array:
    """Cycles of a loop's own instructions, beside an instance that takes `bound`."""
    looping: Array = view.core.loop_overhead / np.maximum(view.copies, view.vector.strips / view.vector.steps)
    # The few instructions of a loop over single elements run beside its own.
    return looping if view.statement.vector is not None else np.maximum(looping - bound, 0.0)


def digit_cycles(view: StatementView) -> Array:
    """Cycles of an instance for what an iteration of a parallel loop that was fused of several does to find out which
    of theirs it is: divisions for each but the outermost.
    """
    if len(view.parallel) < 2:
        return view.full(0.0)
    digits = view.iterates[view.parallel].sum(axis=0, dtype=np.float32)
    inside = view.strips_inside[view.parallel[-1] + 1]
    cycles: Array = view.core.fused_digit * np.maximum(digits - 1.0, 0.0) / inside
    return cycles


def _register_shortfall(view: StatementView) -> Array:
    """Cycles of an operation of a tile whose sums and operands take a register more than there are: of the smaller set
    all, and one of the other. LLVM spills one register then, and sometimes all sums.
    """
    tile, reads, registers = view.tile, view.reads(), view.target.registers
    if view.statement.tensor is not None or len(reads) != 2:
        return view.full(0.0)
    fewest = np.minimum(*(tile.vectors[n] for n in reads))
    short = (fewest > 1) & (tile.accumulators + fewest + 1 > registers)
    again = rereads(tile.accumulators, fewest, registers)
    found: Array = np.where((tile.held > 0) & short & ~again, view.core.register_shortfall, 0.0)
    return found


def _issue_width(view: StatementView, issued: Array) -> Array:
    """How many micro-operations a core starts in a cycle: fewer of a tile whose code is too long to be kept decoded."""
    is_long = (view.tile.held > 0) & (view.copies * issued > view.core.kept_decoded)
    found: Array = np.where(is_long, view.core.decoded, view.core.issue)
    return found


def _stores_between(view: StatementView) -> Array:
    """Stores until some of what the last vector of a row stores under its mask is loaded again: by the next iteration
    of a loop over terms, or by that of a row which begins before the whole vector would end. What is stored under a
    mask is not handed on to loads, which wait until the cache has it.
    """
    lanes, extent, store = view.vector.lanes, view.vector.extent, view.statement.store
    found = view.full(float(2**20))
    if view.statement.vector is None or not view.statement.reduces or not np.count_nonzero(view.vector.masked):
        return found
    full = np.floor(extent / lanes) * lanes
    end = full + np.exp2(np.ceil(np.log2(np.maximum(extent - full, 1.0))))
    for loop in range(view.statement.depth):
        if loop != view.statement.vector:
            step = np.abs(flat_step(store, view.footprints[0], view.ranges, loop))
            touched = view.iterates[loop] & (step < end)
            found = np.where(touched, np.minimum(found, view.strips_inside[loop + 1]), found)
    least: Array = np.maximum(found, 1.0)
    return least


def separate_broadcasts(view: StatementView) -> Array:
    """Broadcasts of an operation of a register tile that are instructions of their own.

    A tile that reads operands again does so for each product, if it has at least as many broadcasts as vectors.
    """
    tile, reads = view.tile, view.reads()
    if view.target.broadcasts_in_operations or view.statement.tensor is not None or not reads:
        return view.full(0.0)
    kept = total([tile.vectors[n] for n in reads])
    again = (tile.loads > kept) & (2.0 * tile.broadcasts >= kept)
    found: Array = np.where(again, tile.sums, tile.broadcasts) / tile.operations
    return np.where(tile.held > 0, found, 0.0)


@cache_per_view
def issue_cycles(view: StatementView) -> Array:
    """Cycles from one operation to the next of those that the units take.

    Operands of a vector intrinsic that are not neighbours in memory are put together of single loads, one a cycle;
    unrolled uses share them.
    """
    tensor, tile, operations = view.statement.tensor, view.tile, view.statement.operations
    if tensor is None:
        reads = max(len(view.statement.accesses) - 1, 1)
        again = np.where(tile.held > 0, np.minimum(tile.loads / (tile.operations * reads), 1.0), 1.0)
        computed = _instructions_inside(view, operations.instructions)
        each: Array = computed + operations.conversions * again + shuffles(view)
        return each / view.core.operations
    cycles = view.full(view.core.throughput(tensor.intrinsic))
    for n in () if tensor.intrinsic.tiles else view.reads():
        single, loaded = view.loads_of_one[n], np.minimum(tile.vectors[n] / tile.operations, _shared_loads(view, n))
        cycles = cycles + np.where(single > 1, np.where(tile.held > 0, loaded, single), 0.0)
    return cycles


def _shared_loads(view: StatementView, access: int) -> Array:
    """Loads of an operand for one use of an intrinsic, where all that are unrolled read each run of it once."""
    tensor = view.statement.tensor
    assert tensor is not None
    level, inside = np.full(view.rows, tensor.depth), np.ones(view.rows, np.bool_)
    for loop in reversed(range(tensor.depth)):
        inside &= (view.unrolled[loop] > 0) | (view.extents[loop] <= 1)
        np.copyto(level, loop, where=inside)
    place, elements = flat_positions(level), view.footprints[access].elements
    share = take_level(elements, place) / (elements[tensor.depth] * take_level(view.strips_inside, place))
    loads: Array = share * view.loads_of_one[access]
    return loads


def shuffles(view: StatementView) -> Array:
    """Shuffles of an instance, which pick lanes from vectors that they are spread over, or put those together that are
    loaded one by one: one for each vector or element. A transposition in registers halves what is apart in each step.
    """
    tile, found = view.tile, view.full(0.0)
    for n in view.reads():
        spread, apart = view.spread[n], (view.steps[n] > 1) & (view.transposed[n] == 0)
        found = found + np.log2(np.maximum(view.transposed[n], 1.0))
        gathers = view.target.gathers and view.statement.accesses[n].element_bytes >= _LEAST_GATHERED_BYTES
        if not np.count_nonzero(apart) or (gathers and not np.count_nonzero(spread)):
            continue
        loaded = tile.vectors[n] / running_operations(view)
        each = np.where(spread >= 1, 0.5, np.where((spread > 0) | gathers, 0.0, 1.0))
        found = found + np.where(apart, each * np.where(tile.held > 0, loaded, view.loads_of_one[n]), 0.0)
    return found


@cache_per_view
def hoisted_instructions(view: StatementView) -> Array:
    """Instructions of an instance that code generation moves out of loops.

    Divisions and costly functions are computed before inner loops, as far out as loops do not move them or are
    unrolled: then each copy has its own.
    """
    out = view.full(0.0)
    for instructions, movers in view.statement.long:
        inside = view.full(1.0)
        still = np.ones(view.rows, np.bool_)
        for loop in reversed(range(view.statement.depth)):
            if loop in movers:
                still &= (view.extents[loop] <= 1) | (view.unrolled[loop] > 0)
            else:
                inside = np.where(still, inside * view.strips[loop], inside)
        out = out + instructions * (1.0 - 1.0 / inside)
    return out


def _instructions_inside(view: StatementView, instructions: float) -> Array:
    """What an instance runs of its instructions, without those moved out of loops or of values that are not chosen,
    which may be the same."""
    left: Array = np.maximum(instructions - hoisted_instructions(view) - excluded_instructions(view), 0.0)
    return left


@cache_per_view
def excluded_instructions(view: StatementView) -> Array:
    """Instructions of an instance for values that are not chosen, in copies of unrolled code that know it: of parts
    that are put side by side, each vector is of one part where none has lanes of two.
    """
    out = view.full(0.0)
    for gate in view.statement.gates:
        if gate.instructions and not gate.skips:
            out = out + gate.instructions * view.shares.copy_shares(gate.condition).excluded
    return out


def _chain_cycles(view: StatementView, whole: float | Array = 1.0) -> Array:
    """Cycles an instance waits for the one before in its accumulator.

    Accumulators of a tile are independent chains, and so are the tiles that the core can see at once. Of a tile at a
    bound there is the share `whole`.
    """
    tile, statement, core = view.tile, view.statement, view.core
    if not statement.reduces:
        return view.full(0.0)
    step = np.where(tile.held > 0, _sum_latency(view), core.memory_round_trip)
    runs, chains = tile.together, np.maximum(tile.accumulators * whole, 1.0)
    if statement.vector is not None and statement.loops[statement.vector].reduces:
        # Each register of a vector has sums of its own; a tile of such vectors counts them already.
        counted = view.vector.of_terms
        runs = np.where(counted, runs, runs * view.vector.strips / view.vector.extent)
        chains = np.where(counted, chains, chains * view.vector.strips / view.vector.steps)
    # Operations that wait for one another hold places: the fewer there are of a tile, the more of the next is begun.
    operations = np.maximum(tile.operations * whole, 1.0)
    begun = 1.0 + (0.0 if view.in_tiles else core.window / (runs * operations * view.instructions * chains))
    outside = view.instances / (runs * tile.operations)
    waiting: Array = step / (chains * np.minimum(begun, np.maximum(outside, 1.0)))
    return waiting


def _bound_wait_cycles(view: StatementView, bound: Array) -> Array:
    """Cycles for an instance that tiles at a bound wait beyond `bound`, as they have fewer accumulators.

    Of rows of 7 in tiles of 6, a seventh is in tiles of 1.
    """
    found, cases = view.full(0.0), [(view.full(1.0), view.full(1.0))]
    for rest in partial_tiles(view) if view.statement.reduces else ():
        cases = [(s * t, w * v) for s, w in cases for t, v in ((1.0 - rest.share, 1.0), (rest.share, rest.whole))]
    for share, whole in cases[1:]:
        found = found + share * np.maximum(_chain_cycles(view, whole) - bound, 0.0)
    return np.where(view.tile.held > 0, found, 0.0)


def _sum_latency(view: StatementView) -> float:
    """Cycles until the next operation may add to the same accumulator in a register."""
    statement, core = view.statement, view.core
    if statement.tensor is not None:
        return statement.tensor.intrinsic.latency
    if statement.integers:
        return core.integer_latency
    return core.operation_latency if statement.reducer in (Reducer.SUM, Reducer.PROD) else core.extreme_latency


def _lane_fold_cycles(view: StatementView) -> Array:
    """Cycles for each operation in which the lanes of a vector of partial results are reduced to one, by halves."""
    statement = view.statement
    if statement.vector is None or not statement.loops[statement.vector].reduces or statement.tensor is not None:
        return view.full(0.0)
    steps = np.log2(np.maximum(np.minimum(view.vector.lanes, view.vector.extent), 1.0))
    each = view.core.shuffle + statement.operations.of_update / view.core.operations
    # A tile in registers is reduced once all of its terms are there.
    held = view.vector.of_terms & (view.tile.held > 0)
    operations = view.strips_inside[statement.vector] * np.where(held, view.tile.together, 1.0)
    cycles_each: Array = steps * each / operations
    return cycles_each


def _code_size_penalty(view: StatementView) -> Array:
    """Code that does not fit the instruction caches."""
    penalty: Array = 0.5 * np.minimum(np.maximum(code_bytes(view) / view.core.code_bytes - 1.0, 0.0), 4.0)
    return penalty


@features(
    "operation_cycles",
    "port_cycles",
    "latency_cycles",
    "overhead_cycles",
    Feature("core_cycles", second=True),
    "l2_cycles",
    "l3_cycles",
    Feature("memory_cycles", second=True),
    Feature("cycles", second=True),
    "waiting_cycles",
)
def cycles(view: StatementView, speedup: Array, conditions: Columns) -> Columns:
    """A roofline by hand, in cycles of one thread divided by the speed-up of the threads.

    `waiting_cycles` come on top: they are those for lines that neither prefetchers nor the program ask for in time.
    """
    each = instance_cycles(view, conditions)
    bound = np.maximum(np.maximum(each["operations"], each["ports"]), each["latency"])
    near, *far = view.traffic
    in_two_lines = [_line_slowdown(view, n) for n in range(len(near))]
    # Most programs leave no buffer to memory, and many none to the third cache.
    from_l3, from_memory = (
        [
            traffic * in_two_lines[n] * longer(view, n, level) if np.count_nonzero(traffic) else traffic
            for n, traffic in enumerate(moved)
        ]
        for longer, moved, level in zip((l3_slowdown, memory_slowdown), far, view.fits[1:], strict=True)
    )
    share = (1.0 + _waiting_share(view)) / speedup
    work = view.instances * running_share_in_busiest(view) * share
    setup = view.core.tile_setup * view.in_tiles
    once = setup + waits_for_stores(view) * share
    core = work * (bound + each["overhead"]) + once
    read = share_of_terms(view)
    l2 = total([traffic * in_two_lines[n] for n, traffic in enumerate(near)]) / view.core.l2_bytes * share * read
    l3 = total(from_l3) / view.core.l3_bytes * share * read
    memory = total(from_memory) / view.core.memory_bytes * np.maximum(share, LEAST_OF_MEMORY)
    steady = _overlap_cycles(core, l2, l3, memory)
    waits = [traffic * unprefetched_cycles(view, n) for n, traffic in enumerate(far[0]) if np.count_nonzero(traffic)]
    late = total(waits) * share * read if waits else view.full(0.0)
    # What is not compiled has no time: it is not to be chosen.
    refused = np.where(_code_copies(view) > MAX_COPIES, np.float32(_REFUSED_SLOWDOWN), np.float32(1.0))
    return {
        "operation_cycles": work * each["operations"],
        "port_cycles": work * each["ports"],
        "latency_cycles": work * each["latency"],
        "overhead_cycles": work * each["overhead"] + once,
        "core_cycles": core,
        "l2_cycles": l2,
        "l3_cycles": l3,
        "memory_cycles": memory,
        "cycles": (steady + _handed_over_bytes(view, share) / view.core.handed_over_bytes) * refused,
        "waiting_cycles": _overlap_cycles(core, l2, l3 + late, memory) - steady,
    }


def _overlap_cycles(*parts: Array) -> Array:
    """Cycles of parts that overlap for the most part: those of the longest, and some of the others."""
    worst = parts[0]
    for part in parts[1:]:
        worst = np.maximum(worst, part)
    return worst + 0.3 * (total(parts) - worst)


def _waiting_share(view: StatementView) -> Array:
    """The share of its own time that a thread waits at the end of a long parallel loop for one that began later or was
    not run for a while. Others take over whole iterations, and no less than a part of a thread's range.
    """
    threads = max(view.target.threads, 1)
    if not view.parallel or threads == 1:
        return view.full(0.0)
    accesses = view.instances * (len(view.statement.accesses) + 1.0)
    piece = np.maximum(threads / view.tasks, _LEAST_PIECE_SHARE)
    found: Array = np.where(accesses < _LEAST_SHARED_ACCESSES, 0.0, np.minimum(0.5 * piece, view.core.late_thread))
    return found


def _line_slowdown(view: StatementView, access: int) -> Array:
    """How much longer lines take to come for vectors that lie in two of them: a store makes both come."""
    times = 2.0 if view.statement.accesses[access].is_store else 1.0
    longer: Array = 1.0 + times * view.core.straddled_line * _straddling_per_line(view, access)
    return longer


def _second_line_loads(view: StatementView) -> Array:
    """The vectors an operation loads that lie in two lines, and so take two loads each."""
    tile, found = view.tile, view.full(0.0)
    for n in view.reads():
        loads = np.where(tile.held > 0, tile.vectors[n] / running_operations(view), view.loads_of_one[n])
        found = found + loads * _straddling_shares(view)[n]
    return found


def _straddling_per_line(view: StatementView, access: int) -> Array:
    """Vectors that lie in two lines, for each line of a run: each waits for both, and holds places for both."""
    found: Array = _straddling_shares(view)[access] * (CACHE_LINE / _vector_bytes(view, access))
    return found


def _vector_bytes(view: StatementView, access: int) -> Array:
    """Bytes of a vector of what is accessed."""
    element_bytes = view.statement.accesses[access].element_bytes
    width: Array = np.minimum(view.vector.lanes, view.target.vector_bits / (8.0 * element_bytes)) * element_bytes
    return width


@cache_per_view
def _straddling_shares(view: StatementView) -> Array:
    """For each access, the share of its vectors that lie in two lines: (accesses, rows).

    Where all vectors begin at multiples of some bytes of a line, these are (vector - multiple) / line of them.
    """
    return np.stack([_straddling_share(view, n) for n in range(len(view.statement.accesses))])


def _straddling_share(view: StatementView, access: int) -> Array:
    along, place = view.statement.vector, view.statement.accesses[access]
    if along is None or view.statement.tensor is not None or place.is_register:
        return view.full(0.0)
    in_order = view.steps[access] == 1
    if not in_order.any():
        return view.full(0.0)
    width = _vector_bytes(view, access)
    # A line is a power of two bytes: what divides it and all steps is the lowest bit that one of them has.
    steps = np.full(view.rows, CACHE_LINE, np.int32)
    for loop in range(view.statement.depth):
        if not any(dim.uses(loop) for dim in place.dims):
            continue
        if loop == along:
            bytes_of = width
        else:
            moved = np.abs(flat_step(place, view.footprints[access], view.ranges, loop)) * place.element_bytes
            bytes_of = np.where(view.iterates[loop], moved, 0.0)
        # All that is longer is whole lines, as 24 bits of it are told. `np.fmod` takes five times as long.
        steps |= np.minimum(bytes_of, _LONG_STEP).astype(np.int32) & (CACHE_LINE - 1)
    unit = steps & -steps
    found: Array = np.where(in_order, np.maximum(width - unit, 0.0) / CACHE_LINE, 0.0)
    return found


def _handed_over_bytes(view: StatementView, share: Array) -> Array:
    """Bytes that a thread reads of what another has written before: they come from the caches of other cores, whatever
    its own holds. Where threads write and read a part each, it may be their own.
    """
    statement = view.statement
    parallel = [loop for loop, info in enumerate(statement.loops) if info.kind is LoopKind.PARALLEL]
    lines = view.full(0.0)
    for n in view.reads() if parallel else ():
        access = statement.accesses[n]
        shared = access.alloc is not None and access.alloc <= parallel[0] and not access.is_register
        if shared:
            part = view.part_of_a_thread(access) < 1.0
            read = np.where(part, share if access.by_one else 0.0, 1.0)
            lines = lines + view.footprints[n].lines[0] * read
    others: Array = lines * (CACHE_LINE * (1.0 - 1.0 / max(view.target.threads, 1)))
    return others
