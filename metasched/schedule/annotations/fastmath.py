"""The block's arithmetic may be regrouped, and need not know NaN.

Its sums and products may be regrouped, a division may be by a reciprocal, the sign of a zero is any, and what becomes
of a NaN is undefined. Functions such as exp stay as they are.
"""

from __future__ import annotations

from metasched.ir.nodes import Block, Expr, For
from metasched.permissions import Permission
from metasched.schedule.annotation import AnnotationPlace, AnnotationValues, annotation
from metasched.schedule.context import Context


@annotation(on=AnnotationPlace.BLOCK, values=AnnotationValues.SWITCH, permission=Permission.FASTMATH)
def fastmath(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """Any block may have it."""
