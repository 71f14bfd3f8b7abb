"""unannotate: remove an annotation."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import TargetName, Text
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.parts import find_target

OP = "unannotate"


@primitive(in_batches=unchanged)
def unannotate(ctx: Context, target: TargetName, key: Text) -> None:
    """Remove an annotation from a loop or a block.

    Args:
        target: a loop or a block.
        key: the annotation's key, as for `annotate`.

    Requires:
        The target has the annotation.

    Rewrite:
        for i in 64:  @unroll_limit(16)       ->     for i in 64:
    """
    stmt = find_target(ctx, OP, target)
    if all(a.key != key for a in stmt.annotations):
        known = ", ".join(f'"{a.key}"' for a in stmt.annotations)
        raise ScheduleError(
            OP, f'`{target}` has no annotation "{key}"', (target,), f"it has {known}" if known else "it has none"
        )
    kept = tuple(a for a in stmt.annotations if a.key != key)
    ctx.func = query.replace_stmt(ctx.func, stmt, replace(stmt, annotations=kept))
