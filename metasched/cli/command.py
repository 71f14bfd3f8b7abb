"""What a command is, where it writes, and how its arguments are read."""

from __future__ import annotations

import importlib
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TextIO, cast

from metasched.support.data_classes import dataclass

INTERRUPTED = 130  # the exit status of what Ctrl-C ended


@dataclass(frozen=True)
class Console:
    """Results go to `out`, progress and notes to `err`."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    def print(self, text: str = "") -> None:
        print(text, file=self.out, flush=True)

    def note(self, text: str) -> None:
        print(text, file=self.err, flush=True)

    def print_json(self, data: Mapping[str, Any]) -> None:
        """One object on one line, written at once, so that a reader of the pipe sees it now."""
        print(json.dumps(data, allow_nan=False), file=self.out, flush=True)


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
