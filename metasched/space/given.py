"""Decisions that are given, by address: whether they agree, and two sets of them as one."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.errors import ScheduleError
from metasched.lang.decisions import decision_text, to_python
from metasched.schedule.trace import Trace


def agrees(trace: Trace, given: Mapping[str, object]) -> bool:
    """Whether a trace decides nothing otherwise."""
    taken = trace.decisions
    return all(address not in taken or to_python(taken[address]) == to_python(d) for address, d in given.items())


def merged(given: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Decisions by address, and more of them. Raises ScheduleError where one is given twice, and otherwise."""
    for address, decision in more.items():
        if address in given and to_python(given[address]) != to_python(decision):
            raise ScheduleError(
                "condition",
                f'"{address}" is decided twice: as {decision_text(given[address])}, and as {decision_text(decision)}',
                hint="change one of the two decisions, or leave it out",
            )
    return {**given, **more}
