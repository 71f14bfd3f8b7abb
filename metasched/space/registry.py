"""Finding rules and presets: those installed under the entry-point group `metasched.rules`, and those in a file.

A preset is a list of rules with a name. A list may hold rules, specifications such as "cpu,-inline", presets, and
lists of these: `[vnni, "cpu"]` is `cpu` with one more rule before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from metasched.space.rule import Rule, RuleError
from metasched.space.rule_files import is_text, load_file, load_text
from metasched.space.text.modules import TextModule
from metasched.space.text.rules import require_rule
from metasched.support.messages import listing
from metasched.support.registry import Registry, UnfitError

GROUP = "metasched.rules"
DEFAULT_PRESET = "cpu"

_AT_BLOCKS = re.compile(r"(.+)@([\w.*?\[\]!|]+)")
_DECORATE_HINT = "decorate the function with @metasched.rule"

RuleSpec: TypeAlias = str | Sequence["RuleItem"] | None
RuleItem: TypeAlias = Rule | TextModule | str | Sequence["RuleItem"]


def _rule_or_preset(value: object) -> object:
    if not isinstance(value, Rule | TextModule | str | list | tuple):
        raise UnfitError(_DECORATE_HINT)
    return value


RULES: Registry[object] = Registry(GROUP, "rule", _rule_or_preset, RuleError)


def resolve(spec: RuleSpec) -> tuple[Rule, ...]:
    """Rules from a specification.

    None is the preset `cpu`. A text such as `cpu,-inline,+my.py:my_rule` starts from a preset (or from nothing, if it
    starts with `+`), and removes and adds rules by name, `FILE.py:NAME`, `FILE.ms` or `FILE.ms::NAME`. An `@` restricts
    a part to some blocks, by patterns separated by `|`: `unroll@dense|conv*` restricts a rule of the list to them, or
    adds it for them if the list lacks it (`+unroll@dense` always adds it), and `-inline@relu` excludes them. A list
    holds rules, lists, and such texts, each of which changes the part of the list before it. Raises RuleError for an
    unknown name, and for anything else in a list.
    """
    if spec is None:
        spec = DEFAULT_PRESET
    return _apply_changes([], spec, ())


def rules_of(name: str, value: object) -> tuple[Rule, ...]:
    """The rules of a value called `name`, which is a rule or a preset."""
    return _rules_of(name, value, (name,))


# --- lists. `way` are the names of the presets around a list ---------------------------------------


def _rules_of(name: str, value: object, way: tuple[str, ...]) -> tuple[Rule, ...]:
    if isinstance(value, Rule):
        return (value,)
    if isinstance(value, TextModule):
        return (require_rule(value),)
    if isinstance(value, str | list | tuple):
        return _apply_changes([], value, way)
    raise RuleError(f"`{name}` is no rule: {_DECORATE_HINT}")


def _apply_changes(rules: list[Rule], spec: str | Sequence[object], way: tuple[str, ...]) -> tuple[Rule, ...]:
    """A list of rules, changed by a specification or by each item of another list."""
    if isinstance(spec, str):
        for part in (p.strip() for p in spec.split(",")):
            if not part:
                raise RuleError(f"the rule specification {spec!r} has an empty part{_preset_note(way)}")
            rules = _apply_change(rules, part, way)
        return tuple(rules)
    for item in spec:
        if isinstance(item, str):
            rules = list(_apply_changes(rules, item, way))
        elif isinstance(item, Rule | TextModule | list | tuple):
            rules = [*rules, *_rules_of("", item, way)]
        else:
            said = getattr(item, "__name__", repr(item))
            raise RuleError(f"`{said}` is no rule: {_DECORATE_HINT}{_preset_note(way)}")
    return tuple(rules)


def _preset_note(way: tuple[str, ...]) -> str:
    return f" (in the preset {' > '.join(way)})" if way else ""


def _apply_change(rules: list[Rule], part: str, way: tuple[str, ...]) -> list[Rule]:
    """The list, changed by one part of a specification."""
    name, patterns = _for_blocks(part.lstrip("+-"))
    there = any(r.name == name for r in rules)
    if part.startswith("-"):
        if not there:
            raise RuleError(
                f"`{part}`: there is no such rule to drop{_preset_note(way)}",
                hint=f"there are {listing(sorted(r.name for r in rules))}",
            )
        left_out = (r.except_for(*patterns) if r.name == name else r for r in rules)
        return list(left_out) if patterns else [r for r in rules if r.name != name]
    if there and patterns and not part.startswith("+"):
        return [r.only(*patterns) if r.name == name else r for r in rules]
    return [*rules, *(r.only(*patterns) if patterns else r for r in _find_rules(name, way))]


def _for_blocks(text: str) -> tuple[str, tuple[str, ...]]:
    """`unroll@dense|conv*` split into the name and the patterns; an `@` in the path of a file separates nothing."""
    found = _AT_BLOCKS.fullmatch(text)
    return (text, ()) if found is None else (found[1], tuple(found[2].split("|")))


def _find_rules(name: str, way: tuple[str, ...]) -> tuple[Rule, ...]:
    if name in way:
        raise RuleError(f"the preset `{name}` holds itself: {' > '.join((*way, name))}")
    if is_text(name):
        return (load_text(name),)
    path, _, attribute = name.rpartition(":")
    if path:
        return _rules_of(name, load_file(Path(path), attribute), (*way, name))
    if name not in RULES.names():
        raise RuleError(f"no rule or preset `{name}` is installed{_preset_note(way)}", hint=advice(name))
    return _rules_of(name, RULES.get(name), (*way, name))


def advice(name: str) -> str:
    """A hint for the name of a rule or preset that is not installed."""
    if name.endswith(".py"):
        return f"a rule of a file is named after a colon: `{name}:RULE`"
    if not RULES.names():
        return (
            "rules, metasched's own among them, are found through the entry points of installed packages, and "
            "metasched is not installed here: `python -m pip install --editable .` in its checkout"
        )
    return RULES.advice(name)
