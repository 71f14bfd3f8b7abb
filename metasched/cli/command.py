"""What a command is, and where it writes."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO


@dataclass(frozen=True)
class Console:
    """Results go to `out`, what is only of interest while waiting goes to `err`."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    def print(self, text: str = "") -> None:
        print(text, file=self.out, flush=True)

    def note(self, text: str) -> None:
        print(text, file=self.err, flush=True)

    def print_json(self, data: Mapping[str, Any]) -> None:
        """One object on one line, written at once, so that a reader of the pipe sees it now."""
        print(json.dumps(data, allow_nan=False), file=self.out, flush=True)


@dataclass(frozen=True)
class Command:
    """A subcommand. `run` returns the exit status."""

    name: str
    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, Console], int]
