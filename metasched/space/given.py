"""Given decisions, by address: whether a trace agrees with them, and merging two sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metasched.errors import ScheduleError
from metasched.lang.decisions import decision_text, to_python
from metasched.lang.instructions import Decision
from metasched.schedule.trace import Trace


def agrees(trace: Trace, given: Mapping[str, object]) -> bool:
    """Whether no decision of a trace contradicts the given ones."""
    taken = trace.decisions
    return all(address not in taken or to_python(taken[address]) == to_python(d) for address, d in given.items())


def merge_decisions(given: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """The union of two sets of decisions. Raises ScheduleError where they give one variable different values."""
    for address, decision in more.items():
        if address in given and to_python(given[address]) != to_python(decision):
            raise ScheduleError(
                "condition",
                f'"{address}" is decided twice: as {decision_text(given[address])}, and as {decision_text(decision)}',
                hint="change one of the two decisions, or leave it out",
            )
    return {**given, **more}


def nearest_option(wanted: Decision | None, options: Sequence[Decision]) -> Decision:
    """The option that is wanted, or the one that has most words in common with it, or the first.

    A choice may be worded by what there is: "consumer at level 1" where a block follows, else "cache at level 1".
    """
    same = [option for option in options if type(option) is type(wanted) and option == wanted]
    if same:
        return same[0]
    words = set(wanted.split()) if isinstance(wanted, str) else set()
    shared = [len(words & set(option.split())) if isinstance(option, str) else 0 for option in options]
    return options[shared.index(max(shared))]
