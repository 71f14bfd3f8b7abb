"""`metasched rules`: which rules are installed, and what one of them does."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from importlib.metadata import EntryPoint

from metasched.cli.arguments import UsageError, add_json
from metasched.cli.command import Command, Console
from metasched.cli.render import table
from metasched.space.registry import GROUP, installed
from metasched.space.rule import Rule


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="the installed rules and presets, and where each comes from")
    add_json(listing)
    show = actions.add_parser("show", help="what a rule does, its settings, and its source")
    show.add_argument("name", metavar="NAME")
    add_json(show)
    parser.set_defaults(action="list", json=False)


def run(args: Namespace, console: Console) -> int:
    points = [point for _, point in sorted(installed().items())]
    if args.action == "show":
        return _show(args, console, points)
    if args.json:
        for point in points:
            console.print_json(_json(point))
    elif points:
        rows = [["rule", "from", "what it does"]]
        rows += [[point.name, _origin(point), summary(point.load())] for point in points]
        console.print(table(rows))
    else:
        console.print(f"no rules are installed: no package has an entry point in the group `{GROUP}`")
    return 0


def _show(args: Namespace, console: Console, points: Iterable[EntryPoint]) -> int:
    known = {point.name: point for point in points}
    if args.name not in known:
        raise UsageError(f"no rule `{args.name}` is installed; there are: {', '.join(known) or 'none'}")
    point = known[args.name]
    if args.json:
        console.print_json(_json(point))
        return 0
    target = point.load()
    console.print(f"{point.name}  ({_origin(point)}, {point.value})\n")
    console.print(description(target))
    return 0


def summary(target: object) -> str:
    """A rule's first sentence, or the rules of a preset in order."""
    if isinstance(target, Rule):
        return target.doc.split("\n\n", maxsplit=1)[0].replace("\n", " ")
    if isinstance(target, tuple | list):
        return "preset: " + ", ".join(item.name for item in target if isinstance(item, Rule))
    return "not a rule"


def description(target: object) -> str:
    """A rule's documentation, settings and source; a preset's rules, a line each."""
    if isinstance(target, tuple | list):
        return table([[item.name, summary(item)] for item in target if isinstance(item, Rule)])
    if not isinstance(target, Rule):
        return "not a rule"
    parts = [target.doc]
    if target.parameters:
        parts.append("Settings:\n" + "\n".join(f"    {name}={value!r}" for name, value in target.parameters.items()))
    try:
        parts.append(inspect.getsource(target.fn).rstrip())
    except OSError:
        parts.append("(its source is not there)")
    return "\n\n".join(parts)


def _origin(point: EntryPoint) -> str:
    return "unknown" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _json(point: EntryPoint) -> dict[str, object]:
    return {"name": point.name, "from": _origin(point), "object": point.value, "summary": summary(point.load())}


COMMAND = Command("rules", "The rules that are installed.", add_arguments, run)
