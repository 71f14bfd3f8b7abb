"""Features of one statement over a population: arithmetic, loops, vectors, registers, parallelism, cycles.

Every function takes the `StatementView` of a statement and returns named arrays of one value per row, those that it
declares.
"""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.caches import CACHES
from metasched.cost.estimate.condition_cycles import asked_before_terms
from metasched.cost.estimate.footprint import Array, take_level
from metasched.cost.estimate.roofline import code_bytes, cycles, issue_cycles
from metasched.cost.estimate.statement import StatementView, total
from metasched.cost.estimate.tensor_use import comfortable_registers
from metasched.cost.feature import Columns, Feature, features, require_distinct
from metasched.cost.program.conditions import DataCondition, IsNegative, loops_in


@features(
    Feature("flops", second=True),
    "iterations",
    "arithmetic",
    "divisions",
    "special",
    "choices",
    Feature("waste", raw=True, second=True),
)
def arithmetic(view: StatementView) -> Columns:
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


@features(
    Feature("live_guards", second=True),
    "vector_guards",
    "unrolled_guards",
)
def guards(view: StatementView) -> Columns:
    """Guards that remain in the code, those of them that mask vector lanes, and those that stay conditions in unrolled
    code.

    A guard over terms of a reduction alone is one condition for a whole tile of accumulators. One that differs between
    copies which hold loops, such as those of the parities of a strided access, is asked for outside of these.
    """
    statement = view.statement
    total, vector, inner = view.full(0.0), view.full(0.0), view.full(0.0)
    innermost = _innermost_loop(view)
    for guard in statement.guards:
        if isinstance(guard, DataCondition):
            total = total + 1.0
            continue
        live = (view.shares.holding_share(guard) < 1.0).astype(np.float32)
        total = total + live
        loops = loops_in(guard)
        unrolled, rolled = np.zeros(view.rows, np.bool_), np.zeros(view.rows, np.bool_)
        for loop in loops:
            moves = view.shares.moves(guard, loop)
            if loop == statement.vector:
                vector = vector + live * moves
                rolled |= moves
            else:
                unrolled |= moves & (view.unrolled[loop] > 0) & (loop > innermost)
                rolled |= moves & (view.unrolled[loop] == 0)
        # `branches` counts those that are no bounds.
        if np.count_nonzero(unrolled) and isinstance(guard, IsNegative):
            # What unrolled loops alone decide is known when the code is made.
            evaluated = rolled & ~asked_before_terms(view, guard)
            over_terms = all(statement.loops[loop].reduces for loop in loops)
            inner = inner + live * (unrolled & evaluated) / (view.tile.operations if over_terms else 1.0)
    return {"live_guards": total, "vector_guards": vector, "unrolled_guards": inner}


def _innermost_loop(view: StatementView) -> Array:
    """The number of the innermost loop that is not unrolled, -1 where there is none."""
    found: Array = np.full(view.rows, -1)
    for number, extent in enumerate(view.extents):
        np.copyto(found, number, where=(view.unrolled[number] == 0) & (extent > 1))
    return found


@features(
    Feature("lanes", second=True),
    "vector_extent",
    Feature("useful_lanes", raw=True, second=True),
    Feature("masked", raw=True),
    "inside_vector",
    Feature("contiguous", second=True),
    "broadcast",
    Feature("strided", second=True),
    "store_step",
)
def vectors(view: StatementView) -> Columns:
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


@features(
    Feature("copies", second=True),
    "code_bytes",
    "tile_operations",
    Feature("accumulators", second=True),
    Feature("register_pressure", raw=True),
    Feature("held", raw=True, second=True),
    Feature("loads_per_operation", raw=True),
    Feature("broadcasts_per_operation", raw=True),
)
def registers(view: StatementView) -> Columns:
    """Unrolling and the register tile."""
    tile, tensor = view.tile, view.statement.tensor
    comfortable = comfortable_registers(None if tensor is None else tensor.intrinsic, view.target)
    return {
        "copies": view.copies,
        "code_bytes": code_bytes(view),
        "tile_operations": tile.operations,
        "accumulators": tile.accumulators,
        "register_pressure": tile.accumulators / comfortable,
        "held": tile.held,
        "loads_per_operation": tile.loads / tile.operations,
        "broadcasts_per_operation": tile.broadcasts / tile.operations,
    }


@features(
    Feature("tensorized", raw=True, second=True),
    Feature("flops_per_operation", second=True),
    "operation_issue",
    "operation_loads",
)
def operations(view: StatementView) -> Columns:
    """What one operation does: of a vector of instances, or of a tensor intrinsic on tiles or vectors.

    Its arithmetic, the cycles until the next one, and the loads for it where nothing stays in registers.
    """
    loads = total([view.full(0.0), *(view.loads_of_one[n] for n in view.reads())])
    return {
        "tensorized": view.full(view.statement.tensor is not None),
        "flops_per_operation": view.iterations * view.statement.operations.flops / view.instances,
        "operation_issue": issue_cycles(view),
        "operation_loads": loads,
    }


@features(
    Feature("tasks", second=True),
    "tasks_per_thread",
    Feature("imbalance", raw=True, second=True),
    "speedup",
    "task_instances",
)
def parallelism(view: StatementView) -> Columns:
    """Tasks, and how evenly the threads share them."""
    threads, tasks = float(max(view.target.threads, 1)), view.tasks
    return {
        "tasks": tasks,
        "tasks_per_thread": tasks / threads,
        "imbalance": np.ceil(tasks / threads) * threads / tasks,
        "speedup": view.speedup,
        "task_instances": view.instances / tasks,
    }


@features(
    Feature("reduces", raw=True, second=True),
    "inner_reduction",
    "reduction",
)
def reduction(view: StatementView) -> Columns:
    """Lengths of the reduction, whole and in the innermost reduction loop."""
    total = view.full(1.0)
    for loop, info in enumerate(view.statement.loops):
        if info.reduces:
            total = total * view.extents[loop]
    return {"reduces": view.full(view.statement.reduces), "inner_reduction": view.tile.runs, "reduction": total}


@features(
    Feature("l1_intensity", second=True),
    "l1_inside",
    Feature("l2_intensity", second=True),
    "l2_inside",
    "l3_intensity",
    "l3_inside",
)
def locality(view: StatementView) -> Columns:
    """Arithmetic per byte moved into each cache, and how much work is done inside the level that fits it."""
    flops = view.domain * max(view.statement.operations.flops, 1)
    out: Columns = {}
    for name, by_access, level in zip(CACHES, view.traffic, view.fits, strict=True):
        moved = total(by_access)
        out[f"{name}_intensity"] = flops / np.maximum(moved, 1.0)
        out[f"{name}_inside"] = view.iterations / take_level(view.outer, level)
    return out


@features(
    Feature("depth", second=True),
    Feature("shared_loops", second=True),
    "innermost",
    Feature("store_in_registers", raw=True),
    "stored_elements",
)
def shape(view: StatementView) -> Columns:
    """Where the statement stands in the program."""
    innermost = view.extents[-1] if view.depth else view.full(1.0)
    return {
        "depth": view.full(view.depth - max(len(view.parallel) - 1, 0)),
        "shared_loops": view.full(view.statement.shared_loops),
        "innermost": innermost,
        "store_in_registers": view.full(view.statement.store.is_register),
        "stored_elements": view.footprints[0].elements[0],
    }


# In the order in which they are given.
GROUPS = (arithmetic, guards, reduction, vectors, registers, operations, parallelism, locality, shape, cycles)
STATEMENT_FEATURES = tuple(feature for group in GROUPS for feature in group.features)
require_distinct(STATEMENT_FEATURES)


def describe(view: StatementView) -> Columns:
    """All groups of a statement, in order; zeros where it does not run."""
    return _mask_stopped_rows(view, _all_columns(view))


def describe_for_sums(view: StatementView) -> Columns:
    """The groups of a statement from which sums over all statements are made; zeros where it does not run."""
    spread, conditions = parallelism(view), guards(view)
    return _mask_stopped_rows(
        view,
        {
            **arithmetic(view),
            **conditions,
            "code_bytes": code_bytes(view),
            **spread,
            **cycles(view, spread["speedup"], conditions),
        },
    )


def _mask_stopped_rows(view: StatementView, columns: Columns) -> Columns:
    if view.ranges.runs.all():
        return columns
    return {name: np.where(view.ranges.runs, column, 0.0).astype(np.float32) for name, column in columns.items()}


def _all_columns(view: StatementView) -> Columns:
    spread, conditions = parallelism(view), guards(view)
    return {
        **arithmetic(view),
        **conditions,
        **reduction(view),
        **vectors(view),
        **registers(view),
        **operations(view),
        **spread,
        **locality(view),
        **shape(view),
        **cycles(view, spread["speedup"], conditions),
    }
