"""Searches of this checkout against those of another commit's: the best times after as many codes, by the same seeds.

    git worktree add ../before COMMIT && make -C ../before setup
    python -m benchmarks against --checkout ../before

Each search runs in a process of its own, with its checkout's packages, by `../before/.venv/bin/python`. On the frozen
table of codes by default (`benchmarks.contest`): the default strategy and the installed model of each, from nothing.
The other commit needs the contest, too.

With `--live` both tune on this machine, as `ms.tune` does there by default; codes are distinct. What each had found
after 16, 32, 64 and 128 codes (`--trials 128` makes so many), and after as many seconds as the quicker took, is timed
again in turns, in one process and by this checkout's compiler: so schedules are compared, not compilers. A trace that
this one does not run is left out, and counted. With `--from-nothing` this checkout's searches begin with nothing that
is known; what another commit knows is taken out of its folder by hand, such as `metasched/operators/traces` where whole
operators are matched. How many trials it took to come within 5 % of the best of both is told by the times of the search
itself, from its last.

Lines at the end have this checkout's times over the other's (below 1: faster): geometric means over operators and
seeds, each pair of the same seed, and where these lie in 95 % of samples of as many operators, and of as many seeds.
`--only C1D,GMM` takes some operators, `--seeds 0,1` other seeds than the five, `--kept DIR` keeps live searches, so
that the same command goes on (`--seconds` says when it begins nothing new), and what is made of tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

import numpy as np

from benchmarks.contest.checkouts import ROOT, Checkout
from benchmarks.contest.figures import Courses, paired_ratio, summary
from benchmarks.contest.live import SEEDS, Searches, Way, live
from benchmarks.contest.playing import Played
from benchmarks.contest.stored import FOLDER
from benchmarks.registry import Options, Result
from benchmarks.strategies import looks_of, tasks_of, trials_of

HERE, THERE = "this checkout", "the other"
_NO_CHECKOUT = "nothing to compare with: no folder with another commit was named (--checkout)"


def run(options: Options) -> Iterator[Result]:
    """The lines of the searches, and one for each number of codes. Without another checkout, a line that says so."""
    if options.checkout is None:
        yield {"case": "notes", "notes": [_NO_CHECKOUT]}
        return
    checkouts = {HERE: Checkout(ROOT), THERE: Checkout.at(options.checkout)}
    yield from (_live if options.live else _on_tables)(checkouts, options)


def _on_tables(checkouts: Mapping[str, Checkout], options: Options) -> Iterator[Result]:
    folder, looks, trials = options.data or FOLDER, looks_of(options), trials_of(options)
    seeds = options.seeds or tuple(range(1 if options.quick else SEEDS))
    found: dict[str, dict[str, list[Played]]] = {name: {} for name in checkouts}
    for task in tasks_of(options):
        for name, checkout in checkouts.items():
            found[name][task] = checkout.play(task, folder, seeds, trials, options.kept)
    courses = {
        name: {task: np.array([one.course for one in played]) for task, played in of_tasks.items()}
        for name, of_tasks in found.items()
    }
    seconds = {name: [one.seconds for of_task in tasks.values() for one in of_task] for name, tasks in found.items()}
    yield from summary(courses, seconds, THERE, looks)
    for codes in looks:
        line = paired_ratio(courses[HERE], courses[THERE], codes)
        yield {"case": f"after {codes} codes, {HERE} over {THERE}", "pairs": len(seeds) * len(courses[HERE]), **line}


def _live(checkouts: Mapping[str, Checkout], options: Options) -> Iterator[Result]:
    lines: list[Result] = []
    own: Searches = Way(guess=False) if options.from_nothing else checkouts[HERE]
    for line in live({**checkouts, HERE: own}, THERE, options):
        if "over_best" in line:
            lines.append(line)
        yield line
    looks = lines[0]["over_best"][HERE] if lines else ()  # type: ignore[index]
    for look in looks:
        mine, theirs = _pairs(lines, look)
        pairs = sum(map(len, mine.values()))
        line = {"case": f"{look}, {HERE} over {THERE}", "pairs": pairs, "left_out": len(lines) - pairs}
        yield line | paired_ratio(mine, theirs, 1) if pairs else line


def _pairs(lines: Sequence[Result], look: str) -> tuple[Courses, Courses]:
    """The times of both over the best, of each task as (seeds, 1), where both have one."""
    found: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        over: Mapping[str, Mapping[str, float]] = line["over_best"]  # type: ignore[assignment]
        pair = (over[HERE][look], over[THERE][look])
        if all(map(isfinite, pair)):
            found.setdefault(str(line["task"]), []).append(pair)
    mine, theirs = ({task: np.array(pairs)[:, [n]] for task, pairs in found.items()} for n in (0, 1))
    return mine, theirs
