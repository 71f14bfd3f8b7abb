"""Every check, in the order in which a person reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding
from metasched.errors import MetaschedError
from metasched.support.registry import Registry, checked_function

Check = Callable[[Examined], Finding]


def _checked(value: object) -> Check:
    return checked_function(value, "an Examined", "an Examined")


CHECKS = Registry(None, "check", _checked, MetaschedError, "metasched.doctor.checks", "check")

# What says what the machine is comes first, and what needs it quiet last.
_FIRST = ("processor", "instruction_sets", "threads")
_LAST = ("neighbours", "clock")


def examine(examined: Examined) -> Iterator[tuple[str, Finding]]:
    """The name and the finding of each check. All of them take about three seconds."""
    others = [name for name in CHECKS.names() if name not in (*_FIRST, *_LAST)]
    for name in (*_FIRST, *others, *_LAST):
        yield name.replace("_", " "), CHECKS.get(name)(examined)
