"""Records as a table: columns of values, for pandas and polars."""

from __future__ import annotations

import json
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any

import numpy as np

from metasched.database.base import Database
from metasched.database.record import TaskStats
from metasched.errors import MetaschedError
from metasched.ir.notebook import table
from metasched.report.candidates import MeasuredCandidate, measured_candidates
from metasched.report.recorded import task_name
from metasched.support.data_classes import dataclass
from metasched.support.imports import imports
from metasched.support.messages import counted

Column = np.ndarray[Any, Any]
_FIRST_ROWS = 10


class RecordsError(MetaschedError):
    """Records that cannot be shown as asked; the message says what is missing."""


@dataclass(frozen=True)
class RecordTable:
    """Records in columns of one length, a row each. `columns` are NumPy arrays by name, in their order.

    It is iterated over as a dictionary of columns is, so that `dict(table)` has them; its length is that of a column,
    and so it is no `Mapping`, whose length would be the number of columns.

    Numbers that are not there are NaN, texts that are not there None.

    | column | what it has |
    |---|---|
    | `task`, `target`, `threads`, `surroundings` | what was tuned: the program with its parameters, and for what |
    | `space`, `code_version` | the fingerprint of the space, and the versions that made the code |
    | `number`, `trial`, `batch`, `place`, `role` | its place among the measured, in its search and its batch, and why |
    | `seconds`, `low`, `high`, `samples` | the median, the 25th and the 75th percentile of its samples; how many |
    | `bound` | whether the time is a bound, as the candidate was dropped as slower |
    | `expected_seconds` | what the model expected before |
    | `failure` | why it has no time |
    | `repeats`, `disturbed` | how often it was timed again; its longest visit over the shortest, if over 1.1 |
    | `structure`, `code` | hashes of its steps and of its code |
    | `timestamp` | seconds since 1970 |
    | `decisions` | its decisions by address, as JSON |
    | `trace` | its text |
    """

    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> Column:
        """A column. Raises RecordsError for one that is not there."""
        if name not in self.columns:
            raise RecordsError(f"there is no column `{name}`", hint=f"there are {', '.join(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def keys(self) -> KeysView[str]:
        """The names of the columns."""
        return self.columns.keys()

    def values(self) -> ValuesView[Column]:
        """The columns."""
        return self.columns.values()

    def items(self) -> ItemsView[str, Column]:
        """The columns with their names."""
        return self.columns.items()

    def get(self, name: str, default: Column | None = None) -> Column | None:
        """A column, or something else where there is none of the name."""
        return self.columns.get(name, default)

    def with_decisions(self) -> RecordTable:
        """The table with a column for each address instead of `decisions`: its value as text, None where it is not."""
        decided = [json.loads(text) for text in self["decisions"]]
        addresses = dict.fromkeys(address for row in decided for address in row)
        columns = {name: column for name, column in self.columns.items() if name != "decisions"}
        # An address may have the name of a column.
        named = {(f"{name} (decision)" if name in columns else name): name for name in addresses}
        more = {shown: _texts([row.get(name) for row in decided]) for shown, name in named.items()}
        return RecordTable({**columns, **more})

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`. Raises RecordsError where pandas is not installed."""
        return _module("pandas").DataFrame(dict(self.columns))

    def to_polars(self) -> Any:
        """A `polars.DataFrame`, in which what is not there is null. Raises RecordsError where polars is not there."""
        return _module("polars").DataFrame({name: _plain_values(column) for name, column in self.columns.items()})

    def __repr__(self) -> str:
        return f"<table of {counted(len(self), 'record')}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        head = tuple(name for name in _SHOWN_COLUMNS if name in self.columns)
        rows = [tuple(_value_text(self.columns[name][n]) for name in head) for n in range(min(len(self), _FIRST_ROWS))]
        more = f"the first {_FIRST_ROWS}; " if len(self) > _FIRST_ROWS else ""
        below = f"<p>{more}to_pandas() and to_polars() have all columns, such as decisions and traces</p>"
        return table(counted(len(self), "record"), [head, *rows], below)


def table_of(database: Database, tasks: Sequence[TaskStats]) -> RecordTable:
    """The records of some tasks of a database as a table."""
    rows: list[tuple[MeasuredCandidate, Mapping[str, Any]]] = []
    for stats in tasks:
        key = stats.task
        shared = {"target": key.target, "threads": key.threads, "surroundings": key.surroundings}
        shared["task"] = task_name(stats)
        rows += [(candidate, shared) for candidate in measured_candidates(database.records(key))]
    return RecordTable(dict(_columns(rows)))


# What a notebook shows of each record: what fits into a line.
_SHOWN_COLUMNS = ("number", "task", "seconds", "low", "high", "expected_seconds", "role", "failure", "decisions")
# The most characters of a value that a notebook shows.
_LONGEST_VALUE = 60


def _value_text(value: object) -> str:
    """A value of a column in a few characters."""
    if value is None or value != value:  # nothing is recorded  # noqa: PLR0124
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


_NUMBERS = ("seconds", "low", "high", "expected_seconds", "disturbed", "timestamp", "trial")
_INTEGERS = ("number", "batch", "place", "samples", "repeats")


def _columns(rows: Sequence[tuple[MeasuredCandidate, Mapping[str, Any]]]) -> Iterator[tuple[str, Column]]:
    candidates = [candidate for candidate, _ in rows]
    for name in ("task", "target", "surroundings"):
        yield name, _texts([shared[name] for _, shared in rows])
    yield "threads", np.array([shared["threads"] for _, shared in rows], np.int64)
    for name in _INTEGERS:
        yield name, np.array([getattr(candidate, name) for candidate in candidates], np.int64)
    for name in _NUMBERS:
        values = (getattr(candidate, name) for candidate in candidates)
        yield name, np.array([np.nan if value is None else value for value in values], np.float64)
    yield "bound", np.array([candidate.bound for candidate in candidates], np.bool_)
    for name in ("role", "failure", "space", "code_version", "structure", "code"):
        yield name, _texts([getattr(candidate, name) for candidate in candidates])
    yield "decisions", _texts([json.dumps({d.address: d.value for d in c.decisions}) for c in candidates])
    yield "trace", _texts([candidate.trace for candidate in candidates])


def _texts(values: Sequence[str | None]) -> Column:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _plain_values(column: Column) -> Any:
    """A column as polars takes it: what is not there as None."""
    if column.dtype.kind == "f":
        return [None if np.isnan(value) else float(value) for value in column]
    return column.tolist()


def _module(name: str) -> Any:
    try:
        return imports.module(name)
    except ImportError as error:
        raise RecordsError(
            f"`to_{name}` makes a table of {name}, which is not installed", hint=f"pip install {name}"
        ) from error
