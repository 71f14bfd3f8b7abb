"""choose: a structural decision."""

from __future__ import annotations

from metasched.schedule.context import Context
from metasched.schedule.distributions.choice import Choice
from metasched.schedule.kinds import Literal
from metasched.schedule.primitive import sampler


@sampler
def choose(ctx: Context, *options: Literal) -> Choice:
    """One of several structures: `sch.choose("fusion", ["none", "outer"])` gives a plain value to branch on.

    Args:
        options: strings, numbers or booleans. The name that `Schedule.choose` takes first makes the address.
    """
    return Choice(tuple(dict.fromkeys(options)))
