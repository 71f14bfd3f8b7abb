"""What cannot be traced, and where in the user's source it stands."""

from __future__ import annotations

import linecache
import sys
from types import FrameType

from metasched.errors import MetaschedError
from metasched.support.data_classes import dataclass

# Functions of SciPy begin by making arrays: the line that says what to do instead is the one that called them.
_INTERNAL = frozenset({"metasched", "numpy", "scipy"})


@dataclass(frozen=True)
class SourceLine:
    """A line of the function that is traced, or of one that it calls."""

    function: str
    file: str
    line: int

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.function}:{self.line}"


def users_line() -> SourceLine:
    """The innermost line under way that is neither of this package nor of NumPy or SciPy."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 -- as `warnings` finds its line
    while frame is not None and _package(frame) in _INTERNAL:
        frame = frame.f_back
    if frame is None:
        return SourceLine("?", "?", 0)
    return SourceLine(frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


class TraceError(MetaschedError):
    """A function that cannot be traced; `line` is where in its source.

    Attributes:
        reason: what cannot be expressed.
        hint: what to do instead.
        line: the file, function and number of the line.

    """

    def __init__(self, reason: str, hint: str = "", line: SourceLine | None = None) -> None:
        self.reason = reason
        self.line = line or users_line()
        shown = f"\n    {self.line.text}" if self.line.text else ""
        where = f"{self.line.file}:{self.line.line}, in `{self.line.function}`"
        super().__init__(f"{reason}\n  {where}:{shown}", hint=hint)
