"""Records as lines of text, to be kept in git, sent to somebody, and merged; and which of them a clean-up removes.

The first line says what the file is, `{"metasched": "records", "version": 6}`; every other one is a record, a JSON
object with the fields of `Record` and of its `TaskKey`. In version 1 a record had `times`, all of one visit, in place
of `visits`, and nothing after `trial`. Up to version 2 it had no `space`, and `program_hash` was one of the program
with its names. Up to version 3 it had no `prologue_seconds`: that time was part of all others. Up to version 4 it had
no `surroundings`, and up to version 5 no `expected_seconds`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from metasched.database.base import Database
from metasched.database.best import fastest_records
from metasched.database.check import RecordProblem, check_meaning, check_numbers, check_texts, program_of
from metasched.database.record import DatabaseError, Record, Role, TaskKey, VisitKind, version_with_prologues
from metasched.database.visits_json import visits_from_json, visits_to_json
from metasched.ir.source import settings_from_json
from metasched.measure.timing import Surroundings
from metasched.support.data_classes import dataclass
from metasched.support.integers import is_integer, is_number

FORMAT = 6
_ONE_VISIT = 1  # the version before visits were told apart
_NO_SPACE = 2  # the version before records said in which space they were made
_NO_PROLOGUE = 3  # the version before prologues were timed apart
_NO_SURROUNDINGS = 4  # the version before it was said what kernels were timed in
_NO_EXPECTATION = 5  # the version before it was said what the model had expected
_HEADER = {"metasched": "records", "version": FORMAT}
_TASK = tuple(f.name for f in fields(TaskKey))
_RECORD = tuple(f.name for f in fields(Record) if f.name != "task")
DAY_S = 86400.0
Check = Callable[[Record], None]


def lines_of(records: Iterable[Record]) -> Iterator[str]:
    """The records as text, a line each without its end, and the header first."""
    yield json.dumps(_HEADER)
    for record in records:
        own = {name: getattr(record, name) for name in _RECORD}
        own |= {"visits": visits_to_json(record.visits), "role": record.role.value}
        yield json.dumps({**asdict(record.task), **own}, allow_nan=False, ensure_ascii=False)


def read_lines(lines: Iterable[str], name: str, check: Check) -> Iterator[Record | DatabaseError]:
    """The records of a text, and in place of one that is wrong the error that says so, with the line.

    `name` is what to call the text in a message; `check` raises ValueError for a record that is not to be taken.
    Raises DatabaseError for a text that does not begin as such a file does.
    """
    version: int | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        if version is None:
            version = _version(_object(line, place), name)
            continue
        try:
            data = _object(line, place)
            record = _record(_upgrade_record(data, version, place), place)
            if version <= _NO_SPACE:
                record = _with_structural_hash(record)
            if version <= _NO_PROLOGUE:
                made_by = version_with_prologues(record.program, record.code_version)
                record = replace(record, code_version=made_by)
            check(record)
        except DatabaseError as error:
            yield error
        except ValueError as error:
            yield DatabaseError(f"{place}: the record is refused: {error}")
        else:
            yield record
    if version is None:
        raise DatabaseError(f"{name} is empty; `metasched db export` writes such files")


def check_record(record: Record) -> None:
    """Raise ValueError unless a record of unknown origin says what it claims (`metasched.database.check`)."""
    check_numbers(record)
    check_texts(record)
    check_meaning(record)
    if record.seed < 0:
        raise RecordProblem(f"`seed` is {record.seed}; it is an integer from 0 to 2**63 - 1")


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except RecursionError:
        raise DatabaseError(f"{place}: this is no record: it is nested too deeply") from None
    except ValueError as error:
        raise DatabaseError(f"{place}: this is no record: {error}") from None
    if not isinstance(data, dict):
        raise DatabaseError(f"{place}: this is no record: a line is a JSON object")
    return data


def _version(data: dict[str, Any], name: str) -> int:
    """The version of the format that a header says."""
    if data.get("metasched") != _HEADER["metasched"]:
        raise DatabaseError(f"{name} does not begin as a file of records does; `metasched db export` writes such files")
    if data.get("version") not in range(_ONE_VISIT, FORMAT + 1):
        raise DatabaseError(
            f"{name} has version {data.get('version')} of the format, and this metasched knows versions up to {FORMAT}"
        )
    return int(data["version"])


def _upgrade_record(data: dict[str, Any], version: int, place: str) -> dict[str, Any]:
    """A record of any version with the fields of today."""
    if version <= _NO_EXPECTATION:
        data = {**data, "expected_seconds": None}
    if version <= _NO_SURROUNDINGS:
        data = {**data, "surroundings": Surroundings.ALONE.value}
    if version <= _NO_PROLOGUE:
        data = {**data, "prologue_seconds": None}
    if version <= _NO_SPACE:
        data = {**data, "space": ""}
    if version > _ONE_VISIT:
        return data
    if "times" not in data:
        raise DatabaseError(f"{place}: the record has no `times`")
    # Its samples are those of one visit.
    visits = [{"kind": VisitKind.SEARCH.value, "group": "", "times": data["times"]}] if data["times"] != [] else []
    return {"batch": 0, "place": 0, "code": "", "role": Role.CANDIDATE.value, **data, "visits": visits}


def _with_structural_hash(record: Record) -> Record:
    """A record from when programs were known by a hash with their names. Raises RecordProblem for that of another."""
    program = program_of(record)
    if program.named_hash() != record.task.program_hash:
        raise RecordProblem("`program_hash` is that of another program")
    return replace(record, task=replace(record.task, program_hash=program.structural_hash()))


def _record(data: dict[str, Any], place: str) -> Record:
    for field in (*_TASK, *_RECORD):
        if field not in data:
            raise DatabaseError(f"{place}: the record has no `{field}`")
        if not _FORMS[field].fits(data[field]):
            raise DatabaseError(f"{place}: the record does not read: `{field}` is {_FORMS[field].said}")
    try:
        return Record(
            task=TaskKey(**{field: data[field] for field in _TASK}),
            program=data["program"],
            params=settings_from_json(data["params"]),
            trace=data["trace"],
            visits=visits_from_json(data["visits"]),
            failure=data["failure"],
            raced=data["raced"],
            phases=tuple((phase, float(seconds)) for phase, seconds in data["phases"]),
            timestamp=float(data["timestamp"]),
            seed=data["seed"],
            trial=data["trial"],
            batch=data["batch"],
            place=data["place"],
            code=data["code"],
            role=Role(data["role"]),
            space=data["space"],
            code_version=data["code_version"],
            prologue_seconds=None if data["prologue_seconds"] is None else float(data["prologue_seconds"]),
            expected_seconds=None if data["expected_seconds"] is None else float(data["expected_seconds"]),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise DatabaseError(f"{place}: the record does not read: {error}") from error


@dataclass(frozen=True)
class _Form:
    """What JSON a field is, and how to say so."""

    said: str
    fits: Callable[[Any], bool]


def _are_pairs(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and fits(pair[1]) for pair in value
    )


def _is_visit(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("times"), list):
        return False
    return all(map(is_number, value["times"])) and all(isinstance(value.get(name), str) for name in ("kind", "group"))


_TEXT = _Form("text", lambda v: isinstance(v, str))
_INTEGER = _Form("an integer", is_integer)
_NUMBER = _Form("a number", is_number)
_FORMS: Mapping[str, _Form] = {
    "program_hash": _TEXT,
    "target": _TEXT,
    "threads": _INTEGER,
    "surroundings": _Form(
        "empty, or what kernels were timed in",
        lambda v: isinstance(v, str) and v in {c.value for c in Surroundings},
    ),
    "code_version": _TEXT,
    "program": _TEXT,
    "params": _Form(
        "a list of pairs of a name and an integer or text",
        lambda v: _are_pairs(v, lambda item: isinstance(item, str) or is_integer(item)),
    ),
    "trace": _TEXT,
    "visits": _Form(
        "a list of objects with `kind`, `group` and `times`, a list of numbers",
        lambda v: isinstance(v, list) and all(map(_is_visit, v)),
    ),
    "failure": _Form("text or null", lambda v: v is None or isinstance(v, str)),
    "raced": _Form("true or false", lambda v: isinstance(v, bool)),
    "phases": _Form("a list of pairs of a name and a number", lambda v: _are_pairs(v, is_number)),
    "timestamp": _NUMBER,
    "seed": _INTEGER,
    "trial": _INTEGER,
    "batch": _INTEGER,
    "place": _INTEGER,
    "code": _TEXT,
    "role": _Form(f"one of {', '.join(role.value for role in Role)}", lambda v: v in {role.value for role in Role}),
    "space": _TEXT,
    "prologue_seconds": _Form("a number or null", lambda v: v is None or is_number(v)),
    "expected_seconds": _Form("a number or null", lambda v: v is None or is_number(v)),
}


def new_records(database: Database, records: Iterable[Record]) -> list[Record]:
    """The records that the database does not hold yet, once each: merging the same file twice changes nothing."""
    known: dict[TaskKey, set[object]] = {}
    out: list[Record] = []
    for record in records:
        if record.task not in known:
            known[record.task] = {there.identity for there in database.records(record.task)}
        if record.identity not in known[record.task]:
            known[record.task].add(record.identity)
            out.append(record)
    return out


@dataclass(frozen=True)
class Removal:
    """Which records to remove: those that meet every condition given.

    `program` is a name; `before` seconds since the epoch; `failures` means those without a time; `keep_best` spares
    the fastest of each task and version; `other_than` is a code version, and records of it stay.
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


def records_to_remove(database: Database, removal: Removal) -> list[Record]:
    """The records that a removal is about, by task."""
    out: list[Record] = []
    for stats in database.stats().tasks:
        if removal.program is not None and stats.program != removal.program:
            continue
        records = database.records(stats.task)
        spared = set(fastest_records(records, removal.keep_best or 0))
        out += [
            record
            for record in records
            if record not in spared
            and (removal.before is None or record.timestamp < removal.before)
            and (not removal.failures or record.failure is not None)
            and record.code_version != removal.other_than
        ]
    return out
