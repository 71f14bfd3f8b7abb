"""choose: choose between structures."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.distributions.choice import ChoiceDistribution
from metasched.schedule.kinds import Literal
from metasched.schedule.primitive import sampler

OP = "choose"


@sampler(in_batches=unchanged, named=True)
def choose(ctx: Context, *options: Literal) -> ChoiceDistribution:
    """One of several structures: `sch.choose("fusion", ["none", "outer"])` gives a plain value to branch on.

    Args:
        options: strings, numbers or booleans. The first argument of `Schedule.choose`, a name, gives the address.

    Requires:
        No two options are equal in Python, as 1 and True are.
    """
    distinct: dict[Literal, Literal] = {}
    for option in options:
        equal = distinct.setdefault(option, option)
        if type(equal) is not type(option):
            message = f"the options {equal!r} and {option!r} are equal, so that no branch can tell them apart"
            raise ScheduleError(OP, message, hint="use texts")
    return ChoiceDistribution(tuple(distinct))
