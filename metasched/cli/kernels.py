"""The kernel a command is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metasched.backend.target import Target
from metasched.lang import read_source

if TYPE_CHECKING:
    from metasched.api import Kernel, Program


def kernel_of(program: Program, trace_file: str | None, db: str | None, target: Target) -> Kernel:
    """The kernel of a trace in a file, or of the best one in a database; without either, the best guess.

    Raises:
        MetaschedError: a trace that is wrong or of another program, no record that applies, a schedule that does
            not compile.
        OSError: when the file cannot be read.
    """
    from metasched import api

    if trace_file is not None:
        return api.compile(program, trace=api.parse_trace(read_source(trace_file)), target=target)
    if db is not None:
        return api.compile(program, db=db, target=target)
    return api.compile(program, target=target)
