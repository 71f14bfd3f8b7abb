"""Entries from records: the best structures and numbers of each size that was tuned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from metasched.database.base import Database
from metasched.database.best import best_of, by_time
from metasched.database.record import DatabaseError, Record
from metasched.errors import LanguageError
from metasched.ir.program import Program
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.entries import Decisions, Entry
from metasched.knowledge.library import cpu_of
from metasched.knowledge.roles import Roles
from metasched.lang import parse_program
from metasched.lang.instructions import Decision
from metasched.schedule.primitive import registry
from metasched.schedule.tensor import intrinsics
from metasched.schedule.trace import Trace
from metasched.target import Target

# Structures kept of each size.
MOST_STRUCTURES = 2
# How many times the best structure's time another that is kept may take.
_NEAR_FACTOR = 1.1


def entries_of(database: Database) -> Iterator[Entry]:
    """The entries of every task of a database."""
    for task in database.stats().tasks:
        yield from best_entries(database.records(task.task))


def best_entries(records: Iterable[Record]) -> Iterator[Entry]:
    """The entries of the records of one task: of its best one, and of the fastest with other structures.

    Records without random variables, as expert traces are, say nothing that could be carried over.
    """
    settled = by_time(records)
    best = best_of(settled)
    first = [] if best is None else [best]
    kept: list[Entry] = []
    for record in (*first, *(r for r in settled if r is not best)):
        if len(kept) == MOST_STRUCTURES or (kept and record.seconds_or_inf * 1e6 > _NEAR_FACTOR * kept[0].microseconds):
            break
        entry = entry_of(record)
        if entry is not None and all(entry.structure != other.structure for other in kept):
            kept.append(entry)
    yield from kept


def entry_of(record: Record) -> Entry | None:
    """What a record says in roles; None for one that decides nothing. Raises DatabaseError for a damaged one."""
    try:
        program = parse_program(record.program, **dict(record.params))
        trace = Trace.parse(record.trace)
    except LanguageError as error:
        raise DatabaseError(
            f"a record does not parse: {str(error).splitlines()[0]}",
            hint="`metasched db prune --damaged` removes such records",
        ) from error
    return describe_trace(
        program, trace, Target.parse(record.task.target).with_threads(record.task.threads), record.seconds
    )


def describe_trace(program: Program, trace: Trace, target: Target, seconds: float | None) -> Entry | None:
    """The entry of a trace: what it decides, in roles, with its time on a target; None if it decides nothing."""
    anchor = anchor_of(program.func)
    roles = Roles.of(program.func, anchor)
    structure: list[tuple[str, Decision]] = []
    numbers: list[tuple[str, Decision]] = []
    for line in trace.instructions:
        if line.address is None or line.decision is None:
            continue
        declaration = registry().get(line.op)
        drawn = None if declaration is None else declaration.drawn
        where = structure if drawn is not None and drawn.structural else numbers
        where.append((roles.general_address(line.address), roles.general_decision(line.decision)))
    if seconds is None or not (structure or numbers):
        return None
    size = anchor.extents, anchor.steps
    return Entry(anchor.kind, cpu_of(target), tuple(structure), *size, seconds * 1e6, tuple(numbers))


def merge_entries(*given: Iterable[Entry]) -> list[Entry]:
    """Entries together: of each size the fastest of every structure, and so many structures as are near the best.

    Those with other tensor instructions are for CPUs that others do not run on, and do not count there.
    """
    by_size: dict[object, list[Entry]] = {}
    for entry in (entry for entries in given for entry in entries):
        size = entry.kind, entry.cpu, entry.extents, entry.steps, _intrinsics_of(entry)
        by_size.setdefault(size, []).append(entry)
    return [entry for of_size in by_size.values() for entry in _best(of_size)]


def _intrinsics_of(entry: Entry) -> frozenset[Decision]:
    """The tensor intrinsics that an entry takes."""
    return frozenset(taken for _, taken in entry.structure if taken in intrinsics())


def _best(entries: Iterable[Entry]) -> list[Entry]:
    by_structure: dict[Decisions, Entry] = {}
    for entry in sorted(entries, key=lambda e: e.microseconds):
        by_structure.setdefault(entry.structure, entry)
    found = list(by_structure.values())
    near = [entry for entry in found if entry.microseconds <= _NEAR_FACTOR * found[0].microseconds]
    return near[:MOST_STRUCTURES]
