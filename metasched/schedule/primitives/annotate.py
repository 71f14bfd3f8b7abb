"""annotate: a note for the backend."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Annotation, Block, For
from metasched.schedule.context import Context
from metasched.schedule.kinds import IntExpr, TargetName, Text
from metasched.schedule.primitive import primitive

OP = "annotate"
# What a backend understands, and what it means.
KEYS = {
    "unroll_limit": "innermost loops are unrolled while the product of their extents is at most this",
}


@primitive
def annotate(ctx: Context, target: TargetName, key: Text, value: IntExpr) -> None:
    """Leave a note for the backend on a loop or a block; a note of the same key is replaced.

    Args:
        target: a loop or a block.
        key: "unroll_limit": innermost loops there are unrolled while the product of their extents is at most `value`.
        value: an integer or an integer random variable.

    Requires:
        The key is known.
    """
    if key not in KEYS:
        known = ", ".join(f'"{k}"' for k in KEYS)
        raise ScheduleError(OP, f'there is no annotation "{key}"', hint=f"known are {known}")
    stmt = _find(ctx, target)
    kept = tuple(a for a in stmt.annotations if a.key != key)
    ctx.func = query.replace_stmt(ctx.func, stmt, replace(stmt, annotations=(*kept, Annotation(key, value))))


def _find(ctx: Context, target: str) -> Block | For:
    for stmt in query.walk_stmts(ctx.func.body):
        if (isinstance(stmt, Block) and stmt.name == target) or (isinstance(stmt, For) and stmt.var == target):
            return stmt
    raise ScheduleError(
        OP,
        f"there is no block or loop `{target}` any more",
        hint="an earlier step inlined, split, fused or moved it; use the handles that step returned",
    )
