"""The block may take numbers below the smallest normal one for zero, as some tensor intrinsics do."""

from __future__ import annotations

from metasched.ir.nodes import Block, Expr, For
from metasched.permissions import Permission
from metasched.schedule.annotation import AnnotationPlace, AnnotationValues, annotation
from metasched.schedule.context import Context


@annotation(on=AnnotationPlace.BLOCK, values=AnnotationValues.ON, permission=Permission.FLUSH_DENORMALS)
def flush_denormals(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """Any block may have it."""
