"""What is recorded for the tasks of a network: their best times, and traces as choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metasched.database.base import Database
from metasched.database.record import DatabaseError, Record, TaskKey
from metasched.errors import LanguageError, ScheduleError
from metasched.graph.choices import TUNED, Choice
from metasched.graph.ir import Graph
from metasched.graph.tasks import NetworkTask
from metasched.measure.surroundings import surroundings_in
from metasched.measure.timing import Surroundings
from metasched.permissions import Allowed
from metasched.search.other_names import own_trace
from metasched.search.progress_text import duration
from metasched.target import Target


def surroundings_of(graph: Graph, target: Target) -> Surroundings:
    """What a graph's kernels are timed in."""
    # By their types: the arrays of a network that was compiled would be made again.
    return surroundings_in(sum(graph.types[name].nbytes for name in graph.constants), target)


def best_records(
    database: Database, tasks: Sequence[NetworkTask], target: Target, surroundings: Surroundings, allowed: Allowed
) -> Mapping[str, Record]:
    """The best record of each task that has any, by its key.

    Those that were timed as a network runs it come first; where there is none, those of another kind of timing do.
    """
    order = sorted(Surroundings, key=lambda one: (one is not surroundings, one is Surroundings.ALONE))
    found: dict[str, Record] = {}
    for task in tasks:
        keys = (TaskKey.of(task.program, target, kind) for kind in order)
        named = allowed.in_program(task.program.func)
        records = (database.best(key, named) for key in keys)
        best = next((record for record in records if record is not None), None)
        if best is not None:
            found[task.key] = best
    return found


def choices_of(records: Mapping[str, Record], tasks: Sequence[NetworkTask]) -> dict[str, Choice]:
    """The traces of records as choices, by the tasks' keys.

    One of an older version that no longer applies is left out, so that its task is guessed.
    """
    found: dict[str, Choice] = {}
    for task in tasks:
        record = records.get(task.key)
        if record is not None and record.seconds is not None:
            try:
                trace = own_trace(record, task.program)
            except (ScheduleError, LanguageError, DatabaseError):
                continue
            found[task.key] = Choice(trace, f"{TUNED}: {duration(record.seconds)}")
    return found
