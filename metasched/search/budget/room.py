"""What a batch may take: how many trials, and how long."""

from __future__ import annotations

import sys
import time

from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Room:
    """What a batch may take.

    Attributes:
        wanted: trials that the task may have after it.
        planned: trials of the whole run, over which repetitions are spread.
        until: the time of `time.perf_counter` by which what is begun has to be done, as far as can be told; None for
            any.
        deadline: the time at which what is under way is given up.
    """

    wanted: int = sys.maxsize
    planned: int = sys.maxsize
    until: float | None = None
    deadline: float | None = None

    @property
    def left_s(self) -> float:
        """Seconds for what is begun now."""
        return float("inf") if self.until is None else self.until - time.perf_counter()

    @property
    def patience_s(self) -> float | None:
        """How long to wait for what is under way; None for as long as it takes."""
        return None if self.deadline is None else max(0.0, self.deadline - time.perf_counter())
