"""What the hand-made roofline expects of a scheduled program, and which of its terms limits that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from functools import lru_cache

import numpy as np

from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.estimate.caches import absent_share, last_cache
from metasched.cost.estimate.condition_cycles import share_of_terms
from metasched.cost.estimate.peak import cycles_at_peak, domain_left
from metasched.cost.estimate.reuse_between_statements import views_of
from metasched.cost.estimate.roofline import LEAST_OF_MEMORY, start_cycles
from metasched.cost.estimate.statement import StatementView
from metasched.cost.feature import Columns
from metasched.cost.groups import describe_for_sums
from metasched.cost.program.nest import Analyses, analyse
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Func
from metasched.ir.prologue import constants, divide, main_part
from metasched.schedule.carried import as_if_carried
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE, Target

# A clock by which cycles are shown as a time: what a CPU's own is, no target says.
_CLOCK_HZ = 3e9


class Limit(Enum):
    """A term of the roofline, as a person calls it."""

    OPERATIONS = "arithmetic"
    PORTS = "loads and stores"
    LATENCY = "sums that wait for the one before"
    OVERHEAD = "loops, masks and conditions"
    L2 = "bytes from the second cache"
    L3 = "bytes from the last cache"
    MEMORY = "bytes from memory"
    WAITING = "lines that nothing asks for in time"
    LAUNCH = "starting threads"

    @property
    def is_memory(self) -> bool:
        return self in (Limit.L2, Limit.L3, Limit.MEMORY, Limit.WAITING)


# The terms of a statement that keep a core's units busy, of which the longest bounds it, and those that come on top.
_UNIT_LIMITS = {"operation_cycles": Limit.OPERATIONS, "port_cycles": Limit.PORTS, "latency_cycles": Limit.LATENCY}
_ADDED_LIMITS = {
    "overhead_cycles": Limit.OVERHEAD,
    "l2_cycles": Limit.L2,
    "l3_cycles": Limit.L3,
    "memory_cycles": Limit.MEMORY,
    "waiting_cycles": Limit.WAITING,
}


@dataclass(frozen=True)
class Expectation:
    """An estimate that nothing was measured for.

    `cycles` of the CPU are from the start to the end of a call, `efficiency` is the share of the peak arithmetic of all
    threads: that of full vectors, or of the fastest tensor intrinsic that the target has for what is computed. `parts`
    are the cycles of each term; they overlap, so that their sum is more. All of that is about the main part;
    `prologue_cycles` are those of what is run once for constant arguments.
    """

    cycles: float
    efficiency: float
    parts: Mapping[Limit, float]
    prologue_cycles: float = 0.0

    @property
    def limit(self) -> Limit:
        """The term that takes longest."""
        return max(self.parts, key=lambda term: self.parts[term])

    def __str__(self) -> str:
        kind = "memory" if self.limit.is_memory else "compute"
        once = f" + {_count(self.prologue_cycles)} once for constant arguments" if self.prologue_cycles else ""
        return (
            f"{_count(self.cycles)} cycles ({_duration(self.cycles / _CLOCK_HZ)} at {_CLOCK_HZ / 1e9:g} GHz){once}, "
            f"{self.efficiency:.0%} of the peak arithmetic; bound by {kind}: "
            f"{self.parts[self.limit] / max(self.cycles, 1.0):.0%} of it is for {self.limit.value}"
        )


def _count(cycles: float) -> str:
    return f"{cycles / 1e6:.3g} million" if cycles >= 1e6 else f"{cycles / 1e3:.3g} thousand"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def expectation_of(func: Func, target: Target, core: Core = DEFAULT_CORE) -> Expectation:
    """The roofline's expectation of a scheduled program whose numbers are all decided."""
    division = divide(func, constants(func))
    if division.prologue is None:
        return _part_expectation(func, target, core)
    prologue = _part_expectation(division.prologue, target, core)
    return replace(_part_expectation(division.main, target, core), prologue_cycles=prologue.cycles)


def _part_expectation(func: Func, target: Target, core: Core) -> Expectation:
    """The expectation of a part of a program that is run as a whole."""
    launches, views = _launch_and_views(func, target, core)
    described = [describe_for_sums(view) for view in views]
    parts = dict.fromkeys(Limit, 0.0)
    parts[Limit.LAUNCH] = launches
    for columns in described:
        longest = max(_UNIT_LIMITS, key=lambda name: _column_value(columns, name))
        parts[_UNIT_LIMITS[longest]] += _column_value(columns, longest)
        for name, limit in _ADDED_LIMITS.items():
            parts[limit] += _column_value(columns, name)
    cycles = parts[Limit.LAUNCH] + sum(
        _column_value(columns, name) for columns in described for name in ("cycles", "waiting_cycles")
    )
    least = sum(float(cycles_at_peak(view)[0]) for view in views if view.ranges.runs[0])
    return Expectation(cycles, least / max(cycles, 1.0), parts)


def least_cycles(func: Func, target: Target, core: Core = DEFAULT_CORE) -> float:
    """Cycles that no schedule of an unscheduled program is thought to go below: the operations of its main part in full
    vectors on all threads, or by a tensor intrinsic that the target has for them. A running reduction goes on from
    element to element.
    """
    return sum(map(least_of, _launch_and_views(as_if_carried(main_part(func)), target, core)[1]))


def least_vector_cycles(func: Func, target: Target, core: Core = DEFAULT_CORE) -> float:
    """As `least_cycles`, but without tensor intrinsics."""
    return sum(map(_least_in_vectors, _launch_and_views(as_if_carried(main_part(func)), target, core)[1]))


def least_transfer_cycles(func: Func, target: Target, core: Core = DEFAULT_CORE) -> float:
    """Cycles that no schedule of an unscheduled program is thought to go below for what its main part reads of its
    inputs and writes of its outputs: each line moves once, and all threads have a like share of them. What is written
    comes into the nearer caches first; if it went past them, memory would bound it.
    """
    read: dict[str, float] = {}
    written: dict[str, float] = {}
    for view in _launch_and_views(as_if_carried(main_part(func)), target, core)[1]:
        share = float(share_of_terms(view)[0])
        for access, footprint in zip(view.statement.accesses, view.footprints, strict=True):
            if access.alloc is None:
                lines = written if access.is_store else read
                lines[access.buffer] = max(lines.get(access.buffer, 0.0), share * float(footprint.lines[0][0]))
    brought, stored = CACHE_LINE * sum(read.values()), CACHE_LINE * sum(written.values())
    moved, threads = np.array([brought + stored]), max(target.threads, 1)
    near = (moved + stored) * absent_share(moved / threads, target.l2, core) / core.l3_bytes / threads
    far = (
        moved
        * absent_share(moved, last_cache(target, core), core)
        / core.memory_bytes
        * max(1 / threads, LEAST_OF_MEMORY)
    )
    return max(float(near[0]), float(far[0]))


def stage_views(func: Func, target: Target, core: Core = DEFAULT_CORE) -> tuple[StatementView, ...]:
    """The statements of a program whose numbers are all decided, in order."""
    return _launch_and_views(func, target, core)[1]


def least_of(view: StatementView) -> float:
    """Cycles that no schedule of one statement is thought to go below: as `least_cycles` of a program."""
    in_vectors = _least_in_vectors(view)
    return min(in_vectors, float(cycles_at_peak(view)[0])) if view.statement.intrinsics else in_vectors


def _least_in_vectors(view: StatementView) -> float:
    lanes = view.target.vector_bits / (8 * view.statement.computed_bytes)
    instructions = float(domain_left(view)[0]) * view.statement.operations.instructions
    return instructions / (view.core.operations * lanes * max(view.target.threads, 1))


# A guess asks for several estimates of the program as it is written.
@lru_cache(maxsize=2)
def _launch_and_views(func: Func, target: Target, core: Core) -> tuple[float, tuple[StatementView, ...]]:
    """Cycles to start a program's threads, and its statements."""
    analyses = Analyses()
    nest = analyse(func, analyses)
    sizes = [np.asarray(value, dtype=np.float32) for value in Evaluator(analyses.table.exprs)({})]
    launches = float(start_cycles(sizes[nest.regions], sizes[nest.barriers], core))
    return launches, tuple(views_of(nest, sizes, 1, target, core))


def _column_value(columns: Columns, name: str) -> float:
    return float(columns[name][0])
