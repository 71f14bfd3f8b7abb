"""The command line's entry point: finds the command, runs it, and turns errors into messages and a status."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TextIO

from metasched.cli import db, replay, rules, show, tune
from metasched.cli.command import Command, Console
from metasched.errors import MetaschedError
from metasched.measure.resources import as_resource_error
from metasched.space.blame import described, is_of_a_rule

COMMANDS: tuple[Command, ...] = (tune.COMMAND, replay.COMMAND, show.COMMAND, rules.COMMAND, db.COMMAND)

# Exit statuses: 0 success; 1 the answer is no (a check that failed); 2 wrong input; 128 + n as if by signal n.
WRONG_INPUT = 2
CLOSED_PIPE = 141
INTERRUPTED = 130

# Errors over a file that are not about the file: a hint helps more than its name.
_OF_A_LIMIT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM})


def build_parser(commands: Sequence[Command] = COMMANDS) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="metasched", description="Search spaces of tensor programs, and the fast one on this CPU."
    )
    parser.add_argument("--version", action="version", version=f"metasched {_version()}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in commands:
        sub = subparsers.add_parser(command.name, help=command.summary, description=command.summary)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Run the command line; returns the exit status. Only errors that are bugs leave as exceptions."""
    open_standard_streams()
    console = console or Console()
    args = build_parser().parse_args(argv)
    try:
        status: int = args.run(args, console)
    except MetaschedError as error:
        console.note(f"metasched {args.command}: {described(error)}")
        return WRONG_INPUT
    except BrokenPipeError:
        # Whoever read the output has seen enough (`| head`). Python must not flush into the pipe at exit again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except KeyboardInterrupt:
        console.note("interrupted")
        return INTERRUPTED
    except Exception as error:
        told = _of_the_system(error) or (described(error) if is_of_a_rule(error) else "")
        if not told:
            raise
        console.note(f"metasched {args.command}: {told}")
        return WRONG_INPUT
    return status


def _of_the_system(error: Exception) -> str:
    """What to say of an error that the operating system raised over a file or a limit; '' for any other."""
    of_a_file = isinstance(error, OSError) and error.filename is not None
    if isinstance(error, OSError) and of_a_file and error.errno not in _OF_A_LIMIT:
        return f"{error.filename}: {error.strerror}"
    lack = as_resource_error(error, "this command")
    return "" if lack is None else str(lack)


def open_standard_streams() -> None:
    """Have the three standard files, if only as the null device, where whoever started us closed them.

    A pipe to a worker would take their numbers otherwise, and a message have nowhere to go.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free, which is this one
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _version() -> str:
    try:
        return version("metasched")
    except PackageNotFoundError:
        return "(not installed)"
