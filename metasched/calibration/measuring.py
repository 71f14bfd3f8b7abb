"""Measuring this machine: every probe, in some seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from metasched.calibration.calibration import CalibrationError, MachineCalibration
from metasched.calibration.core_loops import CoreLoops
from metasched.calibration.cycles import CycleCounter, Scratch
from metasched.calibration.memory_loops import MemoryLoops, memory_bytes
from metasched.calibration.probes import PROBES, probe_of_intrinsic
from metasched.calibration.regions import Regions
from metasched.calibration.tensor_loops import TensorLoops, intrinsics_of
from metasched.support.other_work import MUCH, OtherWork, Watch
from metasched.target import Target

# Each probe is measured so often, at moments apart: others may use the machine for a while.
_ROUNDS = 8
# The rounds that are begun at most, for so many in which nothing else ran; and those that are enough.
_MOST_ROUNDS = 24
_LEAST_ROUNDS = 4
# The share of its time that a host takes from a virtual machine in such a round. Some take a few per cent all the time,
# which no waiting ends, and which the middle of several rounds leaves out.
_MOST_STOLEN_SHARE = 0.1

# What a round measured: by constant and number of threads.
_Round: TypeAlias = dict[str, dict[int, float]]


class _Bench:
    """The loops, with what they need."""

    def __init__(self, target: Target) -> None:
        self.counter = CycleCounter(target)
        self.regions = Regions(self.counter)
        scratch = Scratch(memory_bytes(target.l3))
        self.core = CoreLoops(self.counter, scratch)
        self.memory = MemoryLoops(self.counter, self.regions, scratch)
        self.tensor = TensorLoops(self.counter)


_MEASURE: Mapping[str, Callable[[_Bench, int], float]] = {
    "operations": lambda bench, _: bench.core.operations(),
    "operation_latency": lambda bench, _: bench.core.operation_latency(),
    "loads": lambda bench, _: bench.core.loads(),
    "stores": lambda bench, _: bench.core.stores(),
    "memory_round_trip": lambda bench, _: bench.core.memory_round_trip(),
    "transfer": lambda bench, _: bench.core.transfer(),
    "loop_overhead": lambda bench, _: bench.core.loop_overhead(),
    "masked_sum": lambda bench, _: bench.core.masked_sum(),
    "tail_overhead": lambda bench, _: bench.core.tail_overhead(),
    "branch_overhead": lambda bench, _: bench.core.branch_overhead(),
    "l2_bytes": lambda bench, _: bench.memory.l2_bytes(),
    "l3_bytes": lambda bench, threads: bench.memory.l3_bytes(threads),
    "memory_bytes": lambda bench, threads: bench.memory.memory_bytes(threads),
    "scatter": lambda bench, _: bench.memory.scatter(),
    "parallel_launch": lambda bench, threads: bench.regions.parallel_launch(threads),
    "barrier": lambda bench, threads: bench.regions.barrier(threads),
}


def measure(target: Target) -> MachineCalibration:
    """Run every probe on this machine, with up to as many threads as the target has. It takes a few seconds.

    A round beside which something else ran does not count, and is repeated.

    Raises CalibrationError where the target is not what this machine is, and where it was busy nearly all the time.
    """
    here = Target.detect(threads=target.threads)
    if target != here:
        raise CalibrationError(
            f"this machine can measure itself only, which is `{here}`, not `{target}`",
            hint="leave out `target`, or run `metasched calibrate` on that machine",
        )
    began = time.perf_counter()
    bench = _Bench(target)
    tensor_probes = [probe_of_intrinsic(intrinsic) for intrinsic in intrinsics_of(target).values()]
    found = _measure_quiet_rounds(lambda: _measure_round(bench, target.threads))
    measured = {
        probe.constant: {
            threads: probe.summary([each[probe.constant][threads] for each in found])
            for threads in found[0][probe.constant]
        }
        for probe in (*PROBES, *tensor_probes)
    }
    return MachineCalibration(target, bench.counter.clock_hz(), measured, time.perf_counter() - began)


def _measure_quiet_rounds(measure_once: Callable[[], _Round]) -> list[_Round]:
    """Measure rounds, and keep those in which little else ran. Raises CalibrationError where there were too few."""
    found: list[_Round] = []
    beside: list[OtherWork] = []
    while len(found) < _ROUNDS and len(found) + len(beside) < _MOST_ROUNDS:
        watch = Watch()
        measured, seen = measure_once(), watch.work_seen()
        if seen.cores > MUCH or seen.stolen > _MOST_STOLEN_SHARE:
            beside.append(seen)
        else:
            found.append(measured)
    if len(found) < _LEAST_ROUNDS:
        worst = max(beside, key=lambda seen: (seen.cores, seen.stolen))
        raise CalibrationError(
            f"this machine is busy: in {len(beside)} of {len(found) + len(beside)} rounds something else ran "
            f"({worst}), and what is measured beside that would be kept for all later estimates",
            hint="stop it, or calibrate at another time; `metasched doctor` says what runs",
        )
    return found


def _measure_round(bench: _Bench, threads: int) -> _Round:
    counts = thread_counts(threads)
    found = {
        probe.constant: {n: _MEASURE[probe.constant](bench, n) for n in (counts if probe.by_threads else (1,))}
        for probe in PROBES
    }
    return found | {name: {1: bench.tensor.throughput(name)} for name in intrinsics_of(bench.counter.target)}


def thread_counts(most: int) -> tuple[int, ...]:
    """One thread, two, four and so on, and the most."""
    return (*(1 << n for n in range(most.bit_length()) if 1 << n < most), most)
