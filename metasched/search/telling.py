"""How far the search of a task has come, told after each measurement."""

from __future__ import annotations

import time
from collections.abc import Callable

from metasched.ir.program import Program
from metasched.report.progress import Progress, ProgressCallback
from metasched.search.records.task_records import TaskRecords


class Telling:
    """What is told of the search of a program, which was `started` at that reading of the clock."""

    def __init__(self, program: Program, known: TaskRecords, tell: ProgressCallback, started: float) -> None:
        self._program = program
        self._known = known
        self._tell = tell
        self._started = started
        self._first_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the search was made."""
        return time.perf_counter() - self._started

    def tell(self, measured: int, wanted: int | None, left_s: Callable[[float | None], float | None]) -> None:
        """Tell it after `measured` measurements of `wanted` trials.

        `left_s` makes the remaining seconds of those that each measurement takes, None as long as that is not known.
        """
        # Starting workers and computing the expected result come once, before the first measurement.
        if measured == 1:
            self._first_s = self.elapsed_s
        elapsed_s = self.elapsed_s
        each = (elapsed_s - self._first_s) / (measured - 1) if measured > 1 else None
        known, work = self._known, self._program.work
        best_s, stagnation = known.fastest_s(), known.stagnation()
        self._tell(
            Progress(
                task=self._program.key,
                trials=known.trial_count,
                total=wanted,
                best_s=best_s,
                gflops=None if best_s is None else work.gflops(best_s),
                gops=None if best_s is None else work.gops(best_s),
                failures=known.failures(),
                elapsed_s=elapsed_s,
                left_s=left_s(each),
                since_gain=stagnation.since,
                is_stagnant=stagnation.is_reached,
            )
        )
