"""annotate: a note for the backend."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Annotation
from metasched.ir.notes import Note
from metasched.schedule.context import Context
from metasched.schedule.kinds import Setting, TargetName, Text
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.notes import require_note
from metasched.schedule.rewrite.parts import find_target

OP = "annotate"
# What a backend understands, and what it means.
KEYS = {
    Note.UNROLL_LIMIT: "innermost loops are unrolled while the product of their extents is at most this",
    Note.NON_TEMPORAL: "whole vectors of an output are stored past the caches",
    Note.PREFETCH: "each iteration asks for what the loop reads so many iterations later",
    Note.FASTMATH: "the block's arithmetic may be regrouped, and need not know NaN",
    Note.FLUSH_DENORMALS: "the block may take numbers below the smallest normal one for zero",
    Note.BLOCKED_SUM: "so many terms of the block's sum are summed apart, and then added to it",
}


@primitive
def annotate(ctx: Context, target: TargetName, key: Text, value: Setting) -> None:
    """Leave a note for the backend on a loop or a block; a note of the same key is replaced.

    Args:
        target: a loop or a block.
        key: "unroll_limit": innermost loops there are unrolled while the product of their extents is at most `value`.
            "non_temporal", on a block: vectors that start at a multiple of their size are stored past the caches, where
            they do not displace what is read again; what is left at the ends is stored as usual.
            "prefetch", on a loop: each iteration asks for what the loop reads `value` iterations later, in the first
            pass of the loops inside it and all of those unrolled or vectorized.
            "fastmath", on a block: its sums and products may be regrouped, a division may be by a reciprocal, the sign
            of a zero is any, and what becomes of a NaN is undefined. Functions such as exp stay as they are.
            "flush_denormals", on a block: it may take numbers below the smallest normal one for zero, as some tensor
            intrinsics do.
            "blocked_sum", on a block that sums floats: every `value` terms, counted in each lane and accumulator, are
            summed apart and then added to the sum. Its error is at most that of `value` + n/`value` additions rather
            than of n (Higham 1993, section 3). The result is regrouped, as by any other schedule of the reduction.
        value: an integer or an integer random variable, 0 for none; True and False for what is on or off.

    Requires:
        The key is known. For "non_temporal", the block stores vectors of an output that no block reads; for "prefetch",
        the loop is not vectorized; for "blocked_sum", the block is a sum of floats.
    """
    if key not in KEYS:
        known = ", ".join(f'"{k}"' for k in KEYS)
        raise ScheduleError(OP, f'there is no annotation "{key}"', hint=f"known are {known}")
    stmt = find_target(ctx, OP, target)
    require_note(ctx, OP, stmt, key, value)
    kept = tuple(a for a in stmt.annotations if a.key != key)
    ctx.func = query.replace_stmt(ctx.func, stmt, replace(stmt, annotations=(*kept, Annotation(key, value))))
