"""The yardstick as another CPU would have seen it: what a model that was trained there learned from.

No other CPU's times are at hand, so one is made up by what a calibration tells: sizes of caches, bytes a cycle and what
threads cost differ by powers of two. Features are computed by those constants. The times that such a CPU would take
lie between two that can be told:

- *in ratio*: each candidate takes as much longer or less as the roofline says. So what the roofline gets wrong is the
  same on both CPUs, as far as features tell it.
- *as here*: each takes what it takes here, though the roofline says otherwise. So what a CPU's caches explain is
  learned as an error of the roofline, which another CPU does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.yardstick.contestants import times_of
from benchmarks.yardstick.data import TimedTask
from benchmarks.yardstick.samples import Samples, samples
from metasched.cost.baseline import analytic_score
from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.learning.ranking import Array
from metasched.cost.learning.task_times import TaskTimes
from metasched.target import Target


@dataclass(frozen=True)
class Machine:
    """A CPU that was made up from another: by what its last two caches are multiplied, and constants of `Core`."""

    l2: float
    l3: float
    constants: Mapping[str, float]

    def target(self, here: Target) -> Target:
        """The target with this machine's caches: the same instruction sets and threads."""
        return replace(here, l2=int(here.l2 * self.l2), l3=int(here.l3 * self.l3))

    def core(self, here: Core) -> Core:
        """The constants of one of its cores."""
        return replace(here, **{name: getattr(here, name) * factor for name, factor in self.constants.items()})


# A desktop's CPU beside the virtual server that the yardstick was measured on: a quarter of the second cache, a
# sixteenth of the last one, which is nearer and of which a kernel has less, half of the bytes from memory; one vector
# operation a cycle; and threads that are started in a quarter of the time.
DESKTOP = Machine(
    0.25,
    0.0625,
    {
        "operations": 0.5,
        "l3_bytes": 2.0,
        "memory_bytes": 0.5,
        "handed_over_bytes": 2.0,
        "last_cache_bytes": 0.25,
        "parallel_launch": 0.25,
        "barrier": 0.25,
    },
)

# What is learned of a task there, from its candidates with features by that machine's constants, and by those of here.
Times = Callable[[Samples, Samples], TaskTimes]


def in_ratio(there: Samples, here: Samples) -> TaskTimes:
    """Times as the rooflines' ratio has them: log2 of a time over the roofline's is the same on both."""
    slower: Array = np.exp2(analytic_score(here.features) - analytic_score(there.features))
    return TaskTimes(there.features, here.seconds * slower)


def as_here(there: Samples, here: Samples) -> TaskTimes:
    """Times as they were measured here."""
    return TaskTimes(there.features, here.seconds)


def seen_there(
    tasks: Sequence[TimedTask], machine: Machine, times: Times, folder: Path | None = None
) -> Iterator[TaskTimes]:
    """What a model learns from on a machine that was made up, of each task; features are kept in the folder."""
    moved = [replace(task, target=str(machine.target(Target.parse(task.target)))) for task in tasks]
    theirs = samples(moved, machine.core(DEFAULT_CORE), folder=folder)
    for there, here in zip(theirs, samples(tasks, DEFAULT_CORE, folder=folder), strict=True):
        yield times(there, here)


def seen_here(tasks: Sequence[TimedTask], folder: Path | None = None) -> Iterator[TaskTimes]:
    """What a model learns from on the machine that was measured on, of each task."""
    yield from map(times_of, samples(tasks, DEFAULT_CORE, folder=folder))
