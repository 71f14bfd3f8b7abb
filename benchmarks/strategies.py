"""Strategies in contest: every registered one searches a frozen table of measured codes, twenty times each task.

The table has some thousand codes of each of the twelve operators (`benchmarks.contest.collect`); searches on it take a
second, and begin with nothing but a model that has learned from tasks of other families. A line for each strategy, and
a table of all. `--live` has the three best of them and the baselines tune instead, on this machine.

`--only C1D,GMM` takes some tasks, `--models evolutionary,random` some strategies (live, those alone), `--seeds 0,1`
other seeds, `--kept DIR` keeps what was played, for the next run, and puts the plot there; `--data DIR` is a folder
with another table. `--quick` plays three seeds and 32 codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.contest.figures import LOOKS, Courses, summary, table
from benchmarks.contest.live import Way, live
from benchmarks.contest.plot import plot
from benchmarks.contest.stored import FOLDER, names_there
from benchmarks.contest.tournament import Contestant, Tournament, courses_of, seconds_of
from benchmarks.registry import OptionError, Options, Result
from metasched.operators import TWELVE
from metasched.search.strategy_registry import DEFAULT_STRATEGY, STRATEGIES
from metasched.support.messages import with_hint

SEEDS = 20
_QUICK_SEEDS = 3
_QUICK_TRIALS = 32
# What others are compared with live, whether they are among the best or not.
BASELINES = (DEFAULT_STRATEGY, "random")
_BEST_COUNT = 3


def run(options: Options) -> Iterator[Result]:
    """A line for each strategy, the best first, and the table; live, a line for each task and seed, and the same."""
    if options.live:
        names = chosen_strategies(options.models) if options.models else (*best_strategies(options), *BASELINES)
        ways = {name: Way(name, guess=not options.from_nothing) for name in dict.fromkeys(names)}
        yield from live(ways, DEFAULT_STRATEGY, options)
        return
    lines = results_on_table(options)
    yield from lines
    yield {"case": "table", "table": table(lines, looks_of(options))}


def best_strategies(options: Options) -> list[str]:
    """The best strategies on the table, those of all looks together."""
    return [str(line["case"]) for line in results_on_table(options)[:_BEST_COUNT]]


def results_on_table(options: Options) -> list[Result]:
    """The lines of the contest on the table, the best first."""
    names = chosen_strategies(options.models)
    contestants = tuple(Contestant(name, STRATEGIES.get(name)) for name in names)
    title = "Best time over the best known, geometric mean of the tasks, by codes measured"
    return play_tournament(contestants, options, DEFAULT_STRATEGY, title, "strategies.svg")


def play_tournament(
    contestants: Sequence[Contestant], options: Options, baseline: str, title: str, picture: str
) -> list[Result]:
    """Has contestants play on the table; the lines of their summary, the best first. Puts the plot into the folder of
    what is kept."""
    looks = looks_of(options)
    outcomes = list(tournament(contestants, options).outcomes())
    courses = courses_of(outcomes)
    if options.kept is not None:
        options.kept.mkdir(parents=True, exist_ok=True)
        means = {name: mean_course(of_tasks) for name, of_tasks in courses.items()}
        (options.kept / picture).write_text(plot(title, means), encoding="utf-8")
    return summary(courses, seconds_of(outcomes), baseline, looks)


def mean_course(courses: Courses) -> list[float]:
    """The geometric mean over tasks and seeds after each code; infinite where one has not begun."""
    logs = [np.log(of_task).mean(axis=0) for of_task in courses.values()]
    means: list[float] = np.exp(np.mean(logs, axis=0)).tolist()
    return means


def tournament(contestants: Sequence[Contestant], options: Options) -> Tournament:
    """The searches that are wanted. Raises OptionError where there is no table to play on."""
    tasks, folder = tasks_of(options), options.data or FOLDER
    seeds = options.seeds or tuple(range(_QUICK_SEEDS if options.quick else SEEDS))
    return Tournament(tuple(contestants), tasks, seeds, trials_of(options), options.threads, folder, options.kept)


def tasks_of(options: Options) -> tuple[str, ...]:
    """The wanted operators that have a table. Raises OptionError where there is none."""
    folder = options.data or FOLDER
    tasks = names_there(options.only or tuple(TWELVE), folder)
    if not tasks:
        raise OptionError(with_hint(f"{folder} has no table", "python -m benchmarks.contest.collect makes one"))
    return tuple(tasks)


def trials_of(options: Options) -> int:
    """How many codes a search on a table measures."""
    return _QUICK_TRIALS if options.quick else LOOKS[-1]


def looks_of(options: Options) -> tuple[int, ...]:
    return tuple(codes for codes in LOOKS if not options.quick or codes <= _QUICK_TRIALS)


def chosen_strategies(names: Sequence[str]) -> tuple[str, ...]:
    """The strategies of the names, or all. Raises OptionError, which names those there are."""
    unknown = sorted(set(names) - set(STRATEGIES.names()))
    if unknown:
        raise OptionError(f"no strategy `{unknown[0]}`{STRATEGIES.advice(unknown[0])}")
    return tuple(names) or STRATEGIES.names()
