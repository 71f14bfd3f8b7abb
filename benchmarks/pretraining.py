"""What a model is worth that was trained on another CPU: the first 16 codes of a search, against no pre-training.

No other CPU is needed: the yardstick's tasks are seen as a made-up one would (`benchmarks.contest.elsewhere`), with its
caches and bandwidths, while the search has this machine's. Searches are those of the default strategy on the frozen
table; nothing is learned from the family of the operator at hand. Regret is the best time after 16 codes over the best
of the table; what has no pre-training has the roofline, and learns from the task's own codes, as all do.

First how well the roofline and what was learned on this CPU rank the table's codes, with nothing measured: all, and
those at the top. Then a line for each operator, with the time over that of no pre-training; then one for each model:
on how many operators it is better, and on how many by over half a percent. `--only`, `--seeds`, `--kept` and `--data`
are those of `strategies`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.contest.described import described
from benchmarks.contest.figures import Courses, against
from benchmarks.contest.models import (
    ELSEWHERE_AS_HERE,
    ELSEWHERE_IN_RATIO,
    ROOFLINE,
    SCRATCH,
    TRANSFERRED,
    maker,
)
from benchmarks.contest.models import PRETRAINED as INSTALLED
from benchmarks.contest.order import order
from benchmarks.contest.stored import FOLDER, load, names_there
from benchmarks.contest.tournament import Contestant, courses_of
from benchmarks.registry import Options, Result
from benchmarks.strategies import tournament
from metasched.cost.ranking import Array
from metasched.operators import TWELVE
from metasched.search.strategy import DEFAULT_STRATEGY, STRATEGIES

CODES = 16
# Trained on a CPU that was made up, by either of the times that it may take; and on this one, as the most that
# training on another could be worth.
PRETRAINED = (ELSEWHERE_IN_RATIO, ELSEWHERE_AS_HERE, TRANSFERRED)
# By how much a time has to be less for a difference that counts.
_MARGIN = 0.995


def run(options: Options) -> Iterator[Result]:
    """A line for each of three models, one for each operator, and one for each model."""
    yield from of_order(options)
    players = tuple(Contestant(name, STRATEGIES.get(DEFAULT_STRATEGY), name) for name in (SCRATCH, *PRETRAINED))
    searches = replace(tournament(players, options), trials=CODES)
    courses = courses_of(list(searches.outcomes()))
    yield from of_operators(courses)
    yield from of_models(courses)


def of_order(options: Options) -> Iterator[Result]:
    """How well models rank before anything is measured; searches are what tells how much of it is of use."""
    folder = FOLDER if options.data is None else Path(options.data)
    names = names_there(options.only or tuple(TWELVE), folder)
    stored = [table for table in (load(name, folder) for name in names) if table is not None]
    tables = [described(table, options.kept) for table in stored]
    models = (ROOFLINE, TRANSFERRED, INSTALLED)
    yield from order(tables, {one: [maker(one, name, options.kept)(0) for name in names] for one in models})


def of_operators(courses: Mapping[str, Courses]) -> Iterator[Result]:
    """Of each operator the regret without pre-training, and with it the ratio to that; geometric means of seeds."""
    for task, of_seeds in courses[SCRATCH].items():
        line: Result = {"case": task, "seeds": len(of_seeds), "regret_without": _regret(of_seeds)}
        for name in PRETRAINED:
            line[f"{name}: regret"] = _regret(courses[name][task])
            line[f"{name}: ratio"] = _regret(courses[name][task]) / _regret(of_seeds)
        yield line


def of_models(courses: Mapping[str, Courses]) -> Iterator[Result]:
    """Of each model on how many operators it is better than none, and the mean, with an interval over operators."""
    without = courses[SCRATCH]
    for name in PRETRAINED:
        ratios = [_regret(courses[name][task]) / _regret(of_seeds) for task, of_seeds in without.items()]
        mean, interval = against(courses[name], without, CODES)
        yield {
            "case": name,
            "operators": len(ratios),
            "better": sum(ratio < 1 for ratio in ratios),
            "better_by_half_a_percent": sum(ratio < _MARGIN for ratio in ratios),
            "worse_by_half_a_percent": sum(ratio > 1 / _MARGIN for ratio in ratios),
            "mean_ratio": mean,
            "interval": interval,
        }


def _regret(of_seeds: Array) -> float:
    return float(np.exp(np.log(of_seeds[:, CODES - 1]).mean()))
