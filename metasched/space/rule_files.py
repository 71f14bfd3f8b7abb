"""Rules in files: Python, or text (`.ms`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metasched.lang.load import SUFFIX, file_and_name
from metasched.space.rule import Rule, RuleError
from metasched.space.rule_errors import noting_errors_in_file
from metasched.space.text.rules import load_rule, load_rules
from metasched.support.messages import listing
from metasched.support.python_file import names_of


def is_text(name: str) -> bool:
    """`tile.ms`, or `tile.ms::NAME`."""
    return file_and_name(name)[0].endswith(SUFFIX)


def load_text(name: str) -> Rule:
    """The rule of `tile.ms`, or `tile.ms::NAME`. Raises RuleError for a file that cannot be read, LanguageError."""
    try:
        return load_rule(name)
    except OSError as error:
        raise RuleError(f"cannot read {error.filename}: {error.strerror}") from None


def load_file(path: Path, attribute: str) -> Any:
    """The value of a name that a Python file defines. Raises RuleError if there is no such file or name."""
    names = _namespace(path)
    if attribute not in names:
        rules = [k for k, v in names.items() if isinstance(v, Rule)]
        raise RuleError(f"{path} has no `{attribute}`", hint=f"its rules are {listing(sorted(rules))}")
    return names[attribute]


def _namespace(path: Path) -> dict[str, Any]:
    """What a Python file defines. An exception from the file's own code gets a note with its line."""
    return names_of(path, RuleError, running=noting_errors_in_file(str(path)))


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
