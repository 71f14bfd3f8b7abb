"""What a command is, where it writes, and how its arguments are read."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from types import FrameType
from typing import Any, Protocol, TextIO, cast

from metasched.errors import MetaschedError
from metasched.support.data_classes import dataclass

INTERRUPTED = 130  # the exit status of what Ctrl-C ended
TERMINATED = 143  # and of what SIGTERM ended


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it ends a command as Ctrl-C does."""


class OutputError(MetaschedError):
    """Standard output that cannot be written."""


@dataclass
class Ending:
    """How what was interrupted has ended, as an exit status."""

    status: int = INTERRUPTED


@contextmanager
def ending_by_signal() -> Iterator[Ending]:
    """Have SIGTERM do what Ctrl-C does inside, so that what was measured is kept and told. Only in the main thread,
    which alone gets signals.
    """
    ending = Ending()
    if threading.current_thread() is not threading.main_thread():
        yield ending
        return

    def end(_: int, frame: FrameType | None) -> None:
        ending.status = TERMINATED
        # What puts Ctrl-C off puts this off, too; a shell starts what runs in the background without Ctrl-C.
        act = signal.getsignal(signal.SIGINT)
        (act if callable(act) else signal.default_int_handler)(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield ending
    except KeyboardInterrupt:
        if ending.status == TERMINATED:
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def ending_at_once(console: Console) -> Iterator[None]:
    """Have Ctrl-C end the process inside, where nothing is lost by it.

    Where modules are imported an exception comes out as what they make of it: as an ImportError, and lines in between,
    from NumPy's.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def end(_: int, __: FrameType | None) -> None:
        console.note("interrupted")
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Console:
    """Results go to `out`, progress and notes to `err`."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    def print(self, text: str = "") -> None:
        """A line of the results. Raises OutputError where it cannot be written, but for a pipe whose reader is gone."""
        try:
            print(text, file=self.out, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"standard output cannot be written: {error.strerror}") from error

    def note(self, text: str) -> None:
        print(text, file=self.err, flush=True)

    def print_json(self, data: Mapping[str, Any]) -> None:
        """One object on one line, written at once, so that a reader of the pipe sees it now."""
        self.print(json.dumps(data, allow_nan=False))


class Implementation(Protocol):
    """The module of a command. `run` returns the exit status."""

    @staticmethod
    def add_arguments(parser: ArgumentParser) -> None: ...
    @staticmethod
    def run(args: Namespace, console: Console) -> int: ...


@dataclass(frozen=True)
class Command:
    """A subcommand: the name and summary of a module beside this one, which is imported when the command is given."""

    name: str
    summary: str

    def load(self) -> Implementation:
        return cast(Implementation, importlib.import_module(f"metasched.cli.{self.name}"))


class CommandParser(ArgumentParser):
    """Reads the arguments of a command. The command declares them when there are some to read."""

    def __init__(self, *args: Any, command: Command | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unasked = command

    def parse_known_args(  # type: ignore[override]  # the overloads are those of the base
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        self.declare()
        return super().parse_known_args(args, namespace)

    def declare(self) -> None:
        """Have the command declare its arguments, unless it has."""
        command, self._unasked = self._unasked, None
        if command is not None:
            implementation = command.load()
            implementation.add_arguments(self)
            self.set_defaults(run=implementation.run)
