"""Each iteration asks for the tiles that the loop uses some iterations later, a part in each pass of the loops inside.

A tile is a run of elements that the loops inside use more than once, such as a slice of a packed operand. It comes into
the second cache evenly while the one before is used.
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
def prefetch_tile(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """Any loop that is not vectorised may have it."""
