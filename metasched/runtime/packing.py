"""Why a schedule computes nothing from its weights ahead of time, and what to schedule so that it does."""

from __future__ import annotations

from collections.abc import Collection

from metasched.ir import query
from metasched.ir.nodes import Block, Func
from metasched.ir.prologue import can_be_argument, read_buffers
from metasched.support.messages import listing


def reason_not_ahead(func: Func, weights: Collection[str]) -> str:
    """Why `weights` alone determine nothing at the root of a program, and what to schedule instead."""
    names = listing(b.name for b in func.inputs if b.name in weights)
    says = f"`{func.name}` computes nothing from {names} alone"
    for block in query.blocks(func):
        if (
            read_buffers(block)
            and read_buffers(block) <= set(weights)
            and block.store.buffer in {b.name for b in func.temps}
        ):
            return f"{says}, ahead of the rest: {_reason_against(func, block)}"
    name = next(b.name for b in func.inputs if b.name in weights)
    reader = next((b.name for b in query.blocks(func) if name in read_buffers(b)), None)
    if reader is None:
        return f"{says}: no block reads it"
    return (
        f'{says}. Schedule a copy of it at the root: `packed = cache_read({reader}, "{name}")`, and '
        f"`transform_layout(packed, ...)` for how it is to lie in memory"
    )


def _reason_against(func: Func, block: Block) -> str:
    if not can_be_argument(func.buffer(block.store.buffer)):
        return f"`{block.store.buffer}` is in registers or rolling. Leave out its set_scope or store_at"
    scalars = [s.name for s in func.scalars if s.name in query.variables(block)]
    if scalars:
        return f"`{block.name}` needs the scalar `{scalars[0]}`. Multiply by it in another block"
    return (
        f"`{block.name}` is computed inside a loop around other blocks, or not alone. Leave it at the root, without "
        f"compute_at; what is there can be packed"
    )
