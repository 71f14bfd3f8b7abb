"""Whole vectors of an output are stored past the caches.

Those that start at a multiple of their size are; what is left at the ends is stored as usual. They do not displace what
is read again. The block stores vectors of an output that no block reads.
"""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars, substitute
from metasched.ir.nodes import Block, Expr, For, LoopKind
from metasched.schedule.annotation import AnnotationPlace, AnnotationValues, annotation
from metasched.schedule.context import Context
from metasched.schedule.rewrite.parts import is_output, readers


@annotation(on=AnnotationPlace.BLOCK, values=AnnotationValues.SWITCH)
def non_temporal(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """Raise where the output is read again, as it would come from memory."""
    assert isinstance(target, Block)
    buffer, name = target.store.buffer, target.name
    if not is_output(ctx.func, buffer):
        raise ScheduleError(
            op,
            f"`{name}` writes the intermediate `{buffer}`, which is read again: it would come from memory",
            (name,),
            "store only what leaves the program past the caches: an output",
        )
    again = readers(ctx.func, buffer)
    if again:
        raise ScheduleError(
            op,
            f"`{again[0].name}` reads `{buffer}` again: it would come from memory",
            (name, again[0].name),
            "leave it in the caches, or compute into a buffer of its own with cache_write",
        )
    if target.index is not None or not _writes_vectors(ctx, target):
        raise ScheduleError(
            op,
            f"`{name}` does not store vectors of neighbours in `{buffer}`",
            (name,),
            "vectorize the loop over its last dimension first",
        )


def _writes_vectors(ctx: Context, block: Block) -> bool:
    """Whether a vectorised loop runs along the last dimension of what a block writes, and no other."""
    values = {iv.name: binding for iv, binding in zip(block.iters, block.bindings, strict=True)}
    along = [free_vars(substitute(index, values)) for index in block.store.indices]
    lanes = [x.var for x in query.loops_above(ctx.func, block.name) if x.kind is LoopKind.VECTORIZED]
    return bool(along) and any(var in along[-1] and all(var not in names for names in along[:-1]) for var in lanes)
