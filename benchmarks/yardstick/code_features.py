"""Features of a candidate's lowered code: instructions by kind, what bounds its runs, and its heaviest run.

They cost a replay and lowering, 20 to 50 ms a candidate, where those of a parametric program cost 10 us: they are for
the few candidates that a cheap model has left.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.yardstick.code_runs import CodeRun, InstructionKind, code_runs
from metasched.compiler import lir
from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.features import NAMES, Features
from metasched.target import Target

# Instructions that a core of today starts in a cycle, and what a few kinds take beside themselves: a load is often an
# operand of the instruction that uses it, an iteration is an addition, a comparison and a branch.
_ISSUED = 5.0
_IN_INSTRUCTIONS = {
    InstructionKind.SPECIAL: 10.0,
    InstructionKind.VECTOR_LOAD: 0.4,
    InstructionKind.BROADCAST: 0.4,
    InstructionKind.LANE_LOAD: 2.0,
    InstructionKind.LANE_STORE: 2.0,
    InstructionKind.ITERATION: 3.0,
    InstructionKind.BRANCH: 2.0,
}
_OPERATIONS = (
    InstructionKind.MULTIPLY_ADD,
    InstructionKind.ARITHMETIC,
    InstructionKind.SPECIAL,
    InstructionKind.CHOICE,
)
_LOADS = (
    InstructionKind.VECTOR_LOAD,
    InstructionKind.BROADCAST,
    InstructionKind.LANE_LOAD,
    InstructionKind.SCALAR_LOAD,
)
_STORES = (InstructionKind.VECTOR_STORE, InstructionKind.LANE_STORE, InstructionKind.SCALAR_STORE)
_DIVISION_CYCLES = 8.0

# log2(1 + x) of sums over runs by how often they are executed; then what the code of the heaviest run has, as it is.
TOTALS = (
    "cycles",
    "bound_cycles",
    "waiting_cycles",
    "instructions",
    "static",
    *(kind.value for kind in InstructionKind),
)
HEAVIEST = ("share", "instructions", "chain", *(kind.value for kind in InstructionKind))
# What is compared with the estimate of the roofline: candidates of a task differ by more in size than in this.
_COMPARED_TOTALS = TOTALS
CODE_NAMES = (
    *(f"code.{name}" for name in TOTALS),
    *(f"heaviest.{name}" for name in HEAVIEST),
)
JOINED_NAMES = (*NAMES, *CODE_NAMES, *(f"code.{name}/roofline" for name in _COMPARED_TOTALS))
_ESTIMATE = NAMES.index("all.total_cycles")


def code_features(kernel: lir.LoopProgram, target: Target) -> Features:
    """Features of one lowered program, float32 of shape (len(CODE_NAMES),)."""
    runs = code_runs(kernel, target)
    totals = dict.fromkeys(TOTALS, 0.0)
    heaviest: tuple[float, CodeRun | None] = (0.0, None)
    for run in runs:
        bound, waiting = _bound_cycles(run.counts, DEFAULT_CORE), _waiting_cycles(run, DEFAULT_CORE)
        cycles = run.executions * max(bound, waiting)
        instructions = _instructions(run.counts)
        totals["cycles"] += cycles
        totals["bound_cycles"] += run.executions * bound
        totals["waiting_cycles"] += run.executions * waiting
        totals["instructions"] += run.executions * instructions
        totals["static"] += instructions
        for kind, count in run.counts.items():
            totals[kind.value] += run.executions * count
        if cycles > heaviest[0]:
            heaviest = (cycles, run)
    logs = np.log2(1.0 + np.array([totals[name] for name in TOTALS]))
    return np.concatenate([logs, _heaviest_features(heaviest[1], heaviest[0], totals["cycles"])]).astype(np.float32)


def join_features(features: Features, code: Features) -> Features:
    """Features of candidates, float32 (n, F), with those of their code beside them: (n, len(JOINED_NAMES))."""
    compared = code[:, : len(_COMPARED_TOTALS)] - features[:, [_ESTIMATE]]
    together: Features = np.concatenate([features, code, compared], axis=1)
    return together


def _heaviest_features(run: CodeRun | None, cycles: float, total: float) -> Features:
    if run is None:
        return np.zeros(len(HEAVIEST), np.float32)
    counts = [run.counts.get(kind, 0.0) for kind in InstructionKind]
    return np.array([cycles / max(total, 1.0), _instructions(run.counts), run.chain, *counts], np.float32)


def _sum(counts: Mapping[InstructionKind, float], kinds: tuple[InstructionKind, ...]) -> float:
    return sum(counts.get(kind, 0.0) for kind in kinds)


def _instructions(counts: Mapping[InstructionKind, float]) -> float:
    return sum(count * _IN_INSTRUCTIONS.get(kind, 1.0) for kind, count in counts.items())


def _bound_cycles(counts: Mapping[InstructionKind, float], core: Core) -> float:
    """Cycles of one execution by the busiest part of a core, where nothing waits."""
    return max(
        (_sum(counts, _OPERATIONS) + 9.0 * counts.get(InstructionKind.SPECIAL, 0.0)) / core.operations,
        _sum(counts, _LOADS) / core.loads,
        _sum(counts, _STORES) / core.stores,
        _instructions(counts) / _ISSUED,
        counts.get(InstructionKind.BRANCH, 0.0) * core.branch_overhead,
        counts.get(InstructionKind.ITERATION, 0.0),
        counts.get(InstructionKind.DIVISION, 0.0) * _DIVISION_CYCLES,
    )


def _waiting_cycles(run: CodeRun, core: Core) -> float:
    """Cycles of one execution in which updates of one accumulator wait for one another."""
    return max(run.chain * core.operation_latency, run.stored_chain * core.memory_round_trip)
