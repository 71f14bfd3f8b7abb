"""Analyses of what a database holds: which task is meant, and its records of one version of the code generator."""

from __future__ import annotations

from collections.abc import Sequence

from metasched.database.base import Database
from metasched.database.record import Record, TaskStats, code_version
from metasched.errors import NoRecord
from metasched.report.analysis import TuningAnalysis, analysis_of
from metasched.support.messages import did_you_mean


def task_name(task: TaskStats) -> str:
    """The program with its parameters."""
    settings = ", ".join(f"{key}={value}" for key, value in task.params)
    return f"{task.program}[{settings}]" if settings else task.program


def named_tasks(database: Database, name: str) -> list[TaskStats]:
    """The tasks of a program's name, or of its name with parameters, the one that was measured last first.

    Raises NoRecord where there is none.
    """
    tasks = database.stats().tasks
    found = [
        task
        for task in tasks
        if _without_spaces(name) in {_without_spaces(task.program), _without_spaces(task_name(task))}
    ]
    if not found:
        raise _no_record_of(name, database, tasks)
    return sorted(found, key=lambda task: -task.last)


def require_program(database: Database, name: str) -> None:
    """Raises NoRecord where nothing is recorded of a program of this name."""
    tasks = database.stats().tasks
    if name not in {task.program for task in tasks}:
        raise _no_record_of(name, database, tasks)


def _no_record_of(name: str, database: Database, tasks: Sequence[TaskStats]) -> NoRecord:
    hint = did_you_mean(name, [task.program for task in tasks]) or "`metasched report --db URL` lists what is there"
    return NoRecord(f"{database.url} has no record of `{name}`", hint=hint)


def tasks_of(database: Database, program_hash: str, name: str) -> list[TaskStats]:
    """The tasks of a program, the one that was measured last first. Raises NoRecord where there is none."""
    found = [task for task in database.stats().tasks if task.task.program_hash == program_hash]
    if not found:
        raise NoRecord(f"{database.url} has no record of {name}", hint="`metasched tune` measures it")
    return sorted(found, key=lambda task: -task.last)


def recorded_analysis(database: Database, task: TaskStats) -> TuningAnalysis:
    """The analysis of a task over all spaces, by the records of the running version, else of the latest one."""
    records = _of_one_version(database.records(task.task))
    searches = {record.search for record in records}
    duplicates = sum(len(database.duplicates(search)) for search in searches)
    return analysis_of(task_name(task), records, duplicates=duplicates)


def _of_one_version(records: Sequence[Record]) -> list[Record]:
    last: dict[str, float] = {}
    for record in records:
        last[record.code_version] = max(record.timestamp, last.get(record.code_version, 0.0))
    if not last:
        return []
    chosen = code_version() if code_version() in last else max(last, key=lambda version: last[version])
    return [record for record in records if record.code_version == chosen]


def _without_spaces(name: str) -> str:
    return name.replace(" ", "")
