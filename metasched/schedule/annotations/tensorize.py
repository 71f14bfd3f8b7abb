"""The nest from the loop inward is computed by the tensor intrinsic of this name."""

from __future__ import annotations

from metasched.ir.nodes import Block, Expr, For
from metasched.schedule.annotation import AnnotationPlace, AnnotationValues, annotation
from metasched.schedule.context import Context


@annotation(on=AnnotationPlace.LOOP, values=AnnotationValues.NAME, set_by="tensorize", of_copies=False)
def tensorize(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """Any loop: the primitive `tensorize` matches the nest before it sets this."""
