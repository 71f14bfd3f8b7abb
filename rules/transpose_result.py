"""Reductions with another dimension of their result last, and what they give transposed."""

from __future__ import annotations

from functools import partial

import metasched as ms

TRANSPOSED, AS_WRITTEN = "transposed", "as written"


@ms.rule
def transpose_result(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Compute a strided reduction with a dimension last that no stride cuts, and transpose its result.

    In a transposed convolution with channels first, `(w + s) % 2 == 0` says which terms an element of a row has:
    neighbours have different terms, so that vectors are of every other element and store one by one. Channels all have
    the same terms. With them last, vectors store whole, and what reads the result afterwards, or a copy of it,
    transposes it (see `tile_transposition`). A structural choice: transposed, or as written.
    """
    info = sch.describe(block)
    order = _order(info, sch.target.lanes(info.dtype))
    if isinstance(order, str):
        return ms.skip(order)
    steps = partial(_transpose, block=block, order=order)
    reason = sch.refusal(steps)
    if reason is not None:
        return ms.skip(reason)
    if sch.choose("result", [TRANSPOSED, AS_WRITTEN]) == TRANSPOSED:
        steps(sch)
    return None


def _order(info: ms.BlockInfo, lanes: int) -> tuple[str, ...] | str:
    """The block's variables with the last spatial one that vectors can run along moved behind the others, or why none
    is."""
    if not info.reduces or not info.initialises or info.positions:
        return "it is not a reduction"
    if not info.trivial:
        return "it is scheduled already"
    reduced = {it.name for it in info.reduction}
    strided = {name for found in info.remainders if found.iters & reduced for name in found.iters}
    spatial = [it.name for it in info.spatial]
    if not spatial or spatial[-1] not in strided:
        return "neighbours along its last dimension have the same terms"
    whole = [it.name for it in info.spatial if it.name not in strided and (it.extent or 0) >= lanes]
    if not whole:
        return "no other dimension of its result fills a vector"
    last = whole[-1]
    return (*(name for name in spatial if name != last), last, *(it.name for it in info.reduction))


def _transpose(sch: ms.Schedule, block: ms.BlockRV, order: tuple[str, ...]) -> None:
    info = sch.describe(block)
    if info.output:
        sch.reindex(block, info.writes)
    sch.transform_block_layout(block, f"{', '.join(it.name for it in info.iters)} -> {', '.join(order)}")
