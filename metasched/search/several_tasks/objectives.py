"""What a session over several tasks minimises: the objectives f1 to f4 of Ansor (Zheng et al. 2020, section 6).

An objective says how much it falls when a task gets a second faster; so a scheduler knows what a task is worth. The
tasks belong to networks, which run each of them some number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import inf
from typing import Protocol, TypeAlias

from metasched.errors import MetaschedError
from metasched.search.several_tasks.task_progress import TaskProgress, expected_seconds
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

# How often a network runs each of its tasks, by their numbers in the session.
Weights: TypeAlias = Mapping[int, float]


# The share of a network's time that may be expected, and not measured, for it to be known.
_LEFT_TO_MEASURE = 0.05


class Objective(Protocol):
    """What is minimised."""

    def worth(self, tasks: Sequence[TaskProgress], networks: Sequence[Weights]) -> list[float]:
        """How much a second less of each task is worth, never negative: the partial derivatives of the objective, up to
        a factor that all of them share. `tasks` are those of the session, in order.
        """
        ...


@dataclass(frozen=True)
class SumOfLatencies:
    """f1: the time of all networks, run one after another. Of tasks that belong to none, each counts once."""

    def worth(self, tasks: Sequence[TaskProgress], networks: Sequence[Weights]) -> list[float]:
        return [sum(weights.get(n, 0.0) for weights in networks) for n in range(len(tasks))]


@dataclass(frozen=True)
class LatencyRequirement:
    """f2: the time by which networks are slower than they have to be. One that meets its requirement is left alone.

    Its time has to be measured for that, most of it.

    Attributes:
        seconds: what every network has to meet, or one of each, in their order. Raises MetaschedError for what is none.
    """

    seconds: float | tuple[float, ...]

    def __post_init__(self) -> None:
        if not self._seconds_tuple or not all(one > 0 for one in self._seconds_tuple):
            raise MetaschedError(
                f"a required latency is {self.seconds!r}; it is in seconds and positive, such as 0.003"
            )

    @property
    def _seconds_tuple(self) -> tuple[float, ...]:
        return self.seconds if isinstance(self.seconds, tuple) else (self.seconds,)

    def worth(self, tasks: Sequence[TaskProgress], networks: Sequence[Weights]) -> list[float]:
        wanted = self._seconds_tuple * len(networks) if len(self._seconds_tuple) == 1 else self._seconds_tuple
        if len(wanted) != len(networks):
            raise MetaschedError(f"{len(wanted)} latencies are required, and there are {len(networks)} networks")
        late = [w for w, limit in zip(networks, wanted, strict=True) if not _meets(tasks, w, limit)]
        return SumOfLatencies().worth(tasks, late)


def _meets(tasks: Sequence[TaskProgress], weights: Weights, limit: float) -> bool:
    """Whether a network is known to be as fast as it has to be."""
    whole = latency(tasks, weights)
    unknown = latency(tasks, {n: weight for n, weight in weights.items() if not tasks[n].course})
    return whole <= limit and unknown <= _LEFT_TO_MEASURE * whole


@dataclass(frozen=True)
class GeometricMean:
    """f3: the geometric mean of the networks' speed-ups, which a network of few milliseconds counts in as any other.

    Whatever the speed-ups are over, a second of a network is worth one over its time.
    """

    def worth(self, tasks: Sequence[TaskProgress], networks: Sequence[Weights]) -> list[float]:
        times = [max(latency(tasks, weights), 1e-12) for weights in networks]
        return [sum(w.get(n, 0.0) / t for w, t in zip(networks, times, strict=True)) for n in range(len(tasks))]


@dataclass(frozen=True)
class EarlyStopping:
    """f4: another objective, in which a task that has not become faster for some time is worth nothing any more.

    Attributes:
        trials: as many of the task that brought nothing end it.
        of: the objective otherwise.
    """

    trials: int = 128
    of: Objective = field(default_factory=SumOfLatencies)

    def worth(self, tasks: Sequence[TaskProgress], networks: Sequence[Weights]) -> list[float]:
        worth = self.of.worth(tasks, networks)
        return [0.0 if task.since_gain >= self.trials else value for task, value in zip(tasks, worth, strict=True)]


def latency(tasks: Sequence[TaskProgress], weights: Weights) -> float:
    """The seconds of a network's kernels, those that were not measured as they are expected."""
    seconds = expected_seconds(tasks)
    return sum(weight * seconds[n] for n, weight in weights.items())


OBJECTIVES: Mapping[str, Objective] = {
    "sum": SumOfLatencies(),
    "geomean": GeometricMean(),
    "early_stopping": EarlyStopping(),
}


def objective_of(given: str | Objective) -> Objective:
    """An objective by its name, `latency=SECONDS`, or what is given. Raises MetaschedError for another name."""
    if not isinstance(given, str):
        return given
    name, equals, number = given.partition("=")
    if equals and name == "latency":
        try:
            seconds = float(number)
        except ValueError as error:
            raise MetaschedError(f"`{given}` requires a latency in seconds, such as latency=0.003") from error
        return LatencyRequirement(seconds)
    if given not in OBJECTIVES:
        raise MetaschedError(f"there is no objective `{given}`; there are {', '.join(OBJECTIVES)} and latency=SECONDS")
    return OBJECTIVES[given]


def weights_of(networks: Sequence[Weights] | None, tasks: int) -> tuple[Weights, ...]:
    """How often each network runs each of so many tasks; without networks, one runs each once.

    Raises MetaschedError for a task that is not there, and for a number of runs that is not positive.
    """
    if not networks:
        return (dict.fromkeys(range(tasks), 1.0),)
    for n, weights in enumerate(networks):
        if not isinstance(weights, Mapping):
            raise MetaschedError(
                f"`networks[{n}]` is {weights!r}; it says how often tasks run, by number: {{0: 2, 1: 1}}"
            )
        for task, runs in weights.items():
            if task not in range(tasks):
                raise MetaschedError(
                    f"`networks[{n}]` runs task {task!r}; there {'is' if tasks == 1 else 'are'} "
                    f"{counted(tasks, 'task')}, counted from 0"
                )
            if not 0 < runs < inf:
                raise MetaschedError(f"`networks[{n}]` runs task {task} {runs!r} times; it is how often, and positive")
    return tuple(networks)
