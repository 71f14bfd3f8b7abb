"""A factor that the terms of a block of the sum have in common multiplies their sum, not each of them.

Blocks are those of `blocked_sum`, which the block has. So a scale that so many weights share is multiplied by once for
them all. Where sums come near the largest number of their type, the sum without the factor may be beyond it.
"""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir.nodes import Block, Expr, For
from metasched.schedule.annotation import AnnotationPlace, AnnotationValues, annotation
from metasched.schedule.annotations.blocked_sum import blocked_sum
from metasched.schedule.context import Context


@annotation(on=AnnotationPlace.BLOCK, values=AnnotationValues.ON, of_sums=True)
def common_factor(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """Require a sum in blocks: only these have factors in common."""
    assert isinstance(target, Block)
    if blocked_sum.value(target.annotations) is None:
        raise ScheduleError(
            op,
            f"the sum `{target.name}` is not taken in blocks",
            (target.name,),
            'say how many terms have a factor in common first: annotate(block, "blocked_sum", 32)',
        )
