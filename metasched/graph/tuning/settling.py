"""Tuned kernels in the network's own call, in turns with those that ran before: what is slower there is not used.

A kernel that is timed by itself finds caches, pages and threads a little other than in its place among the others. So
the last word is the network's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set

import numpy as np
import psutil

from metasched.graph.ir import Array
from metasched.graph.loop_node import ASSUMED_STEPS
from metasched.graph.running.executable import Executable
from metasched.report.progress_text import duration
from metasched.support.data_classes import dataclass

# Turns of all executables: as many as fit into these seconds, within these numbers.
_SECONDS = 3.0
_LEAST_TURNS = 5
_MOST_TURNS = 100
# How often they may be timed in turns, and how many runs a turn is: of two executables, two each.
_TIMES = 2
_RUNS = 4
# What another executable takes next to one that is there: its memory, and room for what it is made from.
_ROOM = 2.0

# Makes the executable in which the tasks of some keys run their tuned kernels, and all others what they ran before.
MakeExecutable = Callable[[Set[str]], Executable]


@dataclass(frozen=True)
class SettledTask:
    """A task with two kernels: the median seconds of all its calls in a run of the network by each, and whether the
    network runs the tuned one from now on.
    """

    key: str
    before_s: float
    tuned_s: float
    is_tuned: bool

    @property
    def seconds(self) -> float:
        """The seconds of the kernel that the network runs."""
        return self.tuned_s if self.is_tuned else self.before_s


@dataclass(frozen=True)
class Settlement:
    """What came of timing tuned kernels in their network.

    Attributes:
        tasks: those whose kernel is another than before.
        before_s: seconds of all kernels in a run of the network as it was; None where nothing was timed.
        after_s: the same as it is now.
        unsettled: why nothing was timed, though there are other kernels than before.

    """

    tasks: tuple[SettledTask, ...] = ()
    before_s: float | None = None
    after_s: float | None = None
    unsettled: str = ""

    def __str__(self) -> str:
        if self.unsettled:
            return f"tuned kernels were not timed in the network: {self.unsettled}"
        if self.before_s is None or self.after_s is None:
            return "the network's kernels are what they were"
        used = sum(task.is_tuned for task in self.tasks)
        said = f"in place: all kernels took {duration(self.before_s)} and take {duration(self.after_s)}"
        return f"{said}; of {len(self.tasks)} tuned kernels, {used} are faster there and used"


@dataclass(frozen=True)
class _Turns:
    """Seconds of every step by each of two executables: the medians over the turns, each step's by itself.

    What disturbs a machine for a moment hits a few steps of a turn: their medians know nothing of it, where the time of
    a whole run would.
    """

    steps: tuple[Array, Array]

    def seconds_of_steps(self, numbers: Sequence[int]) -> tuple[float, float]:
        """The times of some steps together."""
        first, second = (float(steps[numbers].sum()) for steps in self.steps)
        return first, second

    @property
    def seconds(self) -> tuple[float, float]:
        """The times of all steps together, by each of the two executables."""
        return self.seconds_of_steps(range(len(self.steps[0])))


def expected_seconds(run_s: float) -> float:
    """The seconds that settling is expected to take at most, where a run of the network takes `run_s`."""
    turn = _RUNS * run_s
    return _TIMES * min(max(_SECONDS, _LEAST_TURNS * turn), _MOST_TURNS * turn)


def settle(before: Executable, make: MakeExecutable, inputs: Sequence[Array]) -> tuple[Settlement, Executable]:
    """Time a network with its tuned kernels in turns with `before`. Returns what came of it, and what is to run.

    A task keeps its tuned kernel where its calls together are faster by it; where all kernels together are not faster
    by these, as others find their data in other caches, the network stays as it was. `inputs` are overwritten
    where they are states.
    """
    lack = lack_of_memory(before)
    if lack:
        return Settlement(unsettled=lack), before
    after = make(frozenset(step.task for step in before.steps))
    changed = _changed_steps(before, after)
    if not changed:
        return Settlement(), before
    turns = _time_in_turns(before, after, inputs)
    found = {key: turns.seconds_of_steps(numbers) for key, numbers in changed.items()}
    faster = frozenset(key for key, (first, second) in found.items() if second < first)
    if faster and len(faster) < len(changed):
        del after  # its memory goes before the next takes as much
        after = make(faster)
        turns = _time_in_turns(before, after, inputs)
    first, second = turns.seconds
    if not (faster and second < first):
        faster, after = frozenset(), before
    tasks = tuple(SettledTask(key, *seconds, key in faster) for key, seconds in found.items())
    return Settlement(tasks, first, second if faster else first), after


def lack_of_memory(one: Executable) -> str:
    """Why there is no room for another executable like this one; empty where there is."""
    needed = int(_ROOM * (one.weights.nbytes + one.arena.nbytes))
    have = psutil.virtual_memory().available
    return f"that takes {needed} bytes, and {have} are free" if needed > have else ""


def step_seconds(first: Executable, second: Executable, inputs: Sequence[Array]) -> tuple[Array, Array]:
    """The median seconds of every step of two executables, which take turns. `inputs` are overwritten where states."""
    return _time_in_turns(first, second, inputs).steps


def _changed_steps(before: Executable, after: Executable) -> dict[str, list[int]]:
    """The numbers of the steps of each task whose schedule is another, by the task's key."""
    pairs = zip(before.steps, after.steps, strict=True)
    keys = dict.fromkeys(new.task for old, new in pairs if old.schedule != new.schedule)
    return {key: [n for n, step in enumerate(after.steps) if step.task == key] for key in keys}


def _time_in_turns(first: Executable, second: Executable, inputs: Sequence[Array]) -> _Turns:
    both = first, second
    steps: tuple[list[Array], list[Array]] = ([], [])
    until = time.perf_counter() + _SECONDS
    for turn in range(_MOST_TURNS):
        if turn >= _LEAST_TURNS and time.perf_counter() > until:
            break
        for which in (0, 1) if turn % 2 else (1, 0):
            # The first run brings weights and code back to the caches. Inputs that mean nothing may never end a loop.
            both[which].run(inputs, ASSUMED_STEPS)
            steps[which].append(both[which].run_timed(inputs, ASSUMED_STEPS).nanoseconds)
    return _Turns((np.median(steps[0], axis=0) * 1e-9, np.median(steps[1], axis=0) * 1e-9))
