"""A page of the rules that ship: their own documentation, where they fire, and what they write there."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from docs.building.firing import Firing, Firings, programs, shipped, shipped_rules
from metasched.ir import query
from metasched.lang import print_instruction
from metasched.lang.instructions import Instruction, TraceData
from metasched.schedule.trace import Trace
from metasched.space.registry import rules_of
from metasched.space.rule import Rule

_HEAD = """\
# Rules and presets

What `rules=` and `--rules` take by name, as `metasched rules show NAME` prints it. [Writing rules](../rules.md) says
how to make one, and what some of these gain.
"""
_TABLE = """\
## Where they fire

Found by running the preset on [the operators of the library](../operators.md), the pipelines of `examples/pipelines/`
and the layers of `examples/layers/`, some of them at several sizes and element types, for a CPU with AVX-512 and AMX,
where all is allowed; a rule that is in no preset comes last. A rule fires where it schedules a block, or offers to.
`metasched show op:NAME --space` says for any program which rules fire, and why others do not.

| rule | programs | |
|---|---|---|
"""
_EXAMPLES = """\
## Rules

Each with what it writes for the smallest of these programs. Handles that are not made there are of earlier rules.
"""
# The most lines of an example: whole where it can be, as a tensor intrinsic's tiles take many.
_MOST_LINES = 16


def rules_page(found: Firings) -> str:
    """The page in Markdown: presets first, where rules fire, and then every rule of metasched in the order of names."""
    rules = shipped_rules()
    presets = [_preset(name, value, rules.keys()) for name, value in shipped().items() if not isinstance(value, Rule)]
    everywhere = dict.fromkeys(tried.name for tried in programs())
    rows = [_row(name, [firing.on.name for firing in found[name]], everywhere) for name in rules]
    sections = [_rule(name, rule, found[name]) for name, rule in rules.items()]
    return "\n".join([_HEAD, "## Presets\n", *presets, _TABLE + "\n".join(rows) + "\n", _EXAMPLES, *sections])


def _preset(name: str, value: object, known: Collection[str]) -> str:
    """A preset as its rules in order; one that has no name of its own is configured in the preset."""
    rules = [f"[{rule.name}](#{rule.name})" if rule.name in known else rule.name for rule in rules_of(name, value)]
    return f"### `{name}`\n\n{', '.join(rules)}\n"


def _row(rule: str, fired: Collection[str], everywhere: Collection[str]) -> str:
    """Where a rule fires, or where it does not, if these are fewer."""
    others = [name for name in everywhere if name not in fired]
    listed = _names(fired) if len(fired) <= len(others) else f"all but {_names(others)}"
    return f"| [{rule}](#{rule}) | {len(fired)} | {listed} |"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _rule(name: str, rule: Rule, fired: Collection[Firing]) -> str:
    parameters = "".join(f", {key}={value!r}" for key, value in rule.parameters.items()).removeprefix(", ")
    doc = f"({name})=\n### `{name}({parameters})`\n\n```text\n{rule.doc.strip()}\n```\n"
    telling = [firing for firing in fired if firing.transforms]
    return doc + (example(min(telling, key=_size)) if telling else "")


def _size(firing: Firing) -> tuple[int, int]:
    """How much there is to read: statements of the program, and lines that the rule writes."""
    return len(query.blocks(firing.on.program.func)), len(_lines(firing))


def example(firing: Firing) -> str:
    """What a rule writes for a block, in Markdown; only the beginning, where that is long."""
    lines = [print_instruction(line) for line in _lines(firing)]
    left = len(lines) - _MOST_LINES
    if left > 0:
        lines = [*lines[:_MOST_LINES], f"# and {left} more"]
    shown = "\n".join(lines)
    return f"\nFor the block `{firing.block}` of `{firing.on.words}`:\n\n```text\n{shown}\n```\n"


def _lines(firing: Firing) -> tuple[Instruction, ...]:
    """The instructions of a firing, without queries whose results are unused."""
    program = firing.on.program
    return Trace(TraceData(program.name, program.params, firing.steps), program).simplified().instructions
