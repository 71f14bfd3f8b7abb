"""Whether other constants of a core rank any task worse: what a calibration has to pass.

`python -m benchmarks.yardstick.cores FILE` compares the roofline by the constants in a file (a JSON object of fields of
`metasched.cost.core.Core`; what is absent is as by default) with the roofline by the default ones. It prints the pair
accuracy of every task by both, the worst change first, and exits with 1 where a task is ranked worse.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.yardstick.data import DATA, read_tasks
from benchmarks.yardstick.folds import judgeable_samples
from benchmarks.yardstick.samples import Samples, samples
from metasched.cost.baseline import analytic_score
from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.learning.ranking import pair_accuracy

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


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the roofline by two sets of constants of a core.")
    parser.add_argument("constants", type=Path, metavar="FILE", help="fields of Core as JSON")
    parser.add_argument("--data", type=Path, default=DATA, help="the file of measurements (default: %(default)s)")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="keep features there, for the next run")
    parser.add_argument("--processes", type=int, default=2, help="(default: %(default)s)")
    args = parser.parse_args()
    tasks = list(read_tasks(args.data))
    other = Core(**json.loads(args.constants.read_text(encoding="utf-8")))
    before, after = (
        judgeable_samples(samples(tasks, core, args.processes, args.kept)) for core in (DEFAULT_CORE, other)
    )
    found = changes(before, after)
    for change in found:
        print(f"{change.gain:+.3f}  {change.before:.3f} -> {change.after:.3f}  {change.task} ({change.pool})")
    worse = sum(change.is_worse for change in found)
    mean = sum(change.gain for change in found) / max(len(found), 1)
    print(f"{len(found)} tasks, {mean:+.4f} at the mean; {worse} are ranked worse by more than {TOLERANCE}")
    return 1 if worse or not found else 0


if __name__ == "__main__":
    raise SystemExit(main())
