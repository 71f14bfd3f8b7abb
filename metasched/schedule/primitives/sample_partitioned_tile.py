"""sample_partitioned_tile: sample tile sizes whose inner product is a multiple of a number."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.distributions.factors import MOST_PARTS
from metasched.schedule.distributions.partitioned_tile import PartitionedTile
from metasched.schedule.kinds import LoopName, Number
from metasched.schedule.primitive import sampler

OP = "sample_partitioned_tile"


@sampler(in_batches=unchanged)
def sample_partitioned_tile(
    ctx: Context, loop: LoopName, parts: Number, partition: Number, innerpart_factor: Number
) -> PartitionedTile:
    """Sample tile sizes in two partitions, the product of the inner one a multiple of a number.

    As in sample_tile, the result is `parts` integers, outermost first, to split the loop by; the outermost follows from
    the extent. Use it where elements are processed in fixed groups: vectors of 16, an intrinsic's 4 terms.

    Args:
        loop: the loop to tile.
        parts: how many sizes, 2 to 64.
        partition: how many of them are in the outer partition, at least 1; the others are in the inner one.
        innerpart_factor: what the product of the inner partition is a multiple of.
    """
    if parts < 2:
        raise ScheduleError(OP, f"parts is {parts}; a tile has at least two parts", (loop,), "take sizes for two loops")
    if parts > MOST_PARTS:
        raise ScheduleError(OP, f"parts is {parts}; a tile has at most {MOST_PARTS}", (loop,), "take fewer sizes")
    if not 1 <= partition < parts:
        raise ScheduleError(
            OP,
            f"partition is {partition}; both partitions of {parts} parts have at least one",
            (loop,),
            f"give a number from 1 to {parts - 1}",
        )
    if innerpart_factor < 1:
        raise ScheduleError(
            OP, f"innerpart_factor is {innerpart_factor}; it is at least 1", (loop,), "give the size of a vector, say"
        )
    return PartitionedTile(ctx.loop(OP, loop).extent, parts, partition, innerpart_factor)
