"""Mistakes in a rule: which line of it made them, and what the program was."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metasched.errors import MetaschedError, ScheduleError
from metasched.ir.printer import print_func
from metasched.ir.query import names
from metasched.schedule.trace import Schedule
from metasched.support.data_classes import dataclass
from metasched.support.messages import did_you_mean, with_hint

_PACKAGE = Path(__file__).parents[1]
_RULES = _PACKAGE / "rules"  # installed, the shipped rules lie inside the package, and are rules like any other


class RuleNote(str):
    """A note on an exception from a rule's code: it says where. Such an exception is reported as a mistake there."""

    __slots__ = ()


def is_of_a_rule(error: BaseException) -> bool:
    """Whether it was raised by a rule's code, which shows by its `RuleNote`."""
    return any(isinstance(note, RuleNote) for note in getattr(error, "__notes__", ()))


def describe_error(error: BaseException) -> str:
    """An exception as a message for a person, notes included; its class is named unless it is metasched's own."""
    own = isinstance(error, MetaschedError)
    text = str(error) if own else with_hint(f"{type(error).__name__}: {error}", _closest_attribute(error))
    return "\n".join([text, *("\n" + note for note in getattr(error, "__notes__", ()))])


def _closest_attribute(error: BaseException) -> str:
    """A hint for an attribute that is not there; '' for other errors. Python's own tracebacks have one."""
    if not isinstance(error, AttributeError) or error.name is None or "has no attribute" not in str(error):
        return ""
    return did_you_mean(error.name, (name for name in dir(error.obj) if not name.startswith("_")))


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def place_of(fn: Callable[..., Any]) -> Place | None:
    """Where a function is defined; None where that is not known.

    A callable that is not a Python function gives it in an attribute `place`.
    """
    code = getattr(fn, "__code__", None)
    if code is not None:
        return Place(code.co_filename, code.co_firstlineno)
    place = getattr(fn, "place", None)
    return place if isinstance(place, Place) else None


def results_of(fn: Callable[..., Any]) -> str:
    """The lines of a function that return a value, or else where it is defined, as text to append to a message."""
    place = place_of(fn)
    if place is None:
        return ""
    try:
        lines, first = inspect.getsourcelines(fn)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):  # not a Python function, or its file does not exist
        return f"\n  {place}"
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
    shown = [f"\n  {place.file}:{first + n.lineno - 1}\n    {lines[n.lineno - 1].strip()}" for n in returns]
    return "".join(shown) or f"\n  {place}"


@contextmanager
def noting_errors_of(what: str, fn: Callable[..., Any], schedule: Schedule, block: str) -> Iterator[None]:
    """Add a note to every exception of a `with` body: whose code raised it, at which line, for which block.

    The program is drawn as it was then, with the block marked, unless the error draws it itself.
    """
    try:
        yield
    except Exception as error:
        func = schedule.func
        where = f"in {what}, on block `{block}` of {schedule.program.key}"
        if any(note.partition("\n")[0] == where for note in getattr(error, "__notes__", ())):
            raise  # a rule that calls itself
        lines = [where, *_line(error, place_of(fn))]
        if isinstance(error, ScheduleError):
            # A loop that no longer exists cannot be marked; the block that the rule was given can.
            draw = error.draw_with if names(func) & set(error.locations) else error.redraw_with
            draw(lambda: print_func(func, (block,)))
        else:
            lines += ["", print_func(func, (block,))]
        error.add_note(RuleNote("\n".join(lines)))
        raise


@contextmanager
def noting_errors_in_file(path: str) -> Iterator[None]:
    """Add a note to every exception of a `with` body: the line of the file of rules where it was raised."""
    try:
        yield
    except Exception as error:
        error.add_note(RuleNote("\n".join([f"in the rules of {path}", *_line(error, Place(path, 1))])))
        raise


def _line(error: Exception, own: Place | None) -> list[str]:
    """The innermost line of the rule's own code in the exception's traceback, with the failing expression marked."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_ours(f.filename)]
    frame = next((f for f in reversed(frames) if own is not None and f.filename == own.file), None)
    frame = frame if frame is not None else next(reversed(frames), None)
    if frame is None:
        return [] if own is None else [f"  {own}"]
    out = [f"  {frame.filename}:{frame.lineno}"]
    source = linecache.getline(frame.filename, frame.lineno or 0).rstrip()
    if source:
        out += [f"    {source.lstrip()}", *_underline(source, frame)]
    return out


def _underline(source: str, frame: traceback.FrameSummary) -> list[str]:
    """Carets under the failing expression of a line; a frame's columns count bytes."""
    if frame.colno is None or frame.end_colno is None or frame.end_lineno != frame.lineno:
        return []
    first, last = (len(source.encode()[:n].decode(errors="replace")) for n in (frame.colno, frame.end_colno))
    indent = len(source) - len(source.lstrip())
    return [" " * (4 + first - indent) + "^" * (last - first)]


def _is_ours(filename: str) -> bool:
    path = Path(filename)
    return path.is_relative_to(_PACKAGE) and not path.is_relative_to(_RULES)
