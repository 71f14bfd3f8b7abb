"""What later steps may not change: nests that an intrinsic does."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Func
from metasched.schedule.tensor import Mismatch, intrinsics, match, tensorized, tensorized_by

# These say themselves that a nest is an ordinary one again, or take the block away.
_FREEING = frozenset({"unannotate"})


def require_kept(op: str, before: Func, after: Func) -> None:
    """Raise ScheduleError where a step has changed what an earlier one has settled.

    Cost: a walk over the statements where there is nothing to keep.
    """
    _require_tensorized(op, before, after)


def _require_tensorized(op: str, before: Func, after: Func) -> None:
    were = tensorized(before)
    if not were or op in _FREEING:
        return
    left = {b.name for b in query.blocks(after)}
    now = tensorized(after)
    for block, loop in were.items():
        if block not in left:
            continue
        name = tensorized_by(loop)
        assert name is not None
        hint = f"{op} before tensorize, or take it back with unannotate"
        what = f"the nest of loop `{loop.var}` is tensorized as `{name}`"
        if block not in now:
            raise ScheduleError(op, f"{what}, and block `{block}` would leave it", (loop.var, block), hint)
        try:
            match(after, now[block], intrinsics()[name])
        except Mismatch as error:
            raise ScheduleError(op, f"{what}, and would be no more: {error}", (loop.var, block), hint) from None
