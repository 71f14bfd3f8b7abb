"""Records as rows of a table, for stores of SQL. A row that is no record is passed over: it must not hide others."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from metasched.database.check import check_numbers, check_texts, parsed_trace
from metasched.database.record import DamagedRecordWarning, Record, Role, TaskKey, VisitKind
from metasched.database.summary import permissions_text
from metasched.database.visits_json import visits_from_json, visits_to_json
from metasched.errors import callers_level
from metasched.ir.source import settings_from_json
from metasched.schedule.trace_outline import outline_of
from metasched.support.messages import counted, with_hint

Row = tuple[Any, ...]


class RowReader:
    """Reads rows by `read`, which raises ValueError or TypeError for one that is no record."""

    def __init__(self, read: Callable[[Row], Record]) -> None:
        self._read = read
        self.problems: list[str] = []

    def records(self, rows: Iterable[Row]) -> Iterator[Record]:
        """The records among the rows; what is wrong with the others goes to `problems`."""
        for row in rows:
            problem, record = self._try_reading(row)
            if record is None:
                self.problems.append(problem)
            else:
                yield record

    def _try_reading(self, row: Row) -> tuple[str, Record | None]:
        try:
            record = self._read(row)
            check_numbers(record)
            check_texts(record)
        except RecursionError:
            return "it is nested too deeply", None
        except (ValueError, TypeError, OverflowError) as error:
            return str(error), None
        return "", record

    def warn(self, url: str) -> None:
        """Say what was passed over, if anything was."""
        if self.problems:
            warnings.warn(
                with_hint(
                    f"`{url}`: {counted(len(self.problems), 'record')} of a task cannot be read and count for nothing "
                    f"(the first: {self.problems[0]})",
                    "`metasched db prune --damaged` removes such records",
                ),
                DamagedRecordWarning,
                stacklevel=callers_level(),
            )


# The fields of a record, and what is kept beside them as data, worked out of them.
COLUMNS = (
    "program, params, trace, visits, failure, raced, phases, timestamp, seed, trial, batch, place, code, role, "
    "space, code_version, prologue_seconds, expected_seconds"
)
DERIVED_COLUMNS = "seconds, search_seconds, settled, turns, repeats, structure, decisions, written, permissions"
COUNT = COLUMNS.count(",") + DERIVED_COLUMNS.count(",") + 2
# Those of both that change when a record is timed again.
TIMED_COLUMNS = ("visits", "failure", "raced", "seconds", "search_seconds", "settled", "turns", "repeats")
# What a search needs of records: the fields of a `Summary`.
IN_SHORT = (
    "id, written, space, code_version, structure, decisions, seconds, search_seconds, settled, raced, failure, role, "
    "turns, repeats, batch, place, trial, code, timestamp, permissions"
)
ANY_TASK = TaskKey("", "", 1)


def record_of(task: TaskKey, row: tuple[Any, ...]) -> Record:
    """The record of a row of `COLUMNS`. Raises ValueError or TypeError for a row that was damaged."""
    program, params, trace, visits, failure, raced, phases, timestamp, seed, trial, batch, place, code, role, *made = (
        row
    )
    space, code_version, prologue_seconds, expected_seconds = made
    return Record(
        task=task,
        program=program,
        params=settings_from_json(json.loads(params)),
        trace=trace,
        visits=visits_from_json(json.loads(visits)),
        failure=failure,
        raced=bool(raced),
        phases=tuple((str(name), float(seconds)) for name, seconds in json.loads(phases)),
        timestamp=timestamp,
        seed=seed,
        trial=trial,
        batch=batch,
        place=place,
        code=code,
        role=Role(role),
        space=space,
        code_version=code_version,
        prologue_seconds=prologue_seconds,
        expected_seconds=expected_seconds,
    )


def values_of(record: Record) -> tuple[object, ...]:
    """The values of `COLUMNS` and `DERIVED_COLUMNS`."""
    params = json.dumps(record.params)
    outline = outline_of(record.trace)
    return (
        record.program,
        params,
        record.trace,
        _visits_text(record),
        record.failure,
        int(record.raced),
        json.dumps(record.phases, allow_nan=False),
        record.timestamp,
        record.seed,
        record.trial,
        record.batch,
        record.place,
        record.code,
        record.role.value,
        record.space,
        record.code_version,
        record.prologue_seconds,
        record.expected_seconds,
        *_timing_columns(record),
        outline.structure,
        outline.decisions,
        written_number(record.program, params),
        permissions_text(record.trace),
    )


def timed_values_of(record: Record) -> tuple[object, ...]:
    """The values of `TIMED_COLUMNS`."""
    return (_visits_text(record), record.failure, int(record.raced), *_timing_columns(record))


def _timing_columns(record: Record) -> tuple[float | None, float | None, int, int, int]:
    """`seconds`, `search_seconds`, `settled`, `turns`, `repeats`."""
    turns, repeats = (len(record.groups(kind)) for kind in (VisitKind.TURN, VisitKind.REPEAT))
    return record.seconds, record.search_seconds, int(record.settled), turns, repeats


def _visits_text(record: Record) -> str:
    return json.dumps(visits_to_json(record.visits), allow_nan=False)


def written_number(program: str, params: str) -> int:
    """A number that records of one program text with the same parameters share."""
    digest = blake2b(f"{params}\n{program}".encode(errors="surrogateescape"), digest_size=7).digest()
    return int.from_bytes(digest, "big")


def with_trace(row: tuple[Record]) -> Record:
    """The record of a row that was read already, if its trace parses. Raises ValueError otherwise."""
    parsed_trace(row[0])
    return row[0]


def program_name(trace: str) -> str:
    """`conv2d` of `trace 1 of conv2d[H=14]:`, without parsing the rest."""
    return trace.partition(" of ")[2].partition("[")[0].partition(":")[0].strip()
