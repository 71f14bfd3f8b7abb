"""sample_tile: sizes of a loop's tiles."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.schedule.context import Context
from metasched.schedule.distributions.factors import MOST_PARTS
from metasched.schedule.distributions.tile import Tile
from metasched.schedule.kinds import Flag, LoopName, Number
from metasched.schedule.primitive import sampler

OP = "sample_tile"


@sampler(in_batches=True)
def sample_tile(ctx: Context, loop: LoopName, parts: Number = 2, innermost: Number = 64, perfect: Flag = False) -> Tile:
    """Tile sizes of a loop: `parts` integers, outermost first, to split it by.

    The decision is the inner ones, written `[_, 8]`; the outer one is the extent divided by them, rounded up. The
    prior draws each, from the innermost outwards, with probability 0.8 among the divisors of what is left and else
    log-uniformly among all sizes, so that 127 and 1009 have tiles too.

    Args:
        loop: the loop to tile.
        parts: how many sizes, 2 to 64.
        innermost: the largest innermost size.
        perfect: only sizes that divide what is left of the extent.
    """
    if parts < 2:
        message = f"parts is {parts}; a tile has at least two parts"
        raise ScheduleError(OP, message, (loop,), "parts=2 gives an outer and an inner size")
    if parts > MOST_PARTS:
        raise ScheduleError(OP, f"parts is {parts}; a tile has at most {MOST_PARTS}", (loop,), "take fewer sizes")
    if innermost < 1:
        message = f"innermost is {innermost}; it is at least 1"
        raise ScheduleError(OP, message, (loop,), "it bounds the innermost size, such as 64")
    return Tile(ctx.loop(OP, loop).extent, parts, innermost, perfect)
