"""Innermost loops there are unrolled while the product of their extents is at most the value."""

from __future__ import annotations

from metasched.ir.nodes import Block, Expr, For
from metasched.schedule.annotation import AnnotationPlace, AnnotationValues, annotation
from metasched.schedule.context import Context


@annotation(on=AnnotationPlace.ANY, values=AnnotationValues.COUNT, counts="copies of a body")
def unroll_limit(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """Any loop or block may have it."""
