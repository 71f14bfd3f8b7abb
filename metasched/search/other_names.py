"""Records of a program under other names, and of older versions of primitives, said as this program would say them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from metasched.database.base import Database
from metasched.database.record import DatabaseError, Record, TaskKey, code_version
from metasched.database.summary import Summary
from metasched.errors import LanguageError, ScheduleError
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.schedule.trace import Trace
from metasched.schedule.trace_outline import Outline, dumped, outline_of
from metasched.schedule.trace_renaming import in_names_of

# What records have in common that are told in one way: the text, the structure, and the names among their decisions.
_Group = tuple[int, str, tuple[tuple[int, str], ...]]


@dataclass(frozen=True)
class _Told:
    """The structure in the program's own names, and the decisions that are names, by position."""

    structure: str
    names: tuple[tuple[int, Any], ...]


class OwnNames:
    """Tells records of a task in the names of one program, and in the versions of primitives that there are now.

    Records of one structure are told alike: the trace of one of them is read and run, with those of the others
    nothing is done but to put names into their decisions.
    """

    def __init__(self, database: Database, task: TaskKey, program: Program) -> None:
        self._database = database
        self._task = task
        self._program = program
        self._written: dict[int, Program | None] = {}  # None: it is this very program
        self._told: dict[_Group, _Told | None] = {}

    @property
    def own(self) -> int:
        """The number of this program's text; 0 while no record of it was seen, which is no number of another."""
        return next((number for number, program in self._written.items() if program is None), 0)

    def are_of(self, summary: Summary) -> bool:
        """Whether a record is told in these names as it is."""
        if not summary.structure:
            return True  # a text that is no trace
        return self._program_of(summary) is None and summary.code_version == code_version()

    def _program_of(self, summary: Summary) -> Program | None:
        """The program that a record was made of; None for this one."""
        if summary.written not in self._written:
            record = self._record(summary)
            same = record is None or (record.program, record.params) == (str(self._program), self._program.params)
            self._written[summary.written] = None if same or record is None else _parsed(record)
        return self._written[summary.written]

    def told(self, summary: Summary) -> Summary:
        """A record in the program's names; as it is where it cannot be told in them."""
        decisions = json.loads(summary.decisions)
        names = tuple((n, json.dumps(d)) for n, d in enumerate(decisions) if isinstance(d, str | dict))
        group = (summary.written, summary.structure, names)
        if group not in self._told:
            self._told[group] = self._tell(summary, len(decisions))
        told = self._told[group]
        if told is None:
            return summary
        for place, name in told.names:
            decisions[place] = name
        return summary._replace(structure=told.structure, decisions=dumped(decisions))

    def _tell(self, summary: Summary, count: int) -> _Told | None:
        """By the trace of one of the records; None where it does not apply, as that of an older version may not."""
        record, program = self._record(summary), self._program_of(summary)
        if record is None:
            return None
        try:
            outline = _outline(record.trace, program, self._program)
        except (ScheduleError, LanguageError):
            return None
        decisions = json.loads(outline.decisions) if outline.structure else []
        if len(decisions) != count:
            return None
        names = tuple((n, d) for n, d in enumerate(decisions) if isinstance(d, str | dict))
        return _Told(outline.structure, names)

    def _record(self, summary: Summary) -> Record | None:
        return self._database.load(self._task, [summary.number]).get(summary.number)


def _outline(trace: str, written_for: Program | None, program: Program) -> Outline:
    if written_for is None:
        return outline_of(trace)
    return outline_of(str(in_names_of(Trace.parse(trace), written_for, program)))


def _parsed(record: Record) -> Program:
    return parse_program(record.program, **dict(record.params))


def own_trace(record: Record, program: Program) -> Trace:
    """The trace of a record in the names of a program that is the same up to names.

    Raises ScheduleError where it does not apply to its own program any more, DatabaseError where it is damaged.
    """
    try:
        trace = Trace.parse(record.trace)
    except LanguageError as error:
        raise DatabaseError(
            f"the trace of a record does not parse: {str(error).splitlines()[0]}\n"
            "  hint: `metasched db prune --damaged` removes such records"
        ) from error
    if (record.program, record.params) == (str(program), program.params):
        return trace
    return in_names_of(trace, _parsed(record), program)
