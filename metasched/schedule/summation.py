"""Which sums are so long that they are taken in blocks.

Rounding errors of a sum grow with the number of additions one after another. Blocks of `BLOCK_LENGTH` terms cost an
addition more in so many; see `metasched.compiler.lower.partial_sums` for what they are.
"""

from __future__ import annotations

from math import prod

from metasched.dtypes import DType
from metasched.ir import query
from metasched.ir.affine import as_int
from metasched.ir.nodes import Block, Func, IterKind, Reducer
from metasched.schedule.annotations.blocked_sum import blocked_sum
from metasched.schedule.tensor import tensorized

# With blocks of this length, sums of 10^4 to 10^7 random f32 terms err by some units in the last place.
BLOCK_LENGTH = 512
# Shorter sums are left as they are.
LONGEST_UNBLOCKED = 4096


def block_length(func: Func, block: Block) -> int:
    """How many terms at a time a block's sum is best taken: 0 where that makes no difference.

    That is for sums of more than `LONGEST_UNBLOCKED` terms of f32, whose operands are no narrower, as the rounding of
    those is larger. Wider ones have digits to spare.
    """
    terms = [as_int(it.extent) for it in block.iters if it.kind is IterKind.REDUCE]
    if block.reducer is not Reducer.SUM or block.store.value.dtype is not DType.F32 or None in terms:
        return 0
    if any(func.buffer(load.buffer).dtype.is_half for load in query.loads(block.store.value)):
        return 0
    return BLOCK_LENGTH if prod(n for n in terms if n is not None) > LONGEST_UNBLOCKED else 0


def blocks_to_cut(func: Func) -> dict[str, int]:
    """The blocks of a scheduled program whose sums are best taken in blocks and are not, with how long these may be.

    Not those that tensor intrinsics compute.
    """
    by_intrinsics = {b.name for loop in tensorized(func).values() for b in query.blocks_under(loop)}
    found = {b.name: block_length(func, b) for b in query.blocks(func) if not _is_noted(b)}
    return {name: length for name, length in found.items() if length and name not in by_intrinsics}


def _is_noted(block: Block) -> bool:
    return blocked_sum.value(block.annotations) is not None
