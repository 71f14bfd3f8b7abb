"""The exceptions a user can meet. Each says what went wrong, where, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from metasched.support.data_classes import dataclass
from metasched.support.messages import with_hint


class MetaschedError(Exception):
    """Base of every error metasched raises on purpose.

    `hint` is what to do, '' where there is nothing to say but the message. It is the end of the error's text, too.
    """

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(with_hint(message, hint))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _error_again, (type(self), self.args, self._state())

    def _state(self) -> dict[str, Any]:
        """The attributes of the error as another process takes them."""
        return vars(self)


def _error_again(kind: type[MetaschedError], args: tuple[Any, ...], state: Mapping[str, Any]) -> MetaschedError:
    """An error as it was, without its `__init__`: that of a subclass takes what the message is made of."""
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


@dataclass(frozen=True)
class Diagnostic:
    """One mistake in a text: 1-based line and column, the message, and a hint ('' when there is none)."""

    line: int
    column: int
    message: str
    hint: str = ""


class LanguageError(MetaschedError):
    """Text or a Python-built program that is wrong; `diagnostics` holds every mistake found."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], source: str = "", filename: str = "<text>") -> None:
        self.diagnostics = diagnostics
        self.source = source
        self.filename = filename
        super().__init__(self.render())

    def render(self) -> str:
        lines = self.source.splitlines()
        out: list[str] = []
        for d in self.diagnostics:
            out.append(f"{self.filename}:{d.line}:{d.column}: {d.message}")
            if 1 <= d.line <= len(lines):
                shown, column = _part_around(lines[d.line - 1], d.column - 1)
                out += [f"    {shown}", "    " + " " * column + "^"]
            out[-1] = with_hint(out[-1], d.hint)
        return "\n".join(out)


_MOST_COLUMNS = 200


def _part_around(line: str, column: int) -> tuple[str, int]:
    """A line, or what is around a column of a very long one, and where the column is there."""
    if len(line) <= _MOST_COLUMNS:
        return line, column
    first = max(0, min(column - _MOST_COLUMNS // 2, len(line) - _MOST_COLUMNS))
    left, right = "..." if first else "", "..." if first + _MOST_COLUMNS < len(line) else ""
    return f"{left}{line[first : first + _MOST_COLUMNS]}{right}", column - first + len(left)


class ScheduleError(MetaschedError):
    """A primitive that cannot be legal here.

    `op` is the primitive, `locations` the names of loops, blocks and buffers it is about, `hint` what to do
    instead. `render` draws the program with the places marked: it is called only when a person will see it.
    """

    def __init__(
        self,
        op: str,
        message: str,
        locations: tuple[str, ...] = (),
        hint: str = "",
        render: Callable[[], str] | None = None,
    ) -> None:
        self.op = op
        self.message = message
        self.locations = locations
        self._render = render
        self.line: int | None = None  # of a trace, where one was replayed
        self.step = ""  # and what it says
        super().__init__(message, hint=hint)

    def draw_with(self, render: Callable[[], str]) -> None:
        """Say how to draw the program, unless that is known already."""
        if self._render is None:
            self._render = render

    def redraw_with(self, render: Callable[[], str]) -> None:
        """Say how to draw the program, whatever was said before."""
        self._render = render

    def _state(self) -> dict[str, Any]:
        drawn = None if self._render is None else partial(str, self._render())
        return {**vars(self), "_render": drawn}

    @property
    def reason(self) -> str:
        """A short stable text to count failures by."""
        return f"{self.op}: {self.message}"

    def __str__(self) -> str:
        out = with_hint(self.reason, self.hint)
        if self.step:
            out += f"\n  in line {self.line} of the trace: {self.step}"
        if self._render is not None:
            out += "\n\n" + self._render()
        return out


class NondeterministicModule(MetaschedError):
    """A module that took other steps when it was run again with the same choices."""


class BuildError(MetaschedError):
    """A scheduled program that the compiler refuses; `reason` is a short stable text to count by."""

    def __init__(self, reason: str, detail: str = "", *, hint: str = "") -> None:
        self.reason = reason
        super().__init__(f"{reason}\n{detail}" if detail else reason, hint=hint)


class KernelError(MetaschedError):
    """A kernel was called with arguments it cannot take."""


class ResourceError(MetaschedError):
    """This machine or a limit of this process denies what the work needs: space, files, processes, memory, threads."""


class NoRecord(MetaschedError):
    """The database holds no measurement that applies."""


class CacheWarning(UserWarning):
    """What is kept between processes cannot be used, or not be kept; the message says why and what to do.

    `ms.kernel` then guesses, and what is not kept is made again.
    """


class BuildWarning(UserWarning):
    """A program of a network runs as it is written, since its schedule could not be built; the message says why."""


def callers_level() -> int:
    """How many frames above who calls this the first is that is not of this package, for `warnings.warn`."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 -- the way `warnings` itself counts
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "metasched":
        level, frame = level + 1, frame.f_back
    return level
