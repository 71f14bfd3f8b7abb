"""The measured candidates of a task as arrays: their features, which are computed anew, and their times.

Sketches are replayed for it, 0.05 s each, so tasks go to several processes, and what was computed can be kept in a
folder: by the text of a task, the constants of the core, and all sources that features come from.
"""

from __future__ import annotations

import hashlib
import multiprocessing
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.yardstick.data import TimedTask
from benchmarks.yardstick.details import Details, details_of, joined_details
from metasched.cost.core import Core, default_core
from metasched.cost.features import NAMES, FeatureProgram, Features, Rows
from metasched.cost.learning.ranking import Array
from metasched.schedule.trace import Trace
from metasched.space.sketch import Sketch
from metasched.target import Target

# Nothing that features are made from imports these (a test of the architecture holds that).
_PACKAGES_ABOVE = ("measure", "database", "search", "cli")
_ROOT = Path(__file__).parents[2]

# Features of a task's candidates, float32 of shape (n, F), and what only models under comparison read.
Described = tuple[Features, Details]


@dataclass(frozen=True, eq=False)
class Samples:
    """Candidates of a task. Only the same object is equal to it.

    `features` is float32 of shape (n, F), and `details` has what only models under comparison read; `first` and
    `second` are seconds at two moments, shape (n,). `known` is the least time known of the task, in seconds, whatever
    pool it is of.
    """

    task: str
    family: str
    suite: str | None
    pool: str
    features: Features
    details: Details
    first: Array
    second: Array
    known: float

    @property
    def seconds(self) -> Array:
        """The lesser of both times: what disturbs a measurement makes it longer."""
        return np.minimum(self.first, self.second)

    def __len__(self) -> int:
        return len(self.first)

    def take(self, positions: np.ndarray[Any, np.dtype[np.int64]]) -> Samples:
        """Some of the candidates."""
        return replace(
            self,
            features=self.features[positions],
            details=self.details.take(positions),
            first=self.first[positions],
            second=self.second[positions],
        )


def join_samples(parts: Sequence[Samples]) -> Samples:
    """Candidates of several pools of one task as one."""
    return replace(
        parts[0],
        pool="+".join(part.pool for part in parts),
        features=np.concatenate([part.features for part in parts]),
        details=joined_details([part.details for part in parts]),
        first=np.concatenate([part.first for part in parts]),
        second=np.concatenate([part.second for part in parts]),
    )


def sketch_of(task: TimedTask, number: int, program: ms.Program | None = None) -> Sketch:
    """The parametric program of a task's sketch.

    Raises ScheduleError where its trace no longer replays, and LanguageError where it is no longer understood.
    """
    trace, target = Trace.parse(task.sketches[number]), Target.parse(task.target)
    return ms.space(program or task.program(), rules=trace, target=target)[0]


def features_of(task: TimedTask, core: Core | None = None) -> Described:
    """The features and details of a task's candidates, in their order, by the constants of a core; without one by those
    of the task's target, where nobody has measured any: what is kept of this machine has no part in what is judged or
    trained.
    """
    target, program = Target.parse(task.target), task.program()
    core = default_core(target) if core is None else core
    positions: dict[int, list[int]] = defaultdict(list)
    for n, code in enumerate(task.codes):
        positions[code.sketch].append(n)
    features, details = np.empty((len(task.codes), len(NAMES)), np.float32), []
    for number, of_sketch in positions.items():
        sketch = sketch_of(task, number, program)
        rows: Rows = np.array([task.codes[n].row for n in of_sketch], np.int64).reshape(len(of_sketch), -1)
        features[of_sketch] = FeatureProgram(sketch.func, sketch.columns, target, core)(rows)
        details.append(details_of(sketch.func, sketch.columns, rows, target, core))
    # Back from the order of sketches.
    order = np.argsort([n for of_sketch in positions.values() for n in of_sketch]).astype(np.int64)
    return features, joined_details(details).take(order)


def samples(
    tasks: Sequence[TimedTask], core: Core | None = None, processes: int = 1, folder: Path | None = None
) -> list[Samples]:
    """Candidates of the pools of all tasks, those that are only known to be good left out.

    Args:
        tasks: measurements, of which a task may have several, of one pool each.
        core: by what the roofline counts, if not by the default constants of each task's target.
        processes: in how many features are computed.
        folder: where features are kept.
    """
    known: dict[str, float] = {}
    for task in tasks:
        best = min((min(code.first_s, code.second_s) for code in task.codes), default=float("inf"))
        known[task.spec.name] = min(known.get(task.spec.name, best), best)
    found = []
    for task, (features, details) in zip(tasks, all_features(tasks, core, processes, folder), strict=True):
        pool = np.array([n for n in range(len(task.codes)) if str(n) not in task.known], np.int64)
        first = np.array([code.first_s for code in task.codes])
        second = np.array([code.second_s for code in task.codes])
        name = task.spec.name
        whole = Samples(name, task.family, task.suite, task.pool, features, details, first, second, known[name])
        found.append(whole.take(pool))
    return found


def all_features(
    tasks: Sequence[TimedTask], core: Core | None, processes: int, folder: Path | None
) -> Iterator[Described]:
    """`features_of` each task, in their order."""
    compute = partial(kept_features, core=core, folder=folder)
    if processes == 1:
        yield from map(compute, tasks)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(compute, tasks)


def kept_features(task: TimedTask, core: Core | None, folder: Path | None) -> Described:
    """`features_of` the task from the folder, or computed and put there."""
    if folder is None:
        return features_of(task, core)
    path = folder / f"{task_key(task, core)}.npz"
    if path.exists():
        with np.load(path) as arrays:
            return arrays["features"], Details(arrays["statements"], arrays["curves"])
    features, details = features_of(task, core)
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{multiprocessing.current_process().pid}.npz")
    np.savez_compressed(part, features=features, statements=details.statements, curves=details.curves)
    part.replace(path)
    return features, details


def task_key(task: TimedTask, core: Core | None) -> str:
    """A hash of all that a task's features depend on: times are not among it."""
    rows = [(code.sketch, code.row) for code in task.codes]
    parts = (task.spec, task.target, task.sketches, rows, core, sources_hash())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


@cache
def sources_hash() -> str:
    """A hash of every source that features are made from, and of more."""
    found = hashlib.sha256((Path(__file__).parent / "details.py").read_bytes())
    for folder in ("metasched", "rules", "grammar"):
        for path in sorted((_ROOT / folder).rglob("*")):
            name = path.relative_to(_ROOT)
            if path.suffix in {".py", ".lark", ".ms"} and name.parts[1] not in _PACKAGES_ABOVE:
                found.update(f"{name}\n".encode() + path.read_bytes())
    return found.hexdigest()
