"""Features of recorded candidates of any program, from the texts of their records.

Records whose traces differ in numbers alone share a sketch: the trace is applied once, with its numbers left open, and
the features of all of them are those of its rows. A sketch takes some 50 ms, and a record one more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from metasched.cost.core import Core
from metasched.cost.features import NAMES, FeatureProgram, Features
from metasched.database.record import Record
from metasched.errors import LanguageError, ScheduleError
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Trace
from metasched.search.records.other_names import program_of
from metasched.space.conditions import space_of
from metasched.space.sketch import Sketch
from metasched.support.data_classes import dataclass
from metasched.target import Target, TargetError


@dataclass(frozen=True)
class Described:
    """The features of some records: float32 of shape (n, F), where `positions` says of which, in their order.

    `refused` counts by reason those that have none, as their traces no longer apply.
    """

    features: Features
    positions: tuple[int, ...]
    refused: Counter[str] = field(default_factory=Counter)


def describe_records(records: Sequence[Record], core: Core) -> Described:
    """The features of records, which may be of several programs and targets, by the constants of a core."""
    refused: Counter[str] = Counter()
    groups: defaultdict[tuple[object, ...], list[tuple[int, Trace]]] = defaultdict(list)
    for n, record in enumerate(records):
        try:
            trace = Trace.parse(record.trace)
            numbers_open = _open_numbers(trace)
        except (LanguageError, RecursionError):
            refused["the trace does not parse"] += 1
            continue
        groups[record.task.target, record.program, record.params, str(numbers_open)].append((n, trace))
    found: dict[int, Features] = {}
    for members in groups.values():
        positions = [n for n, _ in members]
        try:
            rows = _of_one_sketch(records[positions[0]], [trace for _, trace in members], core)
        except ScheduleError as error:
            refused[error.reason] += len(members)
        except (LanguageError, TargetError):
            refused["the program or the target does not parse"] += len(members)
        else:
            found.update(zip(positions, rows, strict=True))
    order = tuple(sorted(found))
    features = np.array([found[n] for n in order], np.float32).reshape(len(order), len(NAMES))
    return Described(features, order, refused)


def _open_numbers(trace: Trace) -> Trace:
    """The trace with its numbers left open, and its structure decided."""
    numbers = [
        str(step.address)
        for step in trace.instructions
        if step.random and not (registry()[step.op].branches or registry()[step.op].places)
    ]
    return trace.with_decisions(dict.fromkeys(numbers))


def _of_one_sketch(record: Record, traces: Sequence[Trace], core: Core) -> Features:
    """The features of candidates of one sketch, float32 of shape (n, F). Raises ScheduleError, LanguageError."""
    program, target = program_of(record), Target.parse(record.task.target)
    sketch = space_of(program, _open_numbers(traces[0]), target=target, max_sketches=1, seed=0)[0]
    rows = np.array([_row(sketch, trace) for trace in traces], np.int64).reshape(len(traces), len(sketch.columns))
    return FeatureProgram(sketch.func, sketch.columns, target, core)(rows)


def _row(sketch: Sketch, trace: Trace) -> tuple[int, ...]:
    """The numbers of a trace in the order of a sketch's columns."""
    decisions = trace.decisions
    taken = (variable.dist.encode(decisions[variable.address]) for variable in sketch.variables)
    return tuple(number for numbers in taken for number in numbers)
