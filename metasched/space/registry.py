"""Finding rules: those installed under the entry-point group `metasched.rules`, and those in a file."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from metasched.space.rule import Rule, RuleError
from metasched.space.rule_errors import blaming_file
from metasched.space.text.modules import TextModule
from metasched.space.text.rules import SEPARATOR, SUFFIX, load_rule, load_rules, require_rule
from metasched.support.imports import imports

GROUP = "metasched.rules"
DEFAULT_PRESET = "cpu"

_AT_BLOCKS = re.compile(r"(.+)@([\w.*?\[\]!|]+)")

RuleSpec = str | Sequence["Rule | str"] | None


def installed() -> Mapping[str, EntryPoint]:
    """Entry points of rules and presets, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def installed_rules() -> dict[str, Rule]:
    """Every installed rule, loaded, by name."""
    found = ((name, loaded(point)) for name, point in sorted(installed().items()))
    return {name: value for name, value in found if isinstance(value, Rule)}


def installed_presets() -> dict[str, tuple[Rule, ...]]:
    """Every installed preset (a tuple of rules), by name."""
    found = ((name, loaded(point)) for name, point in sorted(installed().items()))
    return {name: tuple(value) for name, value in found if isinstance(value, tuple | list)}


def resolve(spec: RuleSpec) -> tuple[Rule, ...]:
    """Rules from a specification.

    None is the preset `cpu`. A text such as `cpu,-inline,+my.py:my_rule` starts from a preset (or from nothing, when
    it starts with `+`), and drops and adds rules by name, `FILE.py:NAME`, `FILE.ms` or
    `FILE.ms::NAME`. Behind an `@` stand the blocks that a part
    is about, patterns separated by `|`: `unroll@dense|conv*` keeps a rule of the list to them, or adds it for them
    where the list lacks it (as `+unroll@dense` does always), and `-inline@relu` leaves them out. A list holds rules
    and such names. Raises RuleError for a name that is not there.
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
        rules = _changed(rules, part)
    return tuple(rules)


def _changed(rules: list[Rule], part: str) -> list[Rule]:
    """The list after one part of a specification."""
    name, patterns = _for_blocks(part.lstrip("+-"))
    there = any(r.name == name for r in rules)
    if part.startswith("-"):
        if not there:
            raise RuleError(f"`{part}`: there is no such rule to drop; there are {_listed(r.name for r in rules)}")
        left_out = (r.except_for(*patterns) if r.name == name else r for r in rules)
        return list(left_out) if patterns else [r for r in rules if r.name != name]
    if there and patterns and not part.startswith("+"):
        return [r.only(*patterns) if r.name == name else r for r in rules]
    return [*rules, *(r.only(*patterns) if patterns else r for r in _named(name))]


def _for_blocks(text: str) -> tuple[str, tuple[str, ...]]:
    """`unroll@dense|conv*` as the name and the patterns. An `@` in the path of a file is neither."""
    found = _AT_BLOCKS.fullmatch(text)
    return (text, ()) if found is None else (found[1], tuple(found[2].split("|")))


def _named(name: str) -> tuple[Rule, ...]:
    if _is_text(name):
        return (_load_text(name),)
    path, _, attribute = name.rpartition(":")
    if path:
        return _as_rules(name, _load_file(Path(path), attribute))
    points = installed()
    if name not in points:
        raise RuleError(f"no rule or preset `{name}` is installed{_advice(name, points)}")
    return _as_rules(name, loaded(points[name]))


def loaded(point: EntryPoint) -> Any:
    """What an entry point names. Raises RuleError, with the package, where it cannot be imported or is not unique."""
    others = {p.value: p for p in entry_points(group=GROUP, name=point.name)}
    if len(others) > 1:
        where = " and ".join(f"{origin(p)} ({p.value})" for p in others.values())
        raise RuleError(
            f"two packages have a rule `{point.name}`: {where}\n"
            f"  hint: give the rule by its file, FILE.py:{point.name}, or as a value"
        )
    try:
        with imports.under_way():
            return point.load()
    except (ImportError, AttributeError) as error:
        raise RuleError(
            f"the rule `{point.name}` of {origin(point)} cannot be loaded ({point.value}): {error}"
        ) from error


def origin(point: EntryPoint) -> str:
    """The package that an entry point comes from, and its version."""
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _advice(name: str, points: Collection[str]) -> str:
    if name.endswith(".py"):
        return f"; a rule of a file is named after a colon: `{name}:RULE`"
    if not points:
        return (
            ". Rules, metasched's own among them, are found through the entry points of installed packages, and "
            "metasched is not installed here\n  hint: `python -m pip install --editable .` in its checkout"
        )
    near = get_close_matches(name, points, n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    return f"{hint} Installed are {_listed(points)}"


def _is_text(name: str) -> bool:
    """`tile.ms`, or `tile.ms::NAME`."""
    return name.partition(SEPARATOR)[0].endswith(SUFFIX)


def _load_text(name: str) -> Rule:
    try:
        return load_rule(name)
    except OSError as error:
        raise RuleError(f"cannot read {error.filename}: {error.strerror}") from None


def _load_file(path: Path, attribute: str) -> Any:
    if not path.is_file():
        raise RuleError(f"there is no file {path}")
    names = _namespace(path)
    if attribute not in names:
        rules = [k for k, v in names.items() if isinstance(v, Rule)]
        raise RuleError(f"{path} has no `{attribute}`; its rules are {_listed(rules)}")
    return names[attribute]


def _namespace(path: Path) -> dict[str, Any]:
    """What a Python file defines. It is read anew each time, past the cache of compiled files: that takes two versions
    of one size and second for the same.

    Raises RuleError for what is not Python; what the file's own code raises has a note with its line.
    """
    if path.suffix != ".py":
        raise RuleError(f"{path} is not a Python file")
    linecache.checkcache(str(path))
    module = ModuleType(f"metasched.file:{path.resolve()}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look their own names up
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except SyntaxError as error:
        text = "".join(traceback.format_exception_only(error)).rstrip()
        raise RuleError(f"{path} is not Python that runs:\n{text}") from None
    with blaming_file(str(path)):
        exec(code, module.__dict__)
    return module.__dict__


def rules_of_file(path: Path) -> dict[str, Rule]:
    """The rules that a file defines itself, by name; raises RuleError when there are none.

    In Python these are functions with the decorator, in text modules of one block that no other module there calls.
    """
    if not path.is_file():
        raise RuleError(f"there is no file {path}")
    if path.suffix == SUFFIX:
        return {rule.name: rule for rule in load_rules(path)}
    found = {
        name: value
        for name, value in _namespace(path).items()
        if isinstance(value, Rule) and (value.place is None or value.place.file == str(path))
    }
    if not found:
        raise RuleError(f"{path} has no rules: decorate a function with @metasched.rule")
    return found


def _as_rules(name: str, value: Any) -> tuple[Rule, ...]:
    if isinstance(value, Rule):
        return (value,)
    if isinstance(value, tuple | list) and all(isinstance(v, Rule) for v in value):
        return tuple(value)
    if isinstance(value, TextModule):
        require_rule(value)
    raise RuleError(f"`{name}` is no rule: decorate the function with @metasched.rule")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in sorted(names)) or "none"
