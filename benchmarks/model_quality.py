"""How well cost models rank candidates: on operators of families that they never saw, and with 64 records of the task.

The candidates are those of the yardstick, a file of text: about 150 tasks with 64 distinct codes each, and for the
twelve operators 200 more near the best known, each timed without racing at two moments. Features are computed from the
sources at hand; models are trained from nothing. A line for each model, protocol and pool; the last line is a table.

`--models roofline,trees` judges some, `--seeds 0,1` by other seeds than 0 to 4, `--data FILE` by other measurements
(`python -m benchmarks.yardstick.collect` makes them), `--kept DIR` keeps features for the next run, and `--quick` takes
every sixth task and one seed. The table of several runs' lines, as `--json` prints them, is

    python -m benchmarks.model_quality FILE ...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from benchmarks.registry import OptionError, Options, Result
from benchmarks.yardstick.alternatives import alternatives
from benchmarks.yardstick.contestants import Contestant, contestants
from benchmarks.yardstick.data import DATA, TimedTask, read_tasks
from benchmarks.yardstick.evaluation import USUAL, Protocol, agreement, verdicts
from benchmarks.yardstick.samples import Samples, samples
from benchmarks.yardstick.summary import summary
from benchmarks.yardstick.table import table
from metasched.errors import MetaschedError
from metasched.support.messages import with_hint

_SEEDS = 5
_QUICK_EVERY = 6


def run(options: Options) -> Iterator[Result]:
    """A line for each verdict, the ceiling first, and the table of all. Raises ValueError for an unknown model, and for
    a file without measurements."""
    chosen = chosen_contestants(options.models)
    yield from lines(described_samples(options, options.data or DATA), chosen, seeds_of(options))


def lines(
    judged: Sequence[Samples],
    chosen: Sequence[Contestant],
    seeds: Sequence[int],
    protocols: Sequence[Protocol] = USUAL,
    beside: Sequence[Samples] = (),
) -> Iterator[Result]:
    """A line for each verdict on these tasks, the ceiling first, and the table of all. Tasks `beside` only teach."""
    found = []
    each = (verdicts(judged, contestant, seeds, protocols, beside) for contestant in chosen)
    for verdict in chain(agreement(judged), *each):
        found.append(summary(verdict))
        yield found[-1]
    yield {"case": "table", "table": table(found)}


def seeds_of(options: Options) -> Sequence[int]:
    """Those that are named, or how many there are otherwise."""
    return options.seeds or tuple(range(1 if options.quick else _SEEDS))


def described_samples(options: Options, path: Path) -> list[Samples]:
    """The candidates of a file with their features. Raises OptionError where it has no measurements."""
    return samples(measured_tasks(options, path), processes=options.threads, folder=options.kept)


def measured_tasks(options: Options, path: Path) -> list[TimedTask]:
    """The tasks of a file: of a quick run, some of each family. Raises OptionError where there are none."""
    tasks = list(read_tasks(path))
    if not tasks:
        raise OptionError(with_hint(f"{path} has no measurements", "python -m benchmarks.yardstick.collect makes them"))
    return tasks[::_QUICK_EVERY] if options.quick else tasks


def chosen_contestants(names: Sequence[str]) -> list[Contestant]:
    """Those of the names, or all. Raises OptionError, which names those there are."""
    everyone = [*contestants(), *alternatives()]
    unknown = sorted(set(names) - {one.name for one in everyone})
    if unknown:
        raise OptionError(f"no model `{unknown[0]}`: there are {', '.join(one.name for one in everyone)}")
    return [one for one in everyone if not names or one.name in names]


def table_of_files(paths: Iterable[Path]) -> str:
    """The table over the lines of verdicts in some files; of a case that is there twice, the last line counts."""
    found = [json.loads(text) for path in paths for text in path.read_text(encoding="utf-8").splitlines()]
    cases = {line["case"]: line for line in found if "protocol" in line}
    if not cases:
        raise MetaschedError("these files have no line of a model, as `benchmarks model_quality --json` prints them")
    return table(list(cases.values()))


if __name__ == "__main__":
    print(table_of_files(map(Path, sys.argv[1:])))
