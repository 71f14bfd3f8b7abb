"""Programs whose arguments have their dimensions in another order in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.ir.source import ProgramDef, Read, SourceNode


def apply_memory_order(definition: ProgramDef, orders: Mapping[str, tuple[int, ...]]) -> ProgramDef:
    """The program with arguments in their memory order: for `A` with order (1, 0), `A[i, k]` becomes `A[k, i]`.

    `orders` has, by argument, its dimensions from the outermost in memory to the innermost.
    """
    arguments = tuple(
        replace(a, shape=tuple(a.shape[d] for d in orders[a.name])) if a.name in orders and a.shape is not None else a
        for a in definition.arguments
    )

    def reordered(node: SourceNode) -> SourceNode:
        inside = node.map(reordered)
        if isinstance(inside, Read) and inside.buffer in orders:
            return replace(inside, indices=tuple(inside.indices[d] for d in orders[inside.buffer]))
        return inside

    return replace(definition, arguments=arguments, stages=tuple(stage.map(reordered) for stage in definition.stages))
