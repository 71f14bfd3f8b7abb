"""Traces in files: as text, JSON or Python, by how a file's name ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from metasched.ir.program import Program
from metasched.lang import parse_trace, read_source
from metasched.lang.instructions import TraceData
from metasched.lang.trace_json import trace_from_json
from metasched.schedule.trace import Trace
from metasched.schedule.trace_python_reader import trace_from_python
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class TraceForm:
    """A file format for traces; the reader takes the text and a file name for messages."""

    read: Callable[[str, str], TraceData]
    write: Callable[[Trace, Program], str]


_TEXT = TraceForm(parse_trace, lambda trace, program: str(trace))
_FORMS: Mapping[str, TraceForm] = {
    ".json": TraceForm(trace_from_json, lambda trace, program: trace.as_json()),
    ".py": TraceForm(trace_from_python, lambda trace, program: trace.as_python(program)),
}


def form_of(path: str | Path) -> TraceForm:
    """JSON or Python where the file's name ends so, else text."""
    return _FORMS.get(Path(path).suffix, _TEXT)


def load_trace(path: str | Path) -> Trace:
    """The trace of a file. Python is read as data and never run.

    Raises:
        LanguageError: when the text is wrong.
        OSError: when the file cannot be read.
    """
    return Trace(form_of(path).read(read_source(path), str(path)))
