"""sample_categorical: sample a number from a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metasched.errors import ScheduleError
from metasched.lang.instructions import Decision
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.distributions.categorical import Categorical
from metasched.schedule.kinds import Literal, Number
from metasched.schedule.primitive import sampler

OP = "sample_categorical"


def _outside_support(given: Mapping[str, Any], decision: Decision) -> str | None:
    values = given.get("values")
    if not isinstance(values, list) or any(type(v) is type(decision) and v == decision for v in values):
        return None
    return "one of " + ", ".join(str(v) for v in values)


@sampler(in_batches=unchanged, outside_support=_outside_support)
def sample_categorical(
    ctx: Context, values: tuple[Number, ...], probabilities: tuple[Literal, ...] = ()
) -> Categorical:
    """Sample an integer from a list, such as a vector width or an unroll limit.

    For structural alternatives use `choose`, whose result is a plain value to branch on.

    Args:
        values: distinct integers.
        probabilities: one for each, adding up to 1; uniform when left out.
    """
    if not values or len(set(values)) != len(values):
        raise ScheduleError(OP, "values must be distinct, and at least one", hint="such as [8, 16, 32]")
    weights = tuple(float(p) for p in probabilities) or (1 / len(values),) * len(values)
    if len(weights) != len(values) or min(weights) < 0 or not abs(sum(weights) - 1) <= 1e-6:
        message = "probabilities must be one for each value, not negative, and add up to 1"
        raise ScheduleError(OP, message, hint="leave them out to draw uniformly")
    return Categorical(tuple(values), weights)
