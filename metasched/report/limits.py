"""What a machine can do at most, as it has measured of itself, and how long a stage takes at least by that.

The roofline of Williams, Waterman and Patterson (2009): arithmetic at its peak, or bytes at the speed of the memory
that they come from, whichever takes longer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from typing import Any

from metasched.calibration.store import core_of, usable_calibration
from metasched.cost.core import Core
from metasched.cost.estimate.caches import last_cache
from metasched.cost.estimate.peak import domain_left
from metasched.cost.estimate.statement import StatementView
from metasched.cost.expectation import least_of, stage_views
from metasched.ir.nodes import Func
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted
from metasched.target import Target

# Cycles a second, where the machine was not calibrated.
USUAL_CLOCK_HZ = 3e9


class Bound(Enum):
    """What sets the pace of a stage: arithmetic, or the memory that its data can be in from one call to the next."""

    ARITHMETIC = "arithmetic"
    L1 = "first cache"
    L2 = "second cache"
    L3 = "last cache"
    MEMORY = "memory"


@dataclass(frozen=True)
class Ceilings:
    """What a machine can do, all threads together.

    Attributes:
        clock_hz: cycles a second.
        peak: operations a second of full vectors of 32-bit floats, a multiply-add counted as two.
        bytes_per_s: by the memory that they come from.
        threads: how many threads that is for.
        measured: whether `ms.calibrate` has measured them; if not, they are those of a usual CPU.
    """

    clock_hz: float
    peak: float
    bytes_per_s: Mapping[Bound, float]
    threads: int
    measured: bool

    @property
    def source(self) -> str:
        """For a person: what they are, and where they come from."""
        known = "as calibrated here" if self.measured else "of a usual CPU: `metasched calibrate` measures yours"
        return f"{known}; {self.peak / 1e9:.0f} GFLOP/s of f32 in {counted(self.threads, 'thread')}"

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, in operations and bytes a second."""
        rates = {level.value: rate for level, rate in self.bytes_per_s.items()}
        return asdict(self) | {"bytes_per_s": rates}


@dataclass(frozen=True)
class StageLimit:
    """What a stage does at least.

    Attributes:
        operations: on data, floats and integers; a multiply-add counts as two.
        nbytes: of the arrays that it touches beyond its own loops, each counted once.
        seconds: the least time that the machine could take.
        bound: what that is for.
    """

    operations: float
    nbytes: float
    seconds: float
    bound: Bound


def ceilings_of(target: Target) -> Ceilings:
    """The ceilings of a target, by the calibration of its machine where there is one of this version."""
    found, core, threads = usable_calibration(target), core_of(target), max(target.threads, 1)
    names = {"l2_bytes": core.l2_bytes, "l3_bytes": core.l3_bytes, "memory_bytes": core.memory_bytes}
    names |= {"operations": core.operations, "loads": core.loads}
    if found is not None:
        names = {name: found.nearest(name, threads).value for name in names}
    clock = USUAL_CLOCK_HZ if found is None else found.clock_hz
    width = target.vector_bits / 8
    each = {
        Bound.L1: max(names["loads"] * width, names["l2_bytes"]),
        Bound.L2: names["l2_bytes"],
        Bound.L3: names["l3_bytes"],
        Bound.MEMORY: names["memory_bytes"],
    }
    rates = {level: clock * threads * rate for level, rate in each.items()}
    peak = clock * threads * 2 * names["operations"] * width / 4
    return Ceilings(clock, peak, rates, threads, found is not None)


class StageLimits:
    """The limits of the stages of a scheduled program on a target."""

    def __init__(self, func: Func, target: Target) -> None:
        self._core: Core = core_of(target)
        self._views = stage_views(func, target, self._core)
        self._target = target
        self.ceilings = ceilings_of(target)

    def limit_of(self, blocks: Collection[str]) -> StageLimit:
        """The limit of what computes some blocks, as one stage."""
        views = [view for view in self._views if view.statement.name in blocks]
        operations = sum(float(domain_left(view)[0]) * view.statement.operations.flops for view in views)
        nbytes = sum(_bytes_touched(views).values())
        computing = sum(map(least_of, views)) / self.ceilings.clock_hz
        level = _level_of(nbytes, self._target, self._core)
        moving = nbytes / self.ceilings.bytes_per_s[level]
        bound = Bound.ARITHMETIC if computing >= moving else level
        return StageLimit(operations, nbytes, max(computing, moving), bound)


def _bytes_touched(views: Sequence[StatementView]) -> dict[str, float]:
    """Bytes of each array that is in memory outside of all loops."""
    found: dict[str, float] = {}
    for view in views:
        for access, footprint in zip(view.statement.accesses, view.footprints, strict=True):
            if not access.is_register and not access.alloc:
                # What data decides may be anywhere; no more is read than there are iterations.
                nbytes = float(min(footprint.elements[0][0], view.iterations[0])) * access.element_bytes
                found[access.buffer] = max(nbytes, found.get(access.buffer, 0.0))
    return found


def _level_of(nbytes: float, target: Target, core: Core) -> Bound:
    """The fastest memory that so much data, touched by all threads, can be in when it is touched again."""
    threads = max(target.threads, 1)
    sizes = {Bound.L1: target.l1 * threads, Bound.L2: target.l2 * threads, Bound.L3: last_cache(target, core)}
    return next((level for level, size in sizes.items() if nbytes <= size * core.usable), Bound.MEMORY)
