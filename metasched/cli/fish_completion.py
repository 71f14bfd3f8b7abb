"""The script by which the shell fish completes commands, options and files."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# Whether the words so far begin with the name of a command, and end there where nothing but its name is wanted.
_POSITION_TEST = """\
function __metasched_in
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test (count $words) -ge $last; or return 1
    test $last -eq 1; or test "$words[2..$last]" = "$argv"
end
function __metasched_after
    test (count (commandline -opc)) -eq (math 1 + (count $argv)); and __metasched_in $argv
end
"""


def fish_script(parser: ArgumentParser, takes_a_file: Callable[[Action], bool]) -> str:
    """The script for a parser of `metasched` and its subcommands, whose arguments are declared."""
    return _POSITION_TEST + "\n".join(["complete -c metasched -f", *_lines(parser, (), takes_a_file)])


def _lines(parser: ArgumentParser, command: Sequence[str], takes_a_file: Callable[[Action], bool]) -> Iterator[str]:
    """A line for each subcommand, option and file of a command, and those of its subcommands."""
    inside = _quote(" ".join(["__metasched_in", *command]))
    after = _quote(" ".join(["__metasched_after", *command]))
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to list them
        if action.help is SUPPRESS:
            continue
        subparsers: Mapping[str, Any] = action.choices if isinstance(action.choices, dict) else {}
        for name, each in subparsers.items():
            yield f"complete -c metasched -n {after} -a {name} -d {_quote(_sentence(each.description))}"
            yield from _lines(each, [*command, name], takes_a_file)
        if action.option_strings:
            said = parser._get_formatter()._expand_help(action) if action.help else ""  # noqa: SLF001
            yield f"complete -c metasched -n {inside} {_option(action, takes_a_file)} -d {_quote(_sentence(said))}"
        elif not subparsers and action.choices is not None:
            yield f"complete -c metasched -n {after} -a {_quote(' '.join(map(str, action.choices)))}"
        elif not subparsers and takes_a_file(action):
            yield f"complete -c metasched -n {inside} -F"


def _option(action: Action, takes_a_file: Callable[[Action], bool]) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings]
    if takes_a_file(action):
        names.append("-r -F")
    elif action.choices is not None:
        names.append(f"-x -a {_quote(' '.join(map(str, action.choices)))}")
    elif action.nargs != 0:
        names.append("-x")
    return " ".join(names)


def _sentence(text: str | None) -> str:
    """The beginning of a help text, as far as a line has room for it."""
    return (text or "").split(";")[0].split(". ")[0].replace("\n", " ")


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
