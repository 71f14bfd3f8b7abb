"""Whether other constants of a core rank any task worse: what a calibration has to pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.yardstick.metrics import pair_accuracy
from benchmarks.yardstick.samples import Samples
from metasched.cost.baseline import analytic_score

# A task is ranked worse if it loses more than so much of its pair accuracy: of 2,000 pairs, 20.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Change:
    """The pair accuracy of the roofline on a task, with some constants and with others."""

    task: str
    pool: str
    before: float
    after: float

    @property
    def gain(self) -> float:
        return self.after - self.before

    @property
    def is_worse(self) -> bool:
        return self.gain < -TOLERANCE


def changes(before: Sequence[Samples], after: Sequence[Samples]) -> list[Change]:
    """What becomes of each task, the worst first; both have the same candidates, in the same order.

    Raises ValueError where they have not.
    """
    found = []
    for one, other in zip(before, after, strict=True):
        if (one.task, one.pool, len(one)) != (other.task, other.pool, len(other)):
            raise ValueError(f"{one.task} ({one.pool}) is compared with {other.task} ({other.pool})")
        found.append(Change(one.task, one.pool, _roofline(one), _roofline(other)))
    return sorted(found, key=lambda change: change.gain)


def _roofline(samples: Samples) -> float:
    return pair_accuracy(analytic_score(samples.features), samples.seconds)
