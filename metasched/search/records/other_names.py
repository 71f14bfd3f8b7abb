"""Records of a program with other names, or of older versions of primitives, translated to one program's own."""

from __future__ import annotations

import json
import logging
from typing import Any

from metasched.database.base import Database
from metasched.database.record import DatabaseError, Record, TaskKey, code_version
from metasched.database.summary import Summary
from metasched.errors import LanguageError, ScheduleError
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.schedule.trace import Trace
from metasched.schedule.trace_outline import decisions_text, outline_of
from metasched.schedule.trace_renaming import in_names_of
from metasched.support.data_classes import dataclass

LOGGER = logging.getLogger(__name__)

# What records that are translated alike share: the program's text, the structure, and the names among the decisions.
_Group = tuple[int, str, tuple[tuple[int, str], ...]]


@dataclass(frozen=True)
class _Translated:
    """The structure in the program's own names, and the decisions that are names, by position."""

    structure: str
    names: tuple[tuple[int, Any], ...]


class OwnNames:
    """Translates records of a task to the names of one program, and to the current versions of primitives.

    Records of one structure are translated alike: only the trace of one of them is read and run, and the names that it
    gives are put into the decisions of the others.
    """

    def __init__(self, database: Database, task: TaskKey, program: Program) -> None:
        self._database = database
        self._task = task
        self._program = program
        self._written: dict[int, Program | None] = {}  # None: it is this program
        self._translated: dict[_Group, _Translated | None] = {}

    @property
    def own_number(self) -> int:
        """The number of this program's text; 0, which no text has, if there was no record of it yet."""
        return next((number for number, program in self._written.items() if program is None), 0)

    def are_of(self, summary: Summary) -> bool:
        """Whether a record has these names already."""
        if not summary.structure:
            return True  # not the text of a trace
        return self._program_of(summary) is None and summary.code_version == code_version()

    def _program_of(self, summary: Summary) -> Program | None:
        """The program that a record was made of; None for this one."""
        if summary.written not in self._written:
            record = self._record(summary)
            same = record is None or _is_of(record, self._program)
            self._written[summary.written] = None if same or record is None else program_of(record)
        return self._written[summary.written]

    def in_own_names(self, summary: Summary) -> Summary:
        """The record in the program's names; unchanged if it cannot be translated."""
        decisions = json.loads(summary.decisions)
        names = tuple((n, json.dumps(d)) for n, d in enumerate(decisions) if isinstance(d, str | dict))
        group = (summary.written, summary.structure, names)
        if group not in self._translated:
            self._translated[group] = self._translate(summary, len(decisions))
        found = self._translated[group]
        if found is None:
            return summary
        for place, name in found.names:
            decisions[place] = name
        return summary._replace(structure=found.structure, decisions=decisions_text(decisions))

    def _translate(self, summary: Summary, count: int) -> _Translated | None:
        """Translate the trace of one of the records; None if it does not apply, as one of an older version may not."""
        record = self._record(summary)
        trace = None if record is None else applying_trace(record, self._program)
        if trace is None:
            return None
        outline = outline_of(str(trace))
        decisions = json.loads(outline.decisions) if outline.structure else []
        if len(decisions) != count:
            return None
        names = tuple((n, d) for n, d in enumerate(decisions) if isinstance(d, str | dict))
        return _Translated(outline.structure, names)

    def _record(self, summary: Summary) -> Record | None:
        return self._database.load(self._task, [summary.number]).get(summary.number)


def program_of(record: Record) -> Program:
    """The program that a record was made of. Raises LanguageError for a text that is none."""
    return parse_program(record.program, **dict(record.params))


def program_in_its_names(record: Record, program: Program) -> Program:
    """The program that a record of a task was made of: `program`, or one that differs from it in names."""
    return program if _is_of(record, program) else program_of(record)


def _is_of(record: Record, program: Program) -> bool:
    return (record.program, record.params) == (str(program), program.params)


def own_trace(record: Record, program: Program) -> Trace:
    """The trace of a record in the names of a program that is the same up to names.

    Raises ScheduleError if it no longer applies to its own program, DatabaseError if it is damaged.
    """
    try:
        trace = Trace.parse(record.trace)
    except LanguageError as error:
        raise DatabaseError(
            f"the trace of a record does not parse: {str(error).splitlines()[0]}",
            hint="`metasched db prune --damaged` removes such records",
        ) from error
    if _is_of(record, program):
        return trace
    return in_names_of(trace, program_of(record), program)


def applying_trace(record: Record, program: Program) -> Trace | None:
    """As `own_trace`, or None where that raises, as for a record of an older version; the log says why."""
    try:
        return own_trace(record, program)
    except (ScheduleError, LanguageError, DatabaseError) as error:
        LOGGER.info("a record of %s is passed over: %s", program.key, error)
        return None
