"""The command line's entry point: finds the command, runs it, and turns errors into messages and a status."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TextIO

from metasched import __version__
from metasched.cli.command import (
    INTERRUPTED,
    TERMINATED,
    Command,
    CommandParser,
    Console,
    OutputError,
    Terminated,
    ending_at_once,
)
from metasched.errors import MetaschedError
from metasched.settings import LOG, log_level

COMMANDS = (
    Command("tune", "Find the fast schedule of a program on this machine."),
    Command("replay", "Replay a schedule; check its results, time it."),
    Command("show", "A program, its space, a schedule, or the code."),
    Command("report", "Why a search came to what it did: text, JSON, or one HTML file with pictures."),
    Command("rules", "The rules that are installed, and what one of yours gains."),
    Command("net", "Whole networks: show, tune, run, profile and export an ONNX model."),
    Command("doctor", "What this machine is like for timing kernels, and what to change."),
    Command("calibrate", "Have this machine measure itself, for the estimates of guesses and searches."),
    Command("model", "Train cost models on what was measured, show them, and say how well they rank."),
    Command("worker", "Have this machine build and time candidates for a cluster."),
    Command("db", "What a database of measurements holds; export, import, merge, prune."),
    Command("completion", "What a shell needs to complete these commands."),
)

# Exit statuses: 0 success; 1 the answer is no (a check that failed); 2 wrong input; 128 + n as if by signal n, also
# where a search that Ctrl-C ended has a result.
WRONG_INPUT = 2
CLOSED_PIPE = 141

# Errors over a file that are not about the file: a hint helps more than its name.
_OF_A_LIMIT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM})


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="metasched", description="Search spaces of tensor programs, and the fast one on this CPU."
    )
    parser.add_argument("--version", action="version", version=f"metasched {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=CommandParser)
    for command in COMMANDS:
        subparsers.add_parser(command.name, help=command.summary, description=command.summary, command=command)
    return parser


def main(argv: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Run the command line; returns the exit status. Only errors that are bugs leave as exceptions."""
    open_standard_streams()
    console = console or Console()
    try:
        with ending_at_once(console):
            args = build_parser().parse_args(argv)
        return _run_command(args, console)
    except BrokenPipeError:
        # The reader of the output has closed it (`| head`).
        _write_no_more()
        return CLOSED_PIPE
    except KeyboardInterrupt as error:
        is_terminated = isinstance(error, Terminated)
        console.note("terminated" if is_terminated else "interrupted")
        return TERMINATED if is_terminated else INTERRUPTED


def _run_command(args: argparse.Namespace, console: Console) -> int:
    try:
        _print_log(console, log_level(os.environ.get(LOG.name)))
        with warnings.catch_warnings():
            warnings.showwarning = partial(_note_warning, console)
            status: int = args.run(args, console)
    except BrokenPipeError:
        raise
    except Exception as error:
        if isinstance(error, OutputError):
            _write_no_more()
        message = _message(error, args)
        if not message:
            raise
        console.note(f"metasched {args.command}: {message}")
        return WRONG_INPUT
    return status


def _write_no_more() -> None:
    """Have standard output go nowhere: Python flushes what is left of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_log(console: Console, level: int) -> None:
    """Print what the package logs from a level on, beside the notes."""
    logger = logging.getLogger("metasched")
    handler = logging.StreamHandler(console.err)
    handler.setFormatter(logging.Formatter("%(relativeCreated)6.0f ms %(levelname)s %(name)s: %(message)s"))
    logger.handlers[:] = [handler]
    logger.setLevel(level)


def _note_warning(console: Console, message: Warning | str, *_: object) -> None:
    """A warning as a line, without the place in the code that it comes from."""
    console.note(f"warning: {message}")


def _message(error: Exception, args: argparse.Namespace) -> str:
    """The message for an error of metasched's own, of the operating system, or of a rule; '' for a bug."""
    from metasched.measure.records import CheckError
    from metasched.measure.workers.resources import as_resource_error
    from metasched.space.rule_errors import describe_error, is_of_a_rule

    if isinstance(error, CheckError):
        return str(error.with_way("--input NAME=LOW,HIGH")) if "inputs" in args else error.said
    if isinstance(error, MetaschedError):
        return describe_error(error)
    of_a_file = isinstance(error, OSError) and error.filename is not None
    if isinstance(error, OSError) and of_a_file and error.errno not in _OF_A_LIMIT:
        return f"{error.filename}: {error.strerror}"
    lack = as_resource_error(error, "this command")
    if lack is not None:
        return str(lack)
    return describe_error(error) if is_of_a_rule(error) else ""


def open_standard_streams() -> None:
    """Have the three standard files, if only as the null device, where whoever started us closed them.

    A pipe to a worker would take their numbers otherwise, and a message have nowhere to go.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free, which is this one
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    return Path(os.devnull).open(mode, encoding="utf-8")
