"""What conditions cost a statement, and which of its instances they leave, over a population."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from metasched.compiler.policy import SPECIALISED_GUARDS
from metasched.cost.estimate.footprint import Array, Ranges
from metasched.cost.estimate.shared_loads import shares_of_loads
from metasched.cost.estimate.shares import Flags, Shares
from metasched.cost.estimate.statement import StatementView, cache_per_view
from metasched.cost.feature import Columns
from metasched.cost.program.conditions import Condition, IsNegative, loops_in
from metasched.support.data_classes import dataclass


@cache_per_view
def running_share(view: StatementView) -> Array:
    """The share of instances that conditions let run.

    A vector runs if any of its lanes does: a guard that differs from lane to lane leaves out whole vectors where it
    bounds an index, and none otherwise. What a selection gives zero is left out where that is known in unrolled code.
    """
    return _share_within_bounds(view, view.ranges, view.shares)


@cache_per_view
def running_share_in_busiest(view: StatementView) -> Array:
    """The share of instances that run, as `running_share` gives it, in the thread that has most to do.

    Threads take neighbouring iterations, and what lies beyond a bound is in the last ones: where rows in two tiles are
    8 and 6, the thread with 8 decides when both have ended.
    """
    uneven = (loop for loop in view.parallel if any(loop in loops_in(g) for g in _bound_guards(view)))
    loop = next(uneven, None)
    if loop is None or view.target.threads < 2:
        return running_share(view)
    first = view.of_a_thread
    return np.maximum(_share_within_bounds(view, first, view.shares.with_ranges(first)), running_share(view))


def _bound_guards(view: StatementView) -> list[IsNegative]:
    return [guard for guard in view.statement.guards if isinstance(guard, IsNegative)]


def _share_within_bounds(view: StatementView, ranges: Ranges, within: Shares) -> Array:
    lanes = np.minimum(view.vector.lanes, view.vector.extent)
    shares: dict[frozenset[int], Array] = {}
    for guard in _bound_guards(view):
        holds = within.holding_share(guard)
        if view.statement.vector in loops_in(guard):
            reached = ranges.reach(guard.value)[0] + 1.0
            holds = np.minimum(np.ceil(holds * reached / lanes) * lanes / reached, 1.0)
        # Two bounds over the same loops are the ends of one range: what they leave out is apart.
        met = shares.get(loops_in(guard), view.full(1.0))
        shares[loops_in(guard)] = np.maximum(met + holds - 1.0, 0.0)
    share = share_of_terms(view) * joint_share(shares, view.full(1.0))
    for gate in view.statement.gates:
        if gate.skips:
            share = share * (1.0 - view.shares.copy_shares(gate.condition).excluded)
    # Some instance runs: a share is taken from uniform indices.
    least: Array = np.maximum(share, 1.0 / np.maximum(view.iterations, 1.0))
    return least


@dataclass(frozen=True)
class PartialTile:
    """What a bound leaves of the last tile: the share of its instances that are in it, and of a tile that it is."""

    share: Array
    whole: Array


def partial_tiles(view: StatementView) -> list[PartialTile]:
    """The last tiles along each axis that unrolled tiles do not divide."""
    found = []
    for guard in _bound_guards(view):
        lanes, tile = view.full(1.0), view.full(1.0)
        for loop in loops_in(guard):
            if view.statement.loops[loop].reduces:
                break
            straight = (view.unrolled[loop] > 0) & view.shares.moves(guard, loop)
            tile = tile * np.where(straight, view.extents[loop], 1.0)
            if loop == view.statement.vector:
                lanes = np.where(straight, np.minimum(view.vector.lanes, view.vector.extent), lanes)
        else:
            limit = np.maximum(-view.sizes[guard.value.constant], 1.0) + view.full(0.0)
            rest = np.where(limit > tile, np.mod(limit, tile), 0.0)
            whole = np.where(rest > 0, np.ceil(rest / lanes) / np.ceil(tile / lanes), 1.0)
            found.append(PartialTile(rest / limit, whole))
    return found


@cache_per_view
def running_operations(view: StatementView) -> Array:
    """Operations of a register tile that run, one at least: none does of rows that are known not to be there, such as
    five of a tile of six where there is one. What a tile loads is of rows that are there.
    """
    operations = view.tile.operations
    for guard in _bound_guards(view):
        if view.statement.vector not in loops_in(guard):
            operations = operations * (1.0 - view.shares.copy_shares(guard).excluded)
    least: Array = np.maximum(operations, 1.0)
    return least


@cache_per_view
def share_of_terms(view: StatementView) -> Array:
    """The share of instances that guards other than bounds let run, such as those of terms (`(i + k) % 2 == 0`).

    They are evenly spread: they leave out as much of the data that the others read again as of the work.
    """
    share = view.full(1.0)
    for guard in view.statement.guards:
        if not isinstance(guard, IsNegative):
            by_lane = view.statement.vector is not None and view.shares.moves(guard, view.statement.vector)
            share = share * np.where(by_lane, 1.0, view.shares.holding_share(guard))
    return share


def joint_share(shares: Mapping[frozenset[int], Array], whole: Array) -> Array:
    """The share of instances for which all bounds hold, from that for which those over each set of loops do.

    A guard over some of the loops of another is of an outer split of the same axis, which implies it mostly, or which
    it implies: the lesser share counts. Others are taken to be independent.
    """
    for mine, share in shares.items():
        if not any(mine < other for other in shares):
            inside = [lesser for other, lesser in shares.items() if other < mine]
            whole = whole * np.minimum.reduce([share, *inside])
    return whole


def remaining_guards(view: StatementView, conditions: Columns) -> tuple[Array, Array]:
    """Guards that cost a mask, and those that cost a branch, in each instance of the innermost code.

    Around reductions and transpositions in registers, lowering makes cases of whole and partial tiles for
    `SPECIALISED_GUARDS` guards; a mask is left in the partial ones, the smaller part.
    """
    vector, branches = conditions["vector_guards"], conditions["unrolled_guards"]
    transposed = np.maximum.reduce([run > 0 for run in view.transposed])
    if not view.statement.reduces and not np.count_nonzero(transposed):
        return vector, branches
    left = np.maximum(vector + branches - SPECIALISED_GUARDS * (view.statement.reduces | transposed), 0.0)
    return np.minimum(vector, left), np.minimum(branches, left)


def gated_reads(view: StatementView) -> tuple[Array, Array]:
    """Instructions that conditions on reads add to an instance, and reads that it has not where they are known not to
    hold.

    A read of one element under a condition is from another address where it does not hold; a vector has a mask, which
    has to be computed where lanes differ. Neighbouring vectors of unrolled code share a condition.
    """
    statement, core, held = view.statement, view.core, view.tile.held > 0
    instructions = left_out = view.full(0.0)
    if not statement.gates:
        return instructions, left_out
    neighbours = np.where(held, 1.0, np.maximum(view.vector.strips / view.vector.steps, 1.0))
    for gate, of_lanes in zip(statement.gates, view.decided_by_lanes, strict=True):
        share = view.shares.copy_shares(gate.condition)
        if not np.count_nonzero(share.evaluated) and not np.count_nonzero(share.excluded):
            continue
        by_lane = statement.vector is not None and statement.vector in loops_in(gate.condition)
        for n in gate.reads:
            if statement.accesses[n].is_register:
                continue
            of_tile = view.tile.vectors[n] / view.tile.operations
            reads = np.where(held, of_tile, view.loads_of_one[n] * shares_of_loads(view)[n - 1])
            single = statement.vector is None or view.steps[n] == 0
            each = np.where(single, core.redirected_read, core.masked_read) + (core.lane_mask if by_lane else 0.0)
            # Lanes that are known to run have no mask.
            each = np.where(of_lanes & (view.steps[n] > 1), 1.0, each)
            alike = _reads_alike(view, n, loops_in(gate.condition))
            # A tile in registers has branches instead, but for conditions on lanes.
            alike = np.maximum(neighbours, alike if by_lane else np.where(held, 1.0, alike))
            instructions = instructions + reads * share.evaluated * (1.0 + (each - 1.0) / alike)
            instructions = instructions + held * single * (share.evaluated > 0) * _register_moves(view)
            left_out = left_out + reads * share.excluded
    return instructions, left_out


def _reads_alike(view: StatementView, access: int, loops: frozenset[int]) -> Array:
    """How many reads of unrolled code have a condition over some loops in common."""
    found, straight = view.full(1.0), np.ones(view.rows, np.bool_)
    for loop in reversed(range(view.statement.depth)):
        straight = straight & ((view.unrolled[loop] > 0) | (view.strips[loop] <= 1))
        if loop not in loops:
            dims = view.statement.accesses[access].dims
            moves = np.logical_or.reduce([view.ranges.moves(dim, loop) for dim in dims])
            found = np.where(straight & moves, found * view.strips[loop], found)
    return found


def _register_moves(view: StatementView) -> Array:
    """Instructions for each operation of a tile that move registers to memory and back, where elements that are read
    under conditions take registers beside accumulators and vectors: without conditions they would be read from memory
    by the operations."""
    tile, registers = view.tile, view.target.registers
    excess = np.maximum(tile.accumulators + tile.loads - registers, 0.0)
    vectors = tile.accumulators + tile.loads - tile.broadcasts
    moves: Array = 2.0 * excess / tile.operations + (vectors >= registers)
    return moves


def asked_before_terms(view: StatementView, guard: Condition) -> Flags:
    """Where a bound on an unrolled loop of a register tile is asked for all of the tile, before a loop over terms that
    it does not depend on: lowering makes cases of the parts of the tile (`metasched.compiler.lower.term_cases`).

    Not where bounds are on several loops of the tile, as on its rows and columns: of many parts few are whole.
    """
    if not isinstance(guard, IsNegative) or not _is_of_terms(view, guard):
        return np.zeros(view.rows, np.bool_)
    found: Flags = _bounds_tile(view, guard) & (_bounded_loops_of_tile(view) == 1)
    return found


@cache_per_view
def _bounded_loops_of_tile(view: StatementView) -> Array:
    by_loops = {loops_in(guard): guard for guard in _bound_guards(view) if _is_of_terms(view, guard)}
    number = view.full(0.0)
    for guard in by_loops.values():
        number = number + _bounds_tile(view, guard)
    return number


def _bounds_tile(view: StatementView, guard: IsNegative) -> Flags:
    """Where a bound is on one unrolled loop of a tile, inside of a loop over terms that it does not depend on, with one
    that is not unrolled around both."""
    found: Flags = np.zeros(view.rows, np.bool_)
    rolled = over_terms = found
    own = loops_in(guard)
    for number, loop in enumerate(view.statement.loops):
        if number not in own:
            over_terms = over_terms | view.iterates[number] if loop.reduces else over_terms
            continue
        moves, unrolled = view.shares.moves(guard, number), view.unrolled[number] > 0
        is_element = not loop.reduces and number != view.statement.vector
        of_tile = moves & unrolled & rolled & over_terms & is_element
        found = np.where(moves, of_tile & ~found, found)
        # A loop over terms counts that is inside of all loops around the tile that the bound depends on.
        over_terms = np.where(moves, of_tile, over_terms | (loop.reduces & view.iterates[number]))
        rolled = rolled | (moves & ~unrolled)
    return found


def _is_of_terms(view: StatementView, bound: IsNegative) -> bool:
    """Whether a bound says of an element which terms it has, and is none of a tile: those are of one kind of loops."""
    return len({view.statement.loops[loop].reduces for loop in loops_in(bound)}) == 2


def branches(view: StatementView) -> Array:
    """Guards of terms are branches in the innermost loop that they depend on, but in the copies of unrolled code that
    know them: how many there are to an instance that runs."""
    found = view.full(0.0)
    for guard in view.statement.guards:
        if isinstance(guard, IsNegative) and not _is_of_terms(view, guard):
            continue
        in_lanes, depends = np.zeros(view.rows, np.bool_), np.zeros(view.rows, np.bool_)
        evaluated = view.full(0.0)
        before_terms = asked_before_terms(view, guard)
        for loop in sorted(loops_in(guard)):
            moves = view.shares.moves(guard, loop)
            in_lanes |= moves & (loop == view.statement.vector)
            depends |= moves
            asked = moves & ~(before_terms & (view.unrolled[loop] > 0))
            evaluated = np.where(asked, view.outer[loop + 1] / view.instances, evaluated)
        live = ~in_lanes & depends & (view.shares.holding_share(guard) < 1.0)
        unknown = view.shares.copy_shares(guard).evaluated
        found = found + live * unknown * np.minimum(evaluated / running_share(view), 1.0)
    return found
