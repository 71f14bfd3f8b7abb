"""What a machine has measured of itself, as a value and as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite, log
from typing import Any

from metasched.calibration.probes import PROBES, Probe, ProbeValue, probe_of_intrinsic, scale_defaults
from metasched.cost.core import DEFAULT_CORE, Core
from metasched.errors import MetaschedError
from metasched.schedule.tensor import intrinsics
from metasched.support.data_classes import dataclass
from metasched.target import Target, TargetError

# Of the text. It changes with what is measured, and how.
FORMAT = 2


class CalibrationError(MetaschedError):
    """A calibration that cannot be made, read or kept; the message says why and what to do."""


class OldCalibration(CalibrationError):
    """A calibration of another version of metasched, which measured other things."""


@dataclass(frozen=True)
class MachineCalibration:
    """What probes have measured on a machine.

    Args:
        target: the machine; its number of threads is the most that was measured with.
        clock_hz: cycles a second.
        measured: by the constant of `Core` that a probe is for, or the name of a tensor intrinsic, and the number of
            threads, in the probe's unit. An intrinsic that it lacks is as it is declared.
        seconds: how long it took.
    """

    target: Target
    clock_hz: float
    measured: Mapping[str, Mapping[int, float]]
    seconds: float

    def core(self, threads: int) -> Core:
        """The constants for so many threads: by what was measured with the number nearest to it."""
        constants, throughputs = (
            {probe.constant: self.nearest(probe.constant, threads) for probe in probes}
            for probes in (PROBES, self._tensor_probes)
        )
        return scale_defaults(constants, throughputs)

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What was measured: each constant, and the tensor intrinsics of the machine."""
        return (*PROBES, *self._tensor_probes)

    @property
    def _tensor_probes(self) -> tuple[Probe, ...]:
        return tuple(probe_of_intrinsic(found) for name, found in intrinsics().items() if name in self.measured)

    def nearest(self, constant: str, threads: int) -> ProbeValue:
        """What was measured for a constant with the number of threads nearest to that."""
        found = self.measured[constant]
        nearest = min(found, key=lambda n: (abs(log(n / threads)), n))
        return ProbeValue(found[nearest], nearest)

    def dumps(self) -> str:
        """The text that `loads` reads: JSON, in lines that can be read."""
        measured = {name: {str(n): value for n, value in found.items()} for name, found in self.measured.items()}
        state = {
            "format": FORMAT,
            "target": str(self.target),
            "clock_hz": self.clock_hz,
            "seconds": self.seconds,
            "measured": measured,
        }
        return json.dumps(state, indent=1) + "\n"

    @classmethod
    def loads(cls, text: str) -> MachineCalibration:
        """Raises OldCalibration for another version's, CalibrationError for a text that is none."""
        try:
            state = json.loads(text)
            if state["format"] != FORMAT:
                raise OldCalibration("it was made by another version of metasched, which measured other things")
            names = [probe.constant for probe in PROBES] + [name for name in intrinsics() if name in state["measured"]]
            measured = {name: _values_by_threads(state["measured"][name]) for name in names}
            clock, seconds = _require_positive(state["clock_hz"]), _require_positive(state["seconds"])
            return cls(Target.parse(state["target"]), clock, measured, seconds)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, TargetError) as error:
            raise CalibrationError(f"it is no calibration ({type(error).__name__}: {error})") from error

    def rows(self) -> list[tuple[Probe, float, float, float, float]]:
        """For the target's threads, each probe with the default of its constant, what that is here, the probe's
        reference, and what it measured."""
        core, threads = self.core(self.target.threads), self.target.threads
        return [
            (
                probe,
                probe.constant_of(DEFAULT_CORE),
                probe.constant_of(core),
                probe.reference_in(threads),
                self.nearest(probe.constant, threads).value,
            )
            for probe in self.probes
        ]


def _values_by_threads(given: Mapping[str, Any]) -> dict[int, float]:
    found = {int(n): _require_positive(value, least=0.0) for n, value in given.items()}
    if not found or min(found) < 1:
        raise ValueError("numbers of threads are positive")
    return found


def _require_positive(value: Any, least: float = 1e-9) -> float:
    number = float(value)
    if not (isfinite(number) and number >= least):
        raise ValueError(f"{value!r} is not a number that can be measured")
    return number
