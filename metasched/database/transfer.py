"""Records as lines of text, to be kept in git, sent to somebody, and merged; and which of them a clean-up removes.

The first line says what the file is, `{"metasched": "records", "version": 1}`; every other one is a record, a JSON
object with the fields of `Record` and of its `TaskKey`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from metasched.database.base import Database
from metasched.database.record import DatabaseError, Record, TaskKey
from metasched.ir.source import settings_from_json

FORMAT = 1
_HEADER = {"metasched": "records", "version": FORMAT}
_TASK = tuple(f.name for f in fields(TaskKey))
_RECORD = tuple(f.name for f in fields(Record) if f.name != "task")
DAY_S = 86400.0


def lines_of(records: Iterable[Record]) -> Iterator[str]:
    """The records as text, a line each without its end, and the header first."""
    yield json.dumps(_HEADER)
    for record in records:
        own = {name: getattr(record, name) for name in _RECORD}
        yield json.dumps({**asdict(record.task), **own}, allow_nan=False, ensure_ascii=False)


def read_lines(lines: Iterable[str], name: str) -> Iterator[Record]:
    """The records of a text; `name` is what to call it in a message. Raises DatabaseError with the line."""
    header = True
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        data = _object(line, f"{name}:{number}")
        if header:
            _check_header(data, name)
            header = False
        else:
            yield _record(data, f"{name}:{number}")
    if header:
        raise DatabaseError(f"{name} is empty; `metasched db export` writes such files")


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise DatabaseError(f"{place}: this is no record: {error}") from None
    if not isinstance(data, dict):
        raise DatabaseError(f"{place}: this is no record: a line is a JSON object")
    return data


def _check_header(data: dict[str, Any], name: str) -> None:
    if data.get("metasched") != _HEADER["metasched"]:
        raise DatabaseError(f"{name} does not begin as a file of records does; `metasched db export` writes such files")
    if data.get("version") != FORMAT:
        raise DatabaseError(
            f"{name} has version {data.get('version')} of the format, and this metasched knows version {FORMAT}"
        )


def _record(data: dict[str, Any], place: str) -> Record:
    missing = [name for name in (*_TASK, *_RECORD) if name not in data]
    if missing:
        raise DatabaseError(f"{place}: the record has no `{missing[0]}`")
    try:
        task = TaskKey(str(data["program_hash"]), str(data["target"]), int(data["threads"]), str(data["code_version"]))
        return Record(
            task=task,
            program=str(data["program"]),
            params=settings_from_json(data["params"]),
            trace=str(data["trace"]),
            times=tuple(float(t) for t in data["times"]),
            failure=None if data["failure"] is None else str(data["failure"]),
            raced=bool(data["raced"]),
            phases=tuple((str(phase), float(seconds)) for phase, seconds in data["phases"]),
            timestamp=float(data["timestamp"]),
            seed=int(data["seed"]),
            trial=int(data["trial"]),
        )
    except (ValueError, TypeError) as error:
        raise DatabaseError(f"{place}: the record does not read: {error}") from error


def new_records(database: Database, records: Iterable[Record]) -> list[Record]:
    """Those that the database does not hold yet, once each: merging the same file twice changes nothing."""
    known: dict[TaskKey, set[Record]] = {}
    out: list[Record] = []
    for record in records:
        if record.task not in known:
            known[record.task] = set(database.records(record.task))
        if record not in known[record.task]:
            known[record.task].add(record)
            out.append(record)
    return out


@dataclass(frozen=True)
class Removal:
    """Which records to remove: those that all of what is given holds for.

    `program` is a name; `before` seconds since the epoch; `failures` means those without a time; `keep_best` spares
    the fastest of each task; `other_than` is a code version, and records of it stay.
    """

    program: str | None = None
    before: float | None = None
    failures: bool = False
    keep_best: int | None = None
    other_than: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing says which records; a program alone says all of its."""
        return self == Removal()


def removable(database: Database, removal: Removal) -> list[Record]:
    """The records that a removal is about, by task."""
    out: list[Record] = []
    for stats in database.stats().tasks:
        if removal.program is not None and stats.program != removal.program:
            continue
        if removal.other_than is not None and stats.task.code_version == removal.other_than:
            continue
        records = database.records(stats.task)
        spared = set(fastest(records, removal.keep_best or 0))
        out += [
            record
            for record in records
            if record not in spared
            and (removal.before is None or record.timestamp < removal.before)
            and (not removal.failures or record.failure is not None)
        ]
    return out


def fastest(records: Iterable[Record], count: int) -> list[Record]:
    """The `count` fastest valid records of one task, those measured in full first, as `Database.best` ranks them."""
    valid = [(r.raced, r.seconds, n, r) for n, r in enumerate(records) if r.seconds is not None]
    return [record for *_, record in sorted(valid, key=lambda item: item[:3])[:count]]
