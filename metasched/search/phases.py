"""Where the time of a run goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum


class Phase(Enum):
    """A part of tuning. BUILD and RUN are the workers' seconds, summed; the others are this process's own."""

    SPACE = "space"
    SCORING = "scoring"
    MODEL = "model"
    BUILD = "build"
    RUN = "run"
    MEASURE = "measure"  # waiting for builds and runs


class Phases:
    """Seconds by phase."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(Phase, 0.0)
        self._inner: list[float] = []

    def add(self, phase: Phase, seconds: float) -> None:
        self._seconds[phase] += seconds

    @contextmanager
    def timed(self, phase: Phase) -> Iterator[None]:
        """Count the time of a `with` body, less that of the bodies timed inside it."""
        start = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            whole = time.perf_counter() - start
            self.add(phase, whole - self._inner.pop())
            if self._inner:
                self._inner[-1] += whole

    def seconds(self) -> dict[str, float]:
        """Seconds by the phase's name."""
        return {phase.value: seconds for phase, seconds in self._seconds.items()}
