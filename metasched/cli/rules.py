"""`metasched rules`: which rules are installed, and what one of them does."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from metasched.cli.arguments import UsageError, add_json
from metasched.cli.command import Command, Console
from metasched.cli.render import table

GROUP = "metasched.rules"


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="the installed rules and presets, and where each comes from")
    add_json(listing)
    show = actions.add_parser("show", help="what a rule does, its settings, and its source")
    show.add_argument("name", metavar="NAME")
    add_json(show)
    parser.set_defaults(action="list", json=False)


def run(args: Namespace, console: Console) -> int:
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
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
    console.print(inspect.getdoc(target) or "It has no documentation.")
    source = definition(target)
    if source:
        console.print(f"\n{source}")
    return 0


def summary(target: object) -> str:
    """The first sentence of an object's documentation."""
    text = inspect.getdoc(target) or ""
    return text.split("\n\n", maxsplit=1)[0].replace("\n", " ")


def definition(target: object) -> str:
    """An object's source; '' for one that is not a function or a class."""
    target = inspect.unwrap(target) if callable(target) else target
    if not (inspect.isfunction(target) or inspect.isclass(target)):
        return ""
    try:
        return inspect.getsource(target).rstrip()
    except OSError:  # its file is gone, or it was typed into a prompt
        return ""


def _origin(point: EntryPoint) -> str:
    return "unknown" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _json(point: EntryPoint) -> dict[str, object]:
    return {"name": point.name, "from": _origin(point), "object": point.value, "summary": summary(point.load())}


COMMAND = Command("rules", "The rules that are installed.", add_arguments, run)
