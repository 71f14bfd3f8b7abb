"""Grouped operators: `G` groups of channels, of which there are `CI` in the input and `CO` in the output."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from metasched.ir.source import ProgramDef, Setting
from metasched.lang.diagnostics import Diagnostics

_GROUPS = "G"
_CHANNELS = ("CI", "CO")


def check_groups(definition: ProgramDef, given: Mapping[str, Setting], diagnostics: Diagnostics) -> None:
    """Refuse groups that do not divide the channels; elaboration would refuse them too, but as an index out of bounds.

    Elaboration reports values that are not positive integers.

    Raises:
        LanguageError: when the operator has groups, and they do not divide its channels.
    """
    places = {param.name: param.at for param in definition.params}
    values = {param.name: given.get(param.name, param.default) for param in definition.params}
    numbers = {name: value for name, value in values.items() if isinstance(value, int) and value > 0}
    if not numbers.keys() >= {_GROUPS, *_CHANNELS}:
        return
    groups = numbers[_GROUPS]
    wrong = [f"{name}={numbers[name]}" for name in _CHANNELS if numbers[name] % groups]
    if not wrong:
        return
    common = gcd(*(numbers[name] for name in _CHANNELS))
    possible = ", ".join(str(n) for n in range(1, common + 1) if common % n == 0)
    diagnostics.error(
        places[_GROUPS],
        f"{groups} groups ({_GROUPS}) do not divide {' and '.join(wrong)}",
        f"with these channels, {_GROUPS} may be {possible}; or change CI and CO to multiples of {groups}",
    )
    diagnostics.check()
