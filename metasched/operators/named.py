"""Programs and traces by what commands call them: a file, or `op:NAME` of the library."""

from __future__ import annotations

from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.lang import load_program
from metasched.operators.experts import expert
from metasched.operators.library import load
from metasched.schedule.trace import Trace
from metasched.schedule.trace_files import load_trace

LIBRARY = "op:"  # what a name of the library begins with, where a file could stand


def program_named(name: str, /, **params: Setting) -> Program:
    """The program of `FILE.ms[::NAME]`, or of `op:NAME`, an operator of the library.

    Raises:
        LanguageError: when the text is wrong, or a parameter unknown.
        MetaschedError: for no name of the library.
        OSError: when the file cannot be read.
    """
    return load(name.removeprefix(LIBRARY), **params) if name.startswith(LIBRARY) else load_program(name, **params)


def trace_named(name: str) -> Trace:
    """The trace of a file, in the form that its name ends in; or `op:OPERATOR.VARIANT`, of the library.

    Raises:
        LanguageError: when the text is wrong.
        MetaschedError: for no name of the library.
        OSError: when the file cannot be read.
    """
    return expert(name.removeprefix(LIBRARY)).trace if name.startswith(LIBRARY) else load_trace(name)
