"""Traces in files: as text, JSON or Python, by how a file's name ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from metasched.errors import Diagnostic, LanguageError
from metasched.ir.program import Program
from metasched.lang import parse_trace, read_source
from metasched.lang.instructions import TraceData
from metasched.lang.trace_json import trace_from_json
from metasched.schedule.trace import Trace
from metasched.schedule.trace_python_reader import trace_from_python
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class TraceForm:
    """A file format for traces; the reader takes the text and a file name for messages.

    `sign` is found in texts of this format, and in none of another.
    """

    name: str
    read: Callable[[str, str], TraceData]
    write: Callable[[Trace, Program], str]
    sign: re.Pattern[str]


_TEXT = TraceForm("text", parse_trace, lambda trace, program: str(trace), re.compile(r"^trace \d+ of ", re.MULTILINE))
_FORMS: Mapping[str, TraceForm] = {
    ".json": TraceForm("JSON", trace_from_json, lambda trace, program: trace.as_json(), re.compile(r"\A\s*\{")),
    ".py": TraceForm(
        "Python",
        trace_from_python,
        lambda trace, program: trace.as_python(program),
        re.compile(r"^def \w+\(", re.MULTILINE),
    ),
}
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)


def form_of(path: str | Path) -> TraceForm:
    """JSON or Python where the file's name ends so, else text."""
    return _FORMS.get(Path(path).suffix, _TEXT)


def load_trace(path: str | Path) -> Trace:
    """The trace of a file. Python is read as data and never run.

    Raises:
        LanguageError: when the text is wrong.
        OSError: when the file cannot be read.
    """
    form, text = form_of(path), read_source(path)
    try:
        return Trace(form.read(text, str(path)))
    except LanguageError:
        reason = _reason(form, text, Path(path))
        if reason is None:
            raise
        raise LanguageError((reason,), text, str(path)) from None


def _reason(form: TraceForm, text: str, path: Path) -> Diagnostic | None:
    """What is wrong with a file as a whole, whose text is then wrong in some line; None where that is all."""
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        message = "this is a mark of a merge conflict; one file has one trace"
        return Diagnostic(_line(text, conflict), 1, message, "keep one of the two sides, and remove the marks")
    for suffix, other in (*_FORMS.items(), (".trace", _TEXT)):
        if other is not form and other.sign.search(text) and not form.sign.search(text):
            message = f"this is a trace as {other.name}, and `{path.name}` is read as {form.name}, as it is named"
            return Diagnostic(1, 1, message, f"name it `{path.stem}{suffix}`")
    begun = list(_TEXT.sign.finditer(text)) if form is _TEXT else []
    if len(begun) > 1:
        message = "a second trace begins here; one file has one trace"
        return Diagnostic(_line(text, begun[1]), 1, message, "put each in a file of its own")
    return None


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1
