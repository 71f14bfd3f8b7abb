"""The kernel a command is about."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from metasched.cli.arguments import UsageError, module_of
from metasched.cli.command import Console
from metasched.ir.program import Program
from metasched.permissions import Allow
from metasched.schedule.handlers import Policy
from metasched.schedule.trace import Trace
from metasched.target import Target

if TYPE_CHECKING:
    from metasched.api import Kernel
    from metasched.database.database_registry import DatabaseURLs
    from metasched.space.conditions import SpaceLike


TRACE_HELP = "a trace as text, JSON (.json) or Python (.py, which is not run); or op:NAME.VARIANT, of the library"


def add_repair(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--repair",
        action="store_true",
        help="mend what in --trace does not fit the program, such as a trace of another shape, and say what",
    )


def policy_of(args: Namespace) -> Policy:
    """The policy for decisions that do not fit. Raises UsageError for --repair without --trace."""
    if args.repair and not args.trace:
        raise UsageError("--repair mends a trace; say which with --trace FILE")
    return Policy.REPAIR if args.repair else Policy.STRICT


def note_warnings(warnings: tuple[str, ...], console: Console) -> None:
    """Print where the machine code falls short of the schedule."""
    for warning in warnings:
        console.note(f"warning: {warning}")


def space_in(args: Namespace, trace: Trace | None) -> SpaceLike:
    """The space given by --rules, --module or --trace (which is `trace`); None without any of them.

    Raises UsageError where several do.
    """
    given = [name for name in ("trace", "module", "rules") if getattr(args, name)]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} both say what to search", hint="give one of them")
    return trace if trace is not None else module_of(args) if args.module else args.rules


def kernel_of(
    program: Program,
    trace: Trace | None,
    db: DatabaseURLs | None,
    target: Target,
    policy: Policy = Policy.STRICT,
    allow: Allow = None,
) -> Kernel:
    """The kernel of a trace, or of the best one in a database; without either, the best guess.

    `policy` says what becomes of a trace of another shape, `allow` what results may differ by.

    Raises:
        MetaschedError: a trace that is wrong or of another program, no record that applies, a schedule that does
            not compile.
    """
    from metasched import api

    if trace is not None:
        return api.compile(program, trace=trace, target=target, allow=allow, policy=policy)
    if db is not None:
        return api.compile(program, db=db, target=target, allow=allow)
    return api.compile(program, target=target, allow=allow)
