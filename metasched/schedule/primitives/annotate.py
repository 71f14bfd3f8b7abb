"""annotate: a note for the backend."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Annotation
from metasched.schedule.context import Context
from metasched.schedule.kinds import IntExpr, TargetName, Text
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.parts import find_target
from metasched.schedule.tensor import FLUSH_DENORMALS

OP = "annotate"
# What a backend understands, and what it means.
KEYS = {
    "unroll_limit": "innermost loops are unrolled while the product of their extents is at most this",
    FLUSH_DENORMALS: "with 1, numbers below the smallest normal one may be taken for zero in this block",
}


@primitive
def annotate(ctx: Context, target: TargetName, key: Text, value: IntExpr) -> None:
    """Leave a note for the backend on a loop or a block; a note of the same key is replaced.

    Args:
        target: a loop or a block.
        key: "unroll_limit": innermost loops there are unrolled while the product of their extents is at most `value`.
            "flush_denormals", on a block: with 1, numbers below the smallest normal one may be taken for zero there,
            as some tensor intrinsics do.
        value: an integer or an integer random variable.

    Requires:
        The key is known.
    """
    if key not in KEYS:
        known = ", ".join(f'"{k}"' for k in KEYS)
        raise ScheduleError(OP, f'there is no annotation "{key}"', hint=f"known are {known}")
    stmt = find_target(ctx, OP, target)
    kept = tuple(a for a in stmt.annotations if a.key != key)
    ctx.func = query.replace_stmt(ctx.func, stmt, replace(stmt, annotations=(*kept, Annotation(key, value))))
