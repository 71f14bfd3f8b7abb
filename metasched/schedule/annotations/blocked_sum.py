"""So many terms of the block's sum are summed apart, and then added to it.

They are counted in each lane and accumulator. The error of the sum is at most that of `value` + n/`value` additions
rather than of n (Higham 1993, section 3). The result is regrouped, as by any other schedule of the reduction. The block
is a sum of floats.
"""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir.nodes import Block, Expr, For, Reducer
from metasched.schedule.annotation import AnnotationPlace, AnnotationValues, annotation
from metasched.schedule.context import Context


@annotation(on=AnnotationPlace.BLOCK, values=AnnotationValues.COUNT, counts="terms", of_sums=True)
def blocked_sum(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """Require a sum of floats: only its rounding error grows with its length."""
    assert isinstance(target, Block)
    if target.reducer is not Reducer.SUM or not target.store.value.dtype.is_float:
        raise ScheduleError(
            op, f"`{target.name}` is not a sum of floats", (target.name,), "nothing else loses digits by its length"
        )
