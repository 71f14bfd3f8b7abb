"""`metasched completion`: the script by which a shell completes commands, options and files."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from metasched.cli.command import CommandParser, Console
from metasched.cli.fish_completion import fish_script
from metasched.errors import MetaschedError
from metasched.support.imports import imports

# Where each shell looks for it.
HOW = {
    "bash": 'eval "$(metasched completion bash)", in ~/.bashrc',
    "zsh": 'eval "$(metasched completion zsh)", in ~/.zshrc after compinit',
    "fish": "metasched completion fish | source, in ~/.config/fish/config.fish",
    "tcsh": "metasched completion tcsh > ~/.metasched.tcsh, and source it in ~/.tcshrc",
}


class NoCompletion(MetaschedError):
    """The package that writes such scripts is not installed."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(HOW), help="; ".join(f"{shell}: {how}" for shell, how in HOW.items()))


def run(args: Namespace, console: Console) -> int:
    """Print the script for a shell."""
    from metasched.cli.main import build_parser

    parser = build_parser()
    actions = list(_all_actions(parser))
    script = fish_script(parser, _takes_a_file) if args.shell == "fish" else _by_shtab(parser, actions, args.shell)
    console.print(script)
    return 0


def _by_shtab(parser: ArgumentParser, actions: Iterable[Action], shell: str) -> str:
    try:
        shtab = imports.module("shtab")
    except ImportError as error:
        raise NoCompletion(
            f"scripts for {shell} are made by shtab", hint="pip install 'metasched[completion]'"
        ) from error
    for action in actions:
        if _takes_a_file(action):
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # what shtab reads
    return str(shtab.complete(parser, shell=shell))


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
