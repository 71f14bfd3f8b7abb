"""Each iteration asks for what the loop reads so many iterations later.

It does so in the first pass of the loops inside it, and of all those unrolled or vectorised.
"""

from __future__ import annotations

from metasched.ir.nodes import Block, Expr, For, LoopKind
from metasched.schedule.annotation import AnnotationPlace, AnnotationValues, annotation
from metasched.schedule.context import Context


@annotation(
    on=AnnotationPlace.LOOP,
    values=AnnotationValues.COUNT,
    counts="iterations of the loop",
    not_on={LoopKind.VECTORIZED: "its iterations are lanes"},
)
def prefetch(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """Any loop that is not vectorised may have it."""
