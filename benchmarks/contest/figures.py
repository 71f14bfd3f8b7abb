"""What searches of many tasks and seeds come to: means over tasks with bootstrap intervals, and how often each wins.

A course is the best time after each code over the best known, from 1 up, of shape (trials,); the courses of a task have
shape (seeds, trials).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from benchmarks.registry import Result
from metasched.cost.learning.figures import LEVEL, RESAMPLES
from metasched.cost.learning.ranking import Array

# How many codes were measured where a search is looked at.
LOOKS = (16, 32, 64, 128)
# How near to the best known a search is to come.
NEAR_RATIO = 1.05
# Whose mean is within this of the best of a task has not lost it.
_TIE_RATIO = 1.005

# The courses of each task, by its name: (seeds, trials).
Courses = Mapping[str, Array]


def mean_at(courses: Courses, codes: int) -> float:
    """The geometric mean over tasks and seeds of the best after so many codes; of a task each seed counts alike, and
    each task, however many seeds it has."""
    return float(np.exp(np.mean([np.log(of_task[:, codes - 1]).mean() for of_task in courses.values()])))


def interval(courses: Courses, codes: int) -> tuple[float, float]:
    """The middle 95 % of `mean_at` over samples of as many seeds of each task, drawn with replacement."""
    rng = np.random.default_rng(0)
    means = np.zeros(RESAMPLES)
    for of_task in courses.values():
        logs = np.log(of_task[:, codes - 1])
        means += logs[rng.integers(len(logs), size=(RESAMPLES, len(logs)))].mean(axis=1) / len(courses)
    low, high = np.quantile(np.exp(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def ratio_to_other(courses: Courses, other: Courses, codes: int, seed: int = 0) -> tuple[float, tuple[float, float]]:
    """The geometric mean over tasks of the time over that of another (below 1: faster), and the middle 95 % of it over
    samples of as many tasks: whether it holds for other tasks too. Raises ValueError where their tasks differ."""
    if courses.keys() != other.keys():
        raise ValueError(f"the tasks {sorted(courses)} are not those of the other, {sorted(other)}")
    logs = np.array([np.log(courses[t][:, codes - 1]).mean() - np.log(other[t][:, codes - 1]).mean() for t in courses])
    chosen = np.random.default_rng(seed).integers(len(logs), size=(RESAMPLES, len(logs)))
    low, high = np.quantile(np.exp(logs[chosen].mean(axis=1)), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(np.exp(logs.mean())), (float(low), float(high))


def paired_ratio(courses: Courses, other: Courses, codes: int) -> Result:
    """The geometric mean of the time over that of another with the same seeds (below 1: faster), and the middle 95 % of
    it over samples of as many tasks, and of as many pairs of each task. Raises ValueError where their tasks differ."""
    mean, over_tasks = ratio_to_other(courses, other, codes)
    ratios = {task: of_task / other[task] for task, of_task in courses.items()}
    return {"over_other": mean, "interval_over_tasks": over_tasks, "interval_over_seeds": interval(ratios, codes)}


def codes_until(courses: Courses) -> float:
    """The median over tasks and seeds of how many codes it took to come so near to the best known; infinite where
    that is more than half of the searches did not."""
    found: list[float] = []
    for of_task in courses.values():
        reached = of_task <= NEAR_RATIO
        first = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)
        found += first.tolist()
    return median_or_beyond(found)


def median_or_beyond(numbers: Sequence[float]) -> float:
    """The upper of the two in the middle: a mean of a number and infinity is no median."""
    return float(np.quantile(numbers, 0.5, method="higher"))


def wins(contest: Mapping[str, Courses], codes: int) -> dict[str, list[str]]:
    """The tasks on which each contestant's mean over seeds is the best, or within half a percent of it."""
    found: dict[str, list[str]] = {name: [] for name in contest}
    for task in next(iter(contest.values())):
        means = {name: float(np.log(courses[task][:, codes - 1]).mean()) for name, courses in contest.items()}
        for name, mean in means.items():
            if mean <= min(means.values()) + np.log(_TIE_RATIO):
                found[name].append(task)
    return found


def summary(
    contest: Mapping[str, Courses], seconds: Mapping[str, Sequence[float]], baseline: str, looks: Sequence[int]
) -> list[Result]:
    """A line for each contestant, the best in the mean over all looks first.

    Args:
        contest: the courses of each, of the same tasks.
        seconds: what its searches took beside measuring, one after another.
        baseline: whose times the others are compared with; left out where it is not among them.
        looks: after how many codes.
    """
    won = {codes: wins(contest, codes) for codes in looks}
    lines = []
    for name, courses in contest.items():
        line: Result = {"case": name, "tasks": len(courses), "seeds": min(map(len, courses.values()))}
        for codes in looks:
            line[f"at_{codes}"] = mean_at(courses, codes)
            line[f"at_{codes}_interval"] = interval(courses, codes)
        line[f"codes_until_{NEAR_RATIO:g}"] = codes_until(courses)
        line["over_all_looks"] = float(np.exp(np.mean([np.log(mean_at(courses, codes)) for codes in looks])))
        line["wins"] = {codes: won[codes][name] for codes in looks}
        if baseline in contest:
            line["over_default"] = {codes: ratio_to_other(courses, contest[baseline], codes) for codes in looks}
        line["search_s"] = float(np.mean(seconds[name]))
        line["at_last_by_task"] = {t: float(np.exp(np.log(c[:, looks[-1] - 1]).mean())) for t, c in courses.items()}
        lines.append(line)
    return sorted(lines, key=lambda line: cast(float, line["over_all_looks"]))


def table(lines: Sequence[Result], looks: Sequence[int]) -> str:
    """The lines as a table in Markdown."""
    titles = [
        "",
        *(f"{codes} codes" for codes in looks),
        f"codes until {NEAR_RATIO:g}",
        "tasks won",
        "seconds of search",
    ]
    rows = [titles, ["---"] * len(titles)]
    for line in lines:
        cells = [str(line["case"])]
        for codes in looks:
            low, high = cast(tuple[float, float], line[f"at_{codes}_interval"])
            cells.append(f"{line[f'at_{codes}']:.3f} ({low:.3f} to {high:.3f})")
        until = cast(float, line[f"codes_until_{NEAR_RATIO:g}"])
        won = cast(Mapping[int, Sequence[str]], line["wins"])
        cells.append(f"{until:.0f}" if np.isfinite(until) else "–")
        cells.append(" / ".join(str(len(won[codes])) for codes in looks))
        cells.append(f"{line['search_s']:.2f}")
        rows.append(cells)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
