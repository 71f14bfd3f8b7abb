"""A page for each command of the command line, from its own parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from metasched.cli.main import build_parser


def command_pages() -> dict[str, str]:
    """The text of the pages in Markdown, by the name of the command; "index" has the whole list."""
    (commands,) = _groups(build_parser())
    summaries = {action.dest: action.help or "" for action in commands._choices_actions}
    pages = {name: "".join(_page(f"metasched {name}", parser)) for name, parser in commands.choices.items()}
    rows = [f"| [`metasched {name}`]({name}.md) | {_prose(summaries[name])} |" for name in pages]
    listed = "\n".join(pages)
    pages["index"] = (
        "# The command line\n\nEvery command says the same by `--help`. `metasched --version` prints the version.\n\n"
        f"| command | what it is for |\n|---|---|\n{chr(10).join(rows)}\n\n"
        "A command exits with 0 where it succeeds, with 1 where the answer is no (a check that failed), and with 2 "
        f"where what it was given is wrong.\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )
    return pages


def _page(command: str, parser: argparse.ArgumentParser, depth: int = 1) -> Iterator[str]:
    """The parts of one command's page; actions of a command are sections of it."""
    _declare(parser)
    yield f"{'#' * depth} `{command}`\n\n{_prose(parser.description or '')}\n\n"
    parser.prog = command
    yield f"```text\n{parser.format_usage().removeprefix('usage: ').rstrip()}\n```\n\n"
    plain = [action for action in parser._actions if not isinstance(action, _Ignored) and action.help != _HIDDEN]
    if plain:
        rows = [f"| {_name(action)} | {_help(parser, action)} |" for action in plain]
        yield "| argument | |\n|---|---|\n" + "\n".join(rows) + "\n\n"
    for group in _groups(parser):
        for name, sub in group.choices.items():
            yield from _page(f"{command} {name}", sub, depth + 1)


_Ignored = (argparse._HelpAction, argparse._SubParsersAction)
_HIDDEN = argparse.SUPPRESS


def _declare(parser: argparse.ArgumentParser) -> None:
    """Have a command declare its arguments, which it does when it is first given some."""
    declare = getattr(parser, "declare", None)
    if declare is not None:
        declare()


def _groups(parser: argparse.ArgumentParser) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    return [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]


def _name(action: argparse.Action) -> str:
    """An argument as it is written: its options with what they take, or its place."""
    metavar = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    takes = "" if action.nargs == 0 else f" {metavar if isinstance(metavar, str) else ' '.join(metavar)}"
    if not action.option_strings:
        return f"`{takes.strip()}`"
    return ", ".join(f"`{option}{takes}`" for option in action.option_strings)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return _prose(text)


def _prose(text: str) -> str:
    """A help text as Markdown: whatever would be markup there is taken literally, code stays code."""
    parts = text.split("`")
    for at in range(0, len(parts), 2):
        for mark in "\\*_<[|":
            parts[at] = parts[at].replace(mark, f"\\{mark}")
    return " ".join("`".join(parts).split())
