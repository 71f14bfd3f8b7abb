"""All that a database has of its tasks, as features and times: what `metasched model` trains on, and judges by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from metasched.calibration.store import core_of
from metasched.cost.core import Core
from metasched.cost.features import Features
from metasched.cost.learning.held_out import KindOfTask
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import TaughtTask
from metasched.database.base import Database
from metasched.database.record import Record, TaskKey
from metasched.errors import LanguageError
from metasched.knowledge.anchor import anchor_of
from metasched.schedule.trace_outline import outline_of
from metasched.search.records.feature_cache import FeatureCache
from metasched.search.records.other_names import program_of
from metasched.search.records.record_features import describe_records
from metasched.support.data_classes import dataclass
from metasched.target import Target, TargetError

# A task with fewer candidates that were timed says little of which are fast.
LEAST_RECORDS = 4


@dataclass(frozen=True)
class RecordedTasks:
    """The tasks of some databases that have enough records, and how many records were left out for each reason."""

    tasks: tuple[KindOfTask, ...]
    left_out: Counter[str]

    @property
    def records(self) -> int:
        return sum(len(task.times) for task in self.tasks)


def recorded_tasks(databases: Sequence[Database], tell: Callable[[str], None] = lambda _: None) -> RecordedTasks:
    """What databases hold. A task that several of them have is one; of equal code, the record made last counts.

    `tell` is called with the name of each task before its features are worked out, which takes some 30 ms a record
    unless they are kept.
    """
    left_out: Counter[str] = Counter()
    keys = dict.fromkeys(key for database in databases for key in database.tasks())
    found = []
    for key in keys:
        records = _distinct([record for database in databases for record in database.records(key)])
        if sum(record.failure is None for record in records) < LEAST_RECORDS:
            left_out[f"their task has fewer than {LEAST_RECORDS} times"] += len(records)
            continue
        task = _task(key, records, tell, left_out)
        if task is not None:
            found.append(task)
    return RecordedTasks(tuple(found), left_out)


def _distinct(records: Sequence[Record]) -> list[Record]:
    """One record for each code, the last; each that has no code."""
    by_code = {record.code or str(record.identity): record for record in sorted(records, key=lambda r: r.timestamp)}
    return list(by_code.values())


def _task(
    key: TaskKey, records: Sequence[Record], tell: Callable[[str], None], left_out: Counter[str]
) -> KindOfTask | None:
    try:
        program, core = program_of(records[0]), core_of(Target.parse(key.target))
    except (LanguageError, TargetError):
        left_out["the program or the target does not parse"] += len(records)
        return None
    tell(f"{program.key}: {len(records)} records")
    features = _features(key, records, core, left_out)
    kept = [n for n, row in enumerate(features) if row is not None]
    if sum(records[n].failure is None for n in kept) < LEAST_RECORDS:
        return None
    seconds = [records[n].search_seconds for n in kept]
    times = TaskTimes(
        np.stack([row for row in features if row is not None]),
        np.array([np.inf if taken is None else taken for taken in seconds]),
        np.array([records[n].raced for n in kept]),
    )
    taught = TaughtTask(key.program_hash, program.key, len(kept))
    return KindOfTask(taught, anchor_of(program.func).kind, key.target, times)


def _features(key: TaskKey, records: Sequence[Record], core: Core, left_out: Counter[str]) -> list[Features | None]:
    """The features of records, kept ones or new; None for those that have none."""
    cache_of_user = FeatureCache.of_user(core)
    kept = cache_of_user.read(key)
    outlines = [outline_of(record.trace) for record in records]
    missing = [n for n, outline in enumerate(outlines) if outline not in kept]
    found = describe_records([records[n] for n in missing], core)
    new = {outlines[missing[at]]: row for at, row in zip(found.positions, found.features, strict=True)}
    cache_of_user.add(key, new)
    left_out.update(found.refused)
    known = kept | new
    return [known.get(outline) for outline in outlines]
