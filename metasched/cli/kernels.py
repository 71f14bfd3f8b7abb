"""The kernel a command is about."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from metasched import operators
from metasched.cli.arguments import OPERATOR, UsageError, module_of
from metasched.cli.command import Console
from metasched.ir.program import Program
from metasched.lang import parse_trace, read_source
from metasched.lang.instructions import TraceData
from metasched.lang.trace_json import trace_from_json
from metasched.schedule.handlers import Policy
from metasched.schedule.trace import Trace
from metasched.schedule.trace_python_reader import trace_from_python
from metasched.target import Target

if TYPE_CHECKING:
    from metasched.api import Kernel
    from metasched.space.conditions import SpaceLike


TRACE_HELP = "a trace as text, JSON (.json) or Python (.py, which is not run); or op:NAME.VARIANT, of the library"


def add_repair(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--repair",
        action="store_true",
        help="mend what in --trace does not fit the program, such as a trace of another shape, and say what",
    )


def policy_of(args: Namespace) -> Policy:
    """What becomes of decisions that do not fit. Raises UsageError for --repair without --trace."""
    if args.repair and not args.trace:
        raise UsageError("--repair mends a trace; say which with --trace FILE")
    return Policy.REPAIR if args.repair else Policy.STRICT


def note_warnings(warnings: tuple[str, ...], console: Console) -> None:
    """Say what the machine could not do as the schedule would have it."""
    for warning in warnings:
        console.note(f"warning: {warning}")


def trace_in(path: str) -> Trace:
    """The trace of a file, in the form that its name ends in (`FORMS`); or `op:OPERATOR.VARIANT`, of the library.

    Python is read as data and never run. Raises LanguageError, OSError, and MetaschedError for no name of the library.
    """
    if path.startswith(OPERATOR):
        return operators.expert(path.removeprefix(OPERATOR)).trace
    return Trace(form_of(path).read(read_source(path), path))


@dataclass(frozen=True)
class Form:
    """A way to write a trace down: reading takes the text and what to call it in a message."""

    read: Callable[[str, str], TraceData]
    write: Callable[[Trace, Program], str]


_TEXT = Form(parse_trace, lambda trace, program: str(trace))
FORMS: Mapping[str, Form] = {
    ".json": Form(trace_from_json, lambda trace, program: trace.as_json()),
    ".py": Form(trace_from_python, lambda trace, program: trace.as_python(program)),
}


def form_of(path: str) -> Form:
    """JSON or Python where the file's name ends so, else text."""
    return FORMS.get(Path(path).suffix, _TEXT)


def space_in(args: Namespace, trace: Trace | None) -> SpaceLike:
    """What --rules, --module or --trace (which is `trace`) says to search; None without.

    Raises UsageError where several do.
    """
    given = [name for name in ("trace", "module", "rules") if getattr(args, name)]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} both say what to search; give one of them")
    return trace if trace is not None else module_of(args) if args.module else args.rules


def kernel_of(
    program: Program, trace: Trace | None, db: str | None, target: Target, policy: Policy = Policy.STRICT
) -> Kernel:
    """The kernel of a trace, or of the best one in a database; without either, the best guess.

    `policy` says what becomes of a trace of another shape.

    Raises:
        MetaschedError: a trace that is wrong or of another program, no record that applies, a schedule that does
            not compile.
    """
    from metasched import api

    if trace is not None:
        return api.compile(program, trace=trace, target=target, policy=policy)
    if db is not None:
        return api.compile(program, db=db, target=target)
    return api.compile(program, target=target)
