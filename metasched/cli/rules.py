"""`metasched rules`: which rules are installed, what one of them does, and what one of yours gains."""

from __future__ import annotations

import inspect
import re
import textwrap
from argparse import ArgumentParser, Namespace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from metasched.cli import rules_try
from metasched.cli.arguments import UsageError, add_json
from metasched.cli.command import Console
from metasched.cli.render import table
from metasched.cli.rule_trial import find_rule
from metasched.errors import MetaschedError
from metasched.space.registry import GROUP, RULES, advice, rules_of
from metasched.space.rule import Combined, Rule
from metasched.support.registry import origin

# A rule, or the rules that a preset comes to.
Found = Rule | tuple[Rule, ...]


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="the installed rules and presets, and where each comes from")
    add_json(listing)
    show = actions.add_parser("show", help="what a rule does, its parameters, and its source")
    show.add_argument("name", metavar="RULE", help="the name of an installed rule or preset, or a rule of a file")
    add_json(show)
    summary = "what a rule does to a program's space, and what it gains when the program is tuned"
    trial = actions.add_parser("try", help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    rules_try.add_arguments(trial)
    parser.set_defaults(action="list", json=False)


def run(args: Namespace, console: Console) -> int:
    if args.action == "try":
        return rules_try.run(args, console)
    if args.action == "show":
        return _show(args, console)
    points = list(RULES.points().values())
    if args.json:
        for point in points:
            console.print_json(_json(point))
    elif points:
        rows = [["rule", "from", "what it does"]]
        rows += [[point.name, origin(point), _summary_of(point)] for point in points]
        console.print(table(rows))
    else:
        console.print(f"no rules are installed: no package has an entry point in the group `{GROUP}`")
    return 0


def _show(args: Namespace, console: Console) -> int:
    points = RULES.points()
    if args.name in points:
        point = points[args.name]
        target, where = _rules_named(point.name), f"{origin(point)}, {point.value}"
        data = _json(point)
    elif "." in args.name:
        target, where = find_rule(args.name)
        data = {"name": target.name, "from": where, "object": where, "summary": summary(target)}
    else:
        raise UsageError(f"no rule or preset `{args.name}` is installed", hint=advice(args.name))
    if args.json:
        console.print_json({**data, **details(target)})
    else:
        name = target.name if isinstance(target, Rule) else args.name
        console.print(f"{name}  ({where})\n\n{description(target)}")
    return 0


def _rules_named(name: str) -> Found:
    """The rule of an installed name, or the rules of a preset. Raises RuleError."""
    value = RULES.get(name)
    return value if isinstance(value, Rule) else rules_of(name, value)


def _summary_of(point: EntryPoint) -> str:
    """As `summary`; what cannot be loaded does not keep the others from being listed."""
    try:
        return summary(_rules_named(point.name))
    except MetaschedError as error:
        return f"! {str(error).splitlines()[0]}"


def summary(target: Found) -> str:
    """A rule's first sentence, or the rules of a preset in order."""
    if isinstance(target, Rule):
        return target.doc.split("\n\n", maxsplit=1)[0].replace("\n", " ")
    return "preset: " + ", ".join(item.name for item in target)


def description(target: Found) -> str:
    """A rule's documentation, parameters and source; a preset's rules, a line each."""
    if not isinstance(target, Rule):
        return table([[item.name, summary(item)] for item in target])
    parts = [target.doc]
    if target.parameters:
        meanings = parameter_meanings(target)
        rows = [[f"    {name}={value!r}", meanings.get(name, "")] for name, value in target.parameters.items()]
        parts.append("Parameters, with their defaults:\n" + table(rows))
    place = target.place
    if place is not None:
        parts.append(f"Source: {place}\n\n{source(target)}".rstrip())
    return "\n\n".join(parts)


def details(target: Found) -> dict[str, object]:
    """What `show --json` has beside the summary."""
    if not isinstance(target, Rule):
        return {}
    return {
        "doc": target.doc,
        "parameters": {name: repr(value) for name, value in target.parameters.items()},
        "meanings": parameter_meanings(target),
        "source": None if target.place is None else str(target.place),
    }


def parameter_meanings(rule: Rule) -> dict[str, str]:
    """What the documentation's `Args:` section says of each parameter, else the sentence that mentions it."""
    out: dict[str, str] = {}
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)*)", rule.doc, re.MULTILINE)
    if section is not None:
        for entry in re.finditer(r"^(\w+): (.*(?:\n[ \t]+.*)*)", textwrap.dedent(section[1]), re.MULTILINE):
            out[entry[1]] = " ".join(entry[2].split())
    sentences = re.split(r"(?<=[.;:])\s+", " ".join(rule.doc.split()))
    for name in rule.parameters:
        if name not in out:
            out[name] = next((s for s in sentences if f"`{name}`" in s), "")
    return {name: text for name, text in out.items() if text and name in rule.parameters}


def source(rule: Rule) -> str:
    """A rule's own text; '' where it is not there."""
    fn: Any = rule.fn
    if isinstance(fn, Combined) or rule.place is None:
        return ""
    text = getattr(rule, "module", None)
    if text is not None:
        return str(text).rstrip()
    try:
        return inspect.getsource(fn).rstrip()
    except (OSError, TypeError):
        return "" if not Path(rule.place.file).is_file() else Path(rule.place.file).read_text(encoding="utf-8")


def _json(point: EntryPoint) -> dict[str, object]:
    return {"name": point.name, "from": origin(point), "object": point.value, "summary": _summary_of(point)}
