"""annotate: an annotation for the compiler on a loop or a block."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Annotation, Block, Const
from metasched.schedule.annotation import known_annotations
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import Setting, TargetName, Text
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.parts import find_target

OP = "annotate"


@primitive(in_batches=unchanged)
def annotate(ctx: Context, target: TargetName, key: Text, value: Setting) -> None:
    """Annotate a loop or a block for the compiler; an annotation with the same key is replaced.

    Args:
        target: a loop or a block.
        key: the annotation's key; each is documented in its file in `metasched/schedule/annotations/`.
        value: an integer or an integer random variable, 0 for none; True or False for a switch.

    Requires:
        The key is known, applies to this kind of target, and accepts the value; some keys require more, see their
        files. In a rule, one that lets results differ is allowed by the caller (`sch.allows`).
    """
    known = known_annotations().get(key)
    if known is None:
        names = ", ".join(f'"{name}"' for name, other in known_annotations().items() if not other.set_by)
        raise ScheduleError(OP, f'there is no annotation "{key}"', hint=f"known are {names}")
    if known.set_by:
        raise ScheduleError(OP, f'"{key}" is not to be annotated', hint=f"`{known.set_by}` does it")
    stmt = find_target(ctx, OP, target)
    known.require(ctx, OP, stmt, value)
    if known.permission is not None and value != Const(0):
        ctx.require_allowed(OP, known.permission, stmt.name if isinstance(stmt, Block) else None)
    kept = tuple(a for a in stmt.annotations if a.key != key)
    ctx.func = query.replace_stmt(ctx.func, stmt, replace(stmt, annotations=(*kept, Annotation(key, value))))
