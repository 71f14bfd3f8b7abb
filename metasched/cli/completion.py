"""`metasched completion`: the script by which a shell completes commands, options and files."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from metasched.cli.command import CommandParser, Console
from metasched.errors import MetaschedError
from metasched.support.imports import imports

# Where each shell looks for it.
HOW = {
    "bash": 'eval "$(metasched completion bash)", in ~/.bashrc',
    "zsh": 'eval "$(metasched completion zsh)", in ~/.zshrc after compinit',
    "tcsh": "metasched completion tcsh > ~/.metasched.tcsh, and source it in ~/.tcshrc",
}


class NoCompletion(MetaschedError):
    """The package that writes such scripts is not installed."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(HOW), help="; ".join(f"{shell}: {how}" for shell, how in HOW.items()))


def run(args: Namespace, console: Console) -> int:
    """Print the script for a shell."""
    from metasched.cli.main import build_parser

    try:
        shtab = imports.module("shtab")
    except ImportError as error:
        raise NoCompletion(
            "scripts for shells are made by shtab\n  hint: pip install 'metasched[completion]'"
        ) from error
    parser = build_parser()
    for action in _all_actions(parser):
        if _takes_a_file(action):
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # what shtab reads
    console.print(shtab.complete(parser, shell=args.shell))
    return 0


def _all_actions(parser: ArgumentParser) -> Iterator[Action]:
    """The arguments of a parser and of its subcommands, each declared."""
    if isinstance(parser, CommandParser):
        parser.declare()
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to list them
        yield action
        for each in _subparsers(action).values():
            yield from _all_actions(each)


def _subparsers(action: Action) -> Mapping[str, Any]:
    """The parsers of subcommands, by name; none for an argument that has no subcommands."""
    choices = action.choices
    return choices if isinstance(choices, dict) else {}


def _takes_a_file(action: Action) -> bool:
    named = action.metavar if isinstance(action.metavar, str) else ""
    return action.help is not SUPPRESS and any(part in named for part in ("FILE", "MODEL", "DIR"))
