"""Rows of a database file as records. A row that is none is passed over: it must not hide the others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from metasched.database.check import check_numbers, check_texts
from metasched.database.record import DamagedRecordWarning, Record
from metasched.errors import callers_level, counted

Row = tuple[Any, ...]


class RowReader:
    """Reads rows by `read`, which raises ValueError or TypeError for one that is no record."""

    def __init__(self, read: Callable[[Row], Record]) -> None:
        self._read = read
        self.problems: list[str] = []

    def records(self, rows: Iterable[Row]) -> Iterator[Record]:
        """The records among the rows; what is wrong with the others goes to `problems`."""
        for row in rows:
            problem, record = self._tried(row)
            if record is None:
                self.problems.append(problem)
            else:
                yield record

    def _tried(self, row: Row) -> tuple[str, Record | None]:
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
                f"`{url}`: {counted(len(self.problems), 'record')} of a task cannot be read and count for nothing (the "
                f"first: {self.problems[0]}). Hint: `metasched db prune --damaged` removes such records",
                DamagedRecordWarning,
                stacklevel=callers_level(),
            )


def text_of(data: bytes) -> str:
    """A text of a row. Bytes that are no text become surrogates, so that only this row fails."""
    return data.decode(errors="surrogateescape")
