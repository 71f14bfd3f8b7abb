"""The rules and presets that are installed, loaded."""

from __future__ import annotations

from metasched.space.registry import RULES, rules_of
from metasched.space.rule import Rule


def installed_rules() -> dict[str, Rule]:
    """Every installed rule, loaded, by name."""
    found = ((name, RULES.get(name)) for name in RULES.names())
    return {name: value for name, value in found if isinstance(value, Rule)}


def installed_presets() -> dict[str, tuple[Rule, ...]]:
    """The rules of every installed preset, by its name."""
    found = ((name, RULES.get(name)) for name in RULES.names())
    return {name: rules_of(name, value) for name, value in found if not isinstance(value, Rule)}
