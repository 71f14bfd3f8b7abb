"""sample_tile: sample a loop's tile sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metasched.errors import ScheduleError
from metasched.lang.instructions import HOLE, Decision, Ref
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.distributions.factors import MOST_PARTS
from metasched.schedule.distributions.tile import Tile
from metasched.schedule.kinds import Flag, LoopName, Number
from metasched.schedule.primitive import sampler
from metasched.support.integers import is_integer
from metasched.support.messages import counted

OP = "sample_tile"


def _outside_support(given: Mapping[str, Any], decision: Decision) -> str | None:
    parts, innermost = given.get("parts"), given.get("innermost")
    if not isinstance(parts, int) or not isinstance(innermost, int):
        return None
    fits = isinstance(decision, tuple) and len(decision) == parts and decision[0] == HOLE
    if fits and isinstance(decision, tuple) and all(isinstance(f, Ref) or _is_factor(f) for f in decision[1:]):
        last = decision[-1]
        if not isinstance(last, int) or last <= innermost:
            return None
    return f"`_` and {counted(parts - 1, 'inner factor')}, the innermost at most {innermost}"


def _is_factor(value: Decision) -> bool:
    return is_integer(value) and value >= 1


@sampler(in_batches=unchanged, outside_support=_outside_support)
def sample_tile(
    ctx: Context,
    loop: LoopName,
    parts: Number = 2,
    innermost: Number = 64,
    perfect: Flag = False,
    step: Number = 0,
) -> Tile:
    """Sample a loop's tile sizes: `parts` integers, outermost first, to split it by.

    The decision is the inner sizes, written `[_, 8]`; the outer one is the extent divided by their product, rounded up.
    The prior draws each, from the innermost outwards, with probability 0.8 among the divisors of what is left and else
    log-uniformly among all sizes, so that 127 and 1009 have tiles too. With a `step`, half of the draws of the
    innermost size are multiples of it, log-uniformly, dividing or not: whole vectors along 100 elements, say.

    Args:
        loop: the loop to tile.
        parts: how many sizes, 2 to 64.
        innermost: the largest innermost size.
        perfect: only sizes that divide what is left of the extent.
        step: what the innermost size is preferably a multiple of, such as the lanes of a vector; 0 for no preference.
    """
    if parts < 2:
        message = f"parts is {parts}; a tile has at least two parts"
        raise ScheduleError(OP, message, (loop,), "parts=2 gives an outer and an inner size")
    if parts > MOST_PARTS:
        raise ScheduleError(OP, f"parts is {parts}; a tile has at most {MOST_PARTS}", (loop,), "take fewer sizes")
    if innermost < 1:
        message = f"innermost is {innermost}; it is at least 1"
        raise ScheduleError(OP, message, (loop,), "it bounds the innermost size, such as 64")
    if step < 0:
        raise ScheduleError(OP, f"step is {step}; it is at least 0", (loop,), "give the lanes of a vector, or 0")
    if step and perfect:
        message = f"step is {step}, and only dividing sizes are wanted"
        raise ScheduleError(OP, message, (loop,), "leave out perfect, or step")
    return Tile(ctx.loop(OP, loop).extent, parts, innermost, perfect, step)
