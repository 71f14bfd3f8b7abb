"""Which sums are long enough to be summed in blocks.

Rounding errors of a sum grow with the number of sequential additions. Blocks of `BLOCK_LENGTH` terms cost one more
addition per block; `metasched.compiler.lower.partial_sums` implements them.
"""

from __future__ import annotations

from math import prod

from metasched.dtypes import DType
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Block, Func, IterKind, Reducer
from metasched.schedule.annotations.blocked_sum import blocked_sum
from metasched.schedule.tensor import tensorized

# With blocks of this length, sums of 10^4 to 10^7 random f32 terms have an error of a few units in the last place.
BLOCK_LENGTH = 512
# Shorter sums are left as they are.
LONGEST_UNBLOCKED = 4096


def block_length(func: Func, block: Block) -> int:
    """The best block length for a block's sum; 0 if blocking brings nothing.

    Only sums of more than `LONGEST_UNBLOCKED` f32 terms are blocked. For narrower operands their own rounding
    dominates, and wider types have digits to spare.
    """
    terms = [as_int(it.extent) for it in block.iters if it.kind is IterKind.REDUCE]
    if block.reducer is not Reducer.SUM or block.store.value.dtype is not DType.F32 or None in terms:
        return 0
    if any(func.buffer(load.buffer).dtype.is_storage for load in query.loads(block.store.value)):
        return 0
    return BLOCK_LENGTH if prod(n for n in terms if n is not None) > LONGEST_UNBLOCKED else 0


def blocks_to_cut(func: Func) -> dict[str, int]:
    """The blocks whose sums should be blocked and are not yet, with the block length.

    Blocks that tensor intrinsics compute are excluded.
    """
    by_intrinsics = {b.name for loop in tensorized(func).values() for b in query.blocks_under(loop)}
    found = {b.name: block_length(func, b) for b in query.blocks(func) if not _is_noted(b)}
    return {name: length for name, length in found.items() if length and name not in by_intrinsics}


def _is_noted(block: Block) -> bool:
    return blocked_sum.value(block.annotations) is not None
