"""The kernel a command is about."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from metasched import operators
from metasched.backend.target import Target
from metasched.cli.arguments import OPERATOR, UsageError, module_of
from metasched.cli.command import Console
from metasched.lang import parse_trace, read_source
from metasched.schedule.handlers import Policy
from metasched.schedule.trace import Trace

if TYPE_CHECKING:
    from metasched.api import Kernel, Program
    from metasched.space.conditions import SpaceLike


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
    """The trace of a file, as text or (named `.json`) as JSON; or `op:OPERATOR.VARIANT`, of the library.

    Raises LanguageError, MetaschedError for a name that the library lacks, OSError.
    """
    if path.startswith(OPERATOR):
        return operators.expert(path.removeprefix(OPERATOR)).trace
    text = read_source(path)
    return Trace.from_json(text) if path.endswith(".json") else Trace(parse_trace(text, path))


def space_in(args: Namespace) -> SpaceLike:
    """What --rules, --module or --trace says to search; None without. Raises UsageError where several do."""
    given = [name for name in ("trace", "module", "rules") if getattr(args, name)]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} both say what to search; give one of them")
    return trace_in(args.trace) if args.trace else module_of(args) if args.module else args.rules


def kernel_of(
    program: Program, trace_file: str | None, db: str | None, target: Target, policy: Policy = Policy.STRICT
) -> Kernel:
    """The kernel of a trace in a file, or of the best one in a database; without either, the best guess.

    `policy` says what becomes of a trace of another shape.

    Raises:
        MetaschedError: a trace that is wrong or of another program, no record that applies, a schedule that does
            not compile.
        OSError: when the file cannot be read.
    """
    from metasched import api

    if trace_file is not None:
        return api.compile(program, trace=trace_in(trace_file), target=target, policy=policy)
    if db is not None:
        return api.compile(program, db=db, target=target)
    return api.compile(program, target=target)
