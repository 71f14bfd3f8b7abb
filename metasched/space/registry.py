"""Finding rules: those installed under the entry-point group `metasched.rules`, and those in a file."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from metasched.space.rule import Rule, RuleError

GROUP = "metasched.rules"
DEFAULT_PRESET = "cpu"

RuleSpec = str | Sequence["Rule | str"] | None


def installed() -> Mapping[str, EntryPoint]:
    """Entry points of rules and presets, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def installed_rules() -> dict[str, Rule]:
    """Every installed rule, loaded, by name."""
    loaded = ((name, point.load()) for name, point in sorted(installed().items()))
    return {name: value for name, value in loaded if isinstance(value, Rule)}


def installed_presets() -> dict[str, tuple[Rule, ...]]:
    """Every installed preset (a tuple of rules), by name."""
    loaded = ((name, point.load()) for name, point in sorted(installed().items()))
    return {name: tuple(value) for name, value in loaded if isinstance(value, tuple | list)}


def resolve(spec: RuleSpec) -> tuple[Rule, ...]:
    """Rules from a specification.

    None is the preset `cpu`. A text such as `cpu,-inline,+my.py:my_rule` starts from a preset (or from nothing, when
    it starts with `+`), and drops and adds rules by name or `FILE.py:NAME`. A list holds rules and such names.
    Raises RuleError for a name that is not there.
    """
    if spec is None:
        spec = DEFAULT_PRESET
    if isinstance(spec, str):
        return _from_text(spec)
    rules: list[Rule] = []
    for item in spec:
        rules.extend(_named(item) if isinstance(item, str) else _as_rules(getattr(item, "__name__", repr(item)), item))
    return tuple(rules)


def _from_text(spec: str) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    for part in (p.strip() for p in spec.split(",")):
        if not part:
            raise RuleError(f"the rule specification {spec!r} has an empty part")
        if part.startswith("-"):
            kept = [r for r in rules if r.name != part[1:]]
            if len(kept) == len(rules):
                raise RuleError(f"`{part}`: there is no such rule to drop; there are {_listed(r.name for r in rules)}")
            rules = kept
        else:
            rules.extend(_named(part.removeprefix("+")))
    return tuple(rules)


def _named(name: str) -> tuple[Rule, ...]:
    path, _, attribute = name.rpartition(":")
    if path:
        return _as_rules(name, _load_file(Path(path), attribute))
    points = installed()
    if name not in points:
        raise RuleError(f"no rule or preset `{name}` is installed{_advice(name, points)}")
    return _as_rules(name, points[name].load())


def _advice(name: str, points: Iterable[str]) -> str:
    if name.endswith(".py"):
        return f"; a rule of a file is named after a colon: `{name}:RULE`"
    near = get_close_matches(name, points, n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    return f"{hint} Installed are {_listed(points)}"


def _load_file(path: Path, attribute: str) -> Any:
    if not path.is_file():
        raise RuleError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise RuleError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, attribute):
        rules = [k for k, v in vars(module).items() if isinstance(v, Rule)]
        raise RuleError(f"{path} has no `{attribute}`; its rules are {_listed(rules)}")
    return getattr(module, attribute)


def _as_rules(name: str, value: Any) -> tuple[Rule, ...]:
    if isinstance(value, Rule):
        return (value,)
    if isinstance(value, tuple | list) and all(isinstance(v, Rule) for v in value):
        return tuple(value)
    raise RuleError(f"`{name}` is no rule: decorate the function with @metasched.rule")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in sorted(names)) or "none"
