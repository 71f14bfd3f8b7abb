"""A calibration that no machine has made."""

from __future__ import annotations

from metasched.calibration.calibration import MachineCalibration
from metasched.calibration.probes import PROBES
from metasched.target import Target

TARGET = Target("test-cpu", frozenset({"avx512f", "fma"}), 4, 32 << 10, 1 << 20, 32 << 20)


def made_up(**times: float) -> MachineCalibration:
    """Of a machine like the reference but for some constants, which are so many times as much."""
    measured = {
        probe.constant: {
            threads: times.get(probe.constant, 1.0) * probe.reference_in(threads)
            for threads in ((1, 2, 4) if probe.by_threads else (1,))
        }
        for probe in PROBES
    }
    return MachineCalibration(TARGET, 3.1e9, measured, 4.5)
