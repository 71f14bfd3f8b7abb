"""A page of the rules that ship, from their own documentation."""

from __future__ import annotations

from collections.abc import Collection

from metasched.space.registry import RULES, rules_of
from metasched.space.rule import Rule
from metasched.support.registry import origin

_HEAD = """\
# Rules and presets

What `rules=` and `--rules` take by name, as `metasched rules show NAME` prints it. [Writing rules](../rules.md) says
how to make one.
"""


def rules_page() -> str:
    """The page in Markdown: presets first, then every rule of metasched in the order of names."""
    ours = {name: RULES.get(name) for name, point in RULES.points().items() if origin(point).startswith("metasched ")}
    presets = [_preset(name, value, ours.keys()) for name, value in ours.items() if not isinstance(value, Rule)]
    rules = [_rule(name, value) for name, value in ours.items() if isinstance(value, Rule)]
    return "\n".join([_HEAD, "## Presets\n", *presets, "## Rules\n", *rules])


def _preset(name: str, value: object, known: Collection[str]) -> str:
    """A preset as its rules in order; one that has no name of its own is configured in the preset."""
    rules = [f"[{rule.name}](#{rule.name})" if rule.name in known else rule.name for rule in rules_of(name, value)]
    return f"### `{name}`\n\n{', '.join(rules)}\n"


def _rule(name: str, rule: Rule) -> str:
    parameters = "".join(f", {key}={value!r}" for key, value in rule.parameters.items()).removeprefix(", ")
    return f"({name})=\n### `{name}({parameters})`\n\n```text\n{rule.doc.strip()}\n```\n"
