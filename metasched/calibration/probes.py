"""What a calibration measures, a probe a constant, and what each was on the machine that the defaults are for.

The constants of a `Core` stand for more than a small loop shows: the defaults were fitted to times of whole kernels,
on a machine that the references are of. So a probe does not replace a constant. It says how much this machine differs
from that one, and the constant is scaled by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from math import exp2, log2
from statistics import median

from metasched.cost.core import DEFAULT_CORE, Core
from metasched.schedule.tensor import Intrinsic, intrinsics
from metasched.support.data_classes import dataclass

# Times as much, or one part of it: a probe that differs by more has not seen what it is for.
_MOST_FACTOR = 8.0


class Unit(Enum):
    """What a probe counts."""

    A_CYCLE = "a cycle"
    BYTES = "bytes a cycle"
    CYCLES = "cycles"
    TIMES = "times"


@dataclass(frozen=True)
class ProbeValue:
    """A value that a probe measured, in its unit, in so many threads."""

    value: float
    threads: int = 1


@dataclass(frozen=True)
class Probe:
    """What is measured for a constant of `Core`, or of a tensor intrinsic of that name.

    `reference` is what it was on the machine of the defaults, and `in_one_thread` what it was there in one thread,
    where the number of threads changes it: the defaults are for two. `blur` is how much is added to both before they
    are compared: a difference of two times is known no better. `sure` is how many times as much, or how small a part,
    may be chance: what all cores of a machine share, neighbours take from.
    """

    constant: str
    what: str
    unit: Unit
    reference: float
    in_one_thread: float | None = None
    blur: float = 0.0
    sure: float = 2**0.5

    @property
    def by_threads(self) -> bool:
        """Whether it is measured in several numbers of threads; others are in one."""
        return self.in_one_thread is not None

    def reference_in(self, threads: int) -> float:
        """What it was on the machine of the defaults, in so many threads."""
        alone = self.in_one_thread if threads == 1 else None
        return self.reference if alone is None else alone

    def constant_of(self, core: Core) -> float:
        """What the constant is among those of a core."""
        intrinsic = intrinsics().get(self.constant)
        return getattr(core, self.constant) if intrinsic is None else core.throughput(intrinsic)

    def factor(self, measured: ProbeValue) -> float:
        """What the default is multiplied by on a machine where so much was measured in so many threads.

        A power of two: the yardstick of cost models does not see less, and that much a probe is sure of, so that a
        second calibration of a machine gives the same constants.
        """
        reference = self.reference_in(measured.threads)
        ratio = (measured.value + self.blur) / (reference + self.blur)
        if 1 / self.sure <= ratio <= self.sure:
            return 1.0
        return exp2(round(log2(min(max(ratio, 1 / _MOST_FACTOR), _MOST_FACTOR))))

    def summary(self, found: Sequence[float]) -> float:
        """One number of several rounds: the middle one, or the best where other cores use what is measured, too."""
        if self.unit is Unit.TIMES or self.by_threads:
            return max(found) if self.unit is Unit.BYTES else min(found)
        return median(found)


PROBES: tuple[Probe, ...] = (
    Probe("operations", "multiply-adds of vectors", Unit.A_CYCLE, 1.95),
    Probe("operation_latency", "a multiply-add until the next can use its sum", Unit.CYCLES, 4.1),
    Probe("loads", "loads of vectors", Unit.A_CYCLE, 1.95),
    Probe("stores", "stores of vectors", Unit.A_CYCLE, 1.0),
    Probe("memory_round_trip", "a sum in memory until the next can use it", Unit.CYCLES, 11.4),
    Probe("transfer", "a vector that is loaded and stored", Unit.CYCLES, 1.0),
    Probe("loop_overhead", "an iteration of a short loop", Unit.CYCLES, 0.3, blur=1.0),
    Probe("masked_sum", "a sum in memory under a mask, besides", Unit.CYCLES, 14.1, blur=1.0),
    Probe("tail_overhead", "a mask that is computed", Unit.CYCLES, 0.5, blur=0.5),
    Probe("branch_overhead", "a condition", Unit.CYCLES, 0.1, blur=0.5),
    Probe("l2_bytes", "from the second cache", Unit.BYTES, 26.0),
    Probe("l3_bytes", "from the last cache, in each thread", Unit.BYTES, 5.7, in_one_thread=10.0, sure=2.0),
    Probe("memory_bytes", "from memory, in each thread", Unit.BYTES, 3.8, in_one_thread=6.5, sure=2.0),
    Probe("scatter", "a line in a page of its own, to one beside the last", Unit.TIMES, 3.0, blur=1.0),
    Probe("parallel_launch", "to start threads on a region", Unit.CYCLES, 1700.0, in_one_thread=0.0, blur=500.0),
    Probe("barrier", "threads that wait for one another", Unit.CYCLES, 1500.0, in_one_thread=0.0, blur=500.0),
)


def probe_of_intrinsic(intrinsic: Intrinsic) -> Probe:
    """What is measured of a tensor intrinsic: it declares what that was on the machine of the defaults."""
    return Probe(intrinsic.name, "a use of the tensor intrinsic until the next", Unit.CYCLES, intrinsic.throughput)


def scale_defaults(measured: Mapping[str, ProbeValue], throughputs: Mapping[str, ProbeValue]) -> Core:
    """The constants of a machine, from what each probe has measured there, and each tensor intrinsic by its name."""
    factors = {probe.constant: probe.factor(measured[probe.constant]) for probe in PROBES}
    scaled = {name: getattr(DEFAULT_CORE, name) * factor for name, factor in factors.items()}
    known = {name: probe_of_intrinsic(intrinsics()[name]) for name in throughputs}
    changed = {name: probe.factor(throughputs[name]) for name, probe in known.items()}
    return replace(
        DEFAULT_CORE,
        throughputs=tuple((name, known[name].reference * factor) for name, factor in changed.items() if factor != 1.0),
        **scaled,
    )
