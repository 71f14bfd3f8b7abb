"""What the tuning loop reports while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Progress:
    """Where a tuning run stands, after a measurement has finished.

    Times are in seconds. `trials` counts all records, failures included, out of `total`, which is None if only a time
    ends the run. `best_s` is None until a candidate was valid. `gflops` is the rate at that time in billions of
    arithmetic operations a second if all are on floats, `gops` if some are on integers; the other one is None.
    `failures` counts by reason. `left_s` is an estimate, None while there is nothing to estimate from. `since_gain` is
    how many trials ago something faster was found, and `is_stagnant` whether that is so long ago that more are likely
    a waste.
    """

    task: str
    trials: int
    total: int | None
    best_s: float | None
    gflops: float | None
    failures: Mapping[str, int]
    elapsed_s: float
    left_s: float | None
    gops: float | None = None
    since_gain: int = 0
    is_stagnant: bool = False

    @property
    def failed(self) -> int:
        """How many trials gave no valid time."""
        return sum(self.failures.values())


ProgressCallback = Callable[[Progress], None]
