"""sample_categorical: a number out of a list."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.schedule.context import Context
from metasched.schedule.distributions.categorical import Categorical
from metasched.schedule.kinds import Literal, Number
from metasched.schedule.primitive import sampler

OP = "sample_categorical"


@sampler(in_batches=True)
def sample_categorical(
    ctx: Context, values: tuple[Number, ...], probabilities: tuple[Literal, ...] = ()
) -> Categorical:
    """One integer out of a list: a vector width, an unroll limit.

    For structural alternatives use `choose`, whose result is a plain value to branch on.

    Args:
        values: distinct integers.
        probabilities: one for each, adding up to 1; uniform when left out.
    """
    if not values or len(set(values)) != len(values):
        raise ScheduleError(OP, "values must be distinct, and at least one", hint="such as [8, 16, 32]")
    weights = tuple(float(p) for p in probabilities) or (1 / len(values),) * len(values)
    if len(weights) != len(values) or min(weights) < 0 or abs(sum(weights) - 1) > 1e-6:
        message = "probabilities must be one for each value, not negative, and add up to 1"
        raise ScheduleError(OP, message, hint="leave them out to draw uniformly")
    return Categorical(tuple(values), weights)
