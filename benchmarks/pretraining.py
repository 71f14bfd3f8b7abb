"""What a model is worth that was trained on another CPU: the first 16 codes of a search, against no pre-training.

No other CPU is needed: the yardstick's tasks are seen as a made-up one would (`benchmarks.contest.elsewhere`), with its
caches and bandwidths, while the search has this machine's. Searches are those of the default strategy on the frozen
table; nothing is learned from the family of the operator at hand. Regret is the best time after 16 codes over the best
of the table; what has no pre-training has the roofline, and learns from the task's own codes, as all do.

First how well the roofline and what was learned on this CPU rank the table's codes, with nothing measured: all, and
those at the top. Then a line for each operator, with the time over that of no pre-training; then one for each model:
on how many operators it is better, and on how many by over half a percent. `--only`, `--seeds`, `--kept` and `--data`
are those of `strategies`.

On another CPU than that of the yardstick, `--live` says what its times are worth there: searches of 16 trials from
nothing tune the twelve operators on the machine itself, by the roofline alone, without pre-training, by what other
families taught, and by the installed model, and what they found is timed in turns. `--models` takes some of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.contest.described import described
from benchmarks.contest.figures import Courses, ratio_to_other
from benchmarks.contest.live import Way, live
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
from benchmarks.registry import OptionError, Options, Result
from benchmarks.strategies import tournament
from metasched.cost.learning.ranking import Array
from metasched.cost.model_registry import MakeModel
from metasched.operators import TWELVE
from metasched.search.strategy_registry import DEFAULT_STRATEGY, STRATEGIES

CODES = 16
# Trained on a CPU that was made up, by either of the times that it may take; and on this one, as the most that
# training on another could be worth.
PRETRAINED = (ELSEWHERE_IN_RATIO, ELSEWHERE_AS_HERE, TRANSFERRED)
# Whose searches are compared on the machine itself.
LIVE = (ROOFLINE, SCRATCH, TRANSFERRED, INSTALLED)
# By how much a time has to be less for a difference that counts.
_MARGIN_RATIO = 0.995


def run(options: Options) -> Iterator[Result]:
    """A line for each of three models, one for each operator, and one for each model; live, a line for each operator
    and seed, and one for each model."""
    if options.live:
        yield from on_this_machine(options)
        return
    yield from orders_by_model(options)
    players = tuple(Contestant(name, STRATEGIES.get(DEFAULT_STRATEGY), name) for name in (SCRATCH, *PRETRAINED))
    searches = replace(tournament(players, options), trials=CODES)
    courses = courses_of(list(searches.outcomes()))
    yield from of_operators(courses)
    yield from of_models(courses)


def on_this_machine(options: Options) -> Iterator[Result]:
    """What searches find that have one model each, in turns; then each model against no pre-training."""
    names = options.models or LIVE
    unknown = sorted(set(names) - set(LIVE))
    if unknown:
        raise OptionError(f"no model `{unknown[0]}` to search by live: there are {', '.join(LIVE)}")
    ways = {name: Way(guess=False, model_of=_made_by(name, options.kept)) for name in names}
    if not options.quick:
        options = replace(options, trials=CODES)
    lines = []
    for line in live(ways, SCRATCH, options):
        lines += [line] if "task" in line else []
        yield line
    for name in names:
        if name != SCRATCH and SCRATCH in names and lines:
            yield wins(name, lines)


def _made_by(name: str, folder: Path | None) -> Callable[[str], MakeModel]:
    return lambda task: maker(name, task, folder)


def wins(name: str, lines: Sequence[Result]) -> Result:
    """On how many operators a model's searches found what is faster than what those without pre-training found:
    geometric means of seeds, after all trials."""
    logs: dict[str, list[float]] = {}
    for line in lines:
        over: Mapping[str, Mapping[str, float]] = line["over_best"]  # type: ignore[assignment]
        ends = [max(looks, key=_trials) for looks in (over[name], over[SCRATCH])]
        ratio = over[name][ends[0]] / over[SCRATCH][ends[1]]
        logs.setdefault(str(line["task"]), []).append(float(np.log(ratio)))
    ratios = {task: float(np.exp(np.mean(of_seeds))) for task, of_seeds in logs.items()}
    return {
        "case": f"{name} against {SCRATCH}",
        "operators": len(ratios),
        **_counts(list(ratios.values())),
        "ratios": ratios,
    }


def _trials(look: str) -> int:
    """The trials of a look such as `at_16`; none of one after equal seconds."""
    count = look.removeprefix("at_")
    return int(count) if count.isdigit() else 0


def _counts(ratios: Sequence[float]) -> dict[str, int]:
    return {
        "better": sum(ratio < 1 for ratio in ratios),
        "better_by_half_a_percent": sum(ratio < _MARGIN_RATIO for ratio in ratios),
        "worse_by_half_a_percent": sum(ratio > 1 / _MARGIN_RATIO for ratio in ratios),
    }


def orders_by_model(options: Options) -> Iterator[Result]:
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
        mean, interval = ratio_to_other(courses[name], without, CODES)
        yield {
            "case": name,
            "operators": len(ratios),
            **_counts(ratios),
            "mean_ratio": mean,
            "interval": interval,
        }


def _regret(of_seeds: Array) -> float:
    return float(np.exp(np.log(of_seeds[:, CODES - 1]).mean()))
