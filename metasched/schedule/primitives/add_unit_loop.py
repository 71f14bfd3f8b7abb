"""add_unit_loop: a loop of a single iteration."""

from __future__ import annotations

from metasched.ir import query
from metasched.ir.integers.affine import ONE
from metasched.ir.nodes import For
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName, TargetName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import require_shallow
from metasched.schedule.rewrite.parts import find_target
from metasched.schedule.rewrite.regions import require_regions

OP = "add_unit_loop"


@primitive
def add_unit_loop(ctx: Context, target: TargetName) -> LoopName:
    """Put a loop of one iteration around a loop or a block, so that other blocks can be computed at it.

    A block that writes a scalar has no loops otherwise. The loop leaves no trace in the machine code.

    Args:
        target: a loop, with all that is inside it, or a block.

    Requires:
        The target still exists, and is not in a shared parallel region. No block is in more than 64 loops afterwards.

    Rewrite:
        root: N = sqrt(S)                     ->     for unit in 1:
                                                         root: N = sqrt(S)
    """
    stmt = find_target(ctx, OP, target)
    require_shallow(ctx, OP, stmt, 1)
    name = ctx.fresh("unit")
    changed = query.replace_stmt(ctx.func, stmt, For(name, ONE, stmt))
    if isinstance(stmt, For):
        require_regions(OP, changed, stmt)
    ctx.func = changed
    return name
