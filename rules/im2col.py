"""Convolutions as products of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from metasched.rules.facts import Factored, Placed, Tiled

import metasched as ms

MATRIX, DIRECT = "matrix", "direct"


@ms.rule
def im2col(sch: ms.Schedule, block: ms.BlockRV, *, terms: int = 32) -> ms.Skip | None:
    """Compute a reduction over windows as a product of matrices, where rows of its result fill vectors badly.

    Channels of 7 by 7 pixels have rows of 7: as a matrix with a column for each pixel, their rows are 49 long
    (Chellapilla, Puri and Simard 2006). The windows are unfolded ahead, in a copy that has a row for each term of the
    reduction; where there is no window, as in a convolution of one pixel, pixels are in a row as they are, and there is
    no copy. A structural choice: as a matrix, or direct.

    Args:
        terms: the fewest terms of a reduction to apply this to.
    """
    info = sch.describe(block)
    form = _form(info, sch.target.lanes(info.dtype), terms)
    if isinstance(form, str):
        return ms.skip(form)
    if sch.facts(block, Tiled) is not None or sch.facts(block, Factored) is not None:
        return ms.skip("its loops are tiles already")
    reason = sch.refusal(partial(_unfold, block=block, form=form))
    if reason is not None:
        return ms.skip(reason)
    if sch.choose("form", [MATRIX, DIRECT]) == MATRIX:
        _unfold(sch, block, form)
    return None


@dataclass(frozen=True)
class _Form:
    """`pixels` become the columns and `terms` the rows of the matrix that `windows` is unfolded to.

    `iters` are the names of all variables of the block, `seen` of those that `windows` uses, in order; `extents` are by
    name. `writes` is the output that it writes, if it does. `in_a_row`: the pixels of `windows` are in a row as it is.
    """

    windows: str
    writes: str | None
    iters: tuple[str, ...]
    seen: tuple[str, ...]
    pixels: tuple[str, ...]
    terms: tuple[str, ...]
    extents: dict[str, int]
    in_a_row: bool

    def fused(self, names: tuple[str, ...]) -> str:
        """The number of what the variables say, the last of them the fastest."""
        text = names[0]
        for name in names[1:]:
            text = f"({text})*{self.extents[name]} + {name}"
        return text

    def columns(self) -> str:
        """The map of the block's variables."""
        others = [name for name in self.iters if name not in (*self.pixels, *self.terms)]
        return f"{', '.join(self.iters)} -> {', '.join([*others, self.fused(self.pixels), self.fused(self.terms)])}"

    def rows(self) -> str:
        """The order of the copy's variables, and in memory: it is made row by row, without a division."""
        others = [name for name in self.seen if name not in (*self.pixels, *self.terms)]
        return f"{', '.join(self.seen)} -> {', '.join([*others, *self.terms, *self.pixels])}"


def _form(info: ms.BlockInfo, lanes: int, terms: int) -> _Form | str:
    """How the block is a product of matrices, or why it is none."""
    reason = _find_obstacle(info)
    if reason is not None:
        return reason
    sizes = {it.name: it.extent for it in info.iters if it.extent is not None}
    spatial = [it.name for it in info.spatial if sizes[it.name] > 1]
    reason = _fine_as_it_is([sizes[name] for name in spatial], lanes)
    if reason is not None:
        return reason
    windows = [read for read in info.reads if spatial[-1] in read.iters]
    if len(windows) != 1:
        return "both operands move along its rows"
    (window,), (filter_,) = windows, [read for read in info.reads if read not in windows]
    return _factor_form(info, window, filter_, _last_variables(spatial, window, filter_), sizes, terms)


def _find_obstacle(info: ms.BlockInfo) -> str | None:
    """Why the block is no reduction over two operands that nothing was done to yet."""
    if not info.reduces or not info.initialises or info.positions:
        return "it is not a reduction"
    if not info.trivial:
        return "it is scheduled already"
    if len(info.reads) != 2:
        return "it is no product of two operands"
    return "its extents depend on tile sizes" if any(it.extent is None for it in info.iters) else None


def _fine_as_it_is(spatial: list[int], lanes: int) -> str | None:
    """Why a result of these extents gains nothing by longer rows."""
    if not spatial:
        return "it has a single result"
    row = spatial[-1]
    fills = row >= 2 * lanes and -(-row // lanes) * lanes <= 1.05 * row
    return f"its rows ({row} elements) fill vectors" if fills else None


def _factor_form(
    info: ms.BlockInfo,
    window: ms.ReadInfo,
    filter_: ms.ReadInfo,
    pixels: list[str],
    sizes: dict[str, int],
    terms: int,
) -> _Form | str:
    """The form with these operands and columns, or why there is none."""
    if len(pixels) < 2:
        return "its rows are no parts of a longer one"
    reduced = [it.name for it in info.reduction]
    if not set(reduced) <= window.iters & filter_.iters:
        return "an operand does not have all terms of the reduction"
    if (info.size(info.reduction) or 0) < terms:
        return "its reduction is so short that unfolding would take longer"
    in_order = dict.fromkeys(name for use in filter_.uses for name in reduced if name in use)
    return _Form(
        window.buffer,
        info.writes if info.output else None,
        tuple(sizes),
        tuple(name for name in sizes if name in window.iters),
        tuple(pixels),
        tuple(in_order),
        sizes,
        _are_consecutive(window, pixels, sizes),
    )


def _last_variables(spatial: list[str], window: ms.ReadInfo, filter_: ms.ReadInfo) -> list[str]:
    """The last variables that the windows alone move along."""
    found: list[str] = []
    for name in reversed(spatial):
        if name not in window.iters or name in filter_.iters:
            break
        found.insert(0, name)
    return found


def _are_consecutive(window: ms.ReadInfo, pixels: list[str], sizes: dict[str, int]) -> bool:
    """Whether the last dimensions are the pixels, whole: then nothing is read beside them."""
    last = window.uses[-len(pixels) :]
    alone = [{name for name in use if sizes[name] > 1} == {pixel} for use, pixel in zip(last, pixels, strict=False)]
    extents = tuple(sizes[pixel] for pixel in pixels)
    return len(last) == len(pixels) and all(alone) and window.shape[-len(pixels) :] == extents


def _unfold(sch: ms.Schedule, block: ms.BlockRV, form: _Form) -> None:
    if form.in_a_row:
        # A tile of pixels is no tile of rows, and part of a producer under it would be more than what is read.
        for name in sch.describe(block).sources:
            if sch.describe(sch.get_block(name)).writes == form.windows:
                sch.add_fact(sch.get_block(name), Placed())
    else:
        copy = sch.reindex(block, form.windows)
        sch.transform_layout(copy, form.rows())
        sch.transform_block_layout(copy, form.rows())
        sch.add_fact(copy, Placed())
    if form.writes is not None:
        result = sch.reindex(block, form.writes)
        sch.fuse(*sch.get_loops(result)[-len(form.pixels) :])
    sch.transform_block_layout(block, form.columns())
