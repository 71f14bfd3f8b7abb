"""Which tensor intrinsics fit a block, and its operands and result as one takes them: fused, padded, and packed."""

from __future__ import annotations

from functools import partial
from math import prod

from metasched.rules.tensor_packing import copy_rows, pack

import metasched as ms


def divide(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Divide variables that operands share out by a number: the channels of groups become groups and what is in one.

    Raises ScheduleError.
    """
    info = sch.describe(block)
    if not info.shared:
        return
    sizes = dict(info.shared)
    if info.output:
        sch.reindex(block, info.writes)
    names = [it.name for it in info.iters]
    parts = [f"{name}//{sizes[name]}, {name}%{sizes[name]}" if name in sizes else name for name in names]
    sch.transform_block_layout(block, f"{', '.join(names)} -> {', '.join(parts)}")


def prepare(sch: ms.Schedule, block: ms.BlockRV, fit: ms.TensorFit) -> ms.TensorFit:
    """Fuse variables where the fit says so, pad extents, and pack what does not lie ready.

    Returns the fit of the block as it is then: of variables that are multiples of the intrinsic's sizes. Raises
    ScheduleError.
    """
    prepared = _Preparation(sch, block, fit)
    if fit.fused:
        prepared.fuse()
    prepared.pad()
    prepared.lay_out()
    prepared.inline_copies_out()
    return prepared.now


class _Preparation:
    """A block on its way: `_copies` are the copies of operands made so far, by buffer, and `_out` those of the result,
    the last one first."""

    def __init__(self, sch: ms.Schedule, block: ms.BlockRV, fit: ms.TensorFit) -> None:
        self._sch = sch
        self._block = block
        self._fit = fit
        self._copies: dict[str, ms.BlockRV] = {}
        self._out: list[ms.BlockRV] = []

    @property
    def now(self) -> ms.TensorFit:
        """The fit of the block as it is now, of the same variables; what was fused is one."""

        def same(other: ms.TensorFit) -> bool:
            pairs = zip(self._fit.axes, other.axes, strict=True)
            return all(len(old.iters) > 1 or old.iters == new.iters for old, new in pairs)

        found = self._sch.tensor_fits(self._block, self._fit.intrinsic.name)
        return next(other for other in found if not other.fused and same(other))

    def fuse(self) -> None:
        """Let the block access copies that its own variables index, and fuse those variables."""
        sch, fit = self._sch, self._fit
        fused = [name for axis in fit.axes if len(axis.iters) > 1 for name in axis.iters]
        copies = [
            sch.reindex(self._block, x.buffer)
            for x in fit.operands
            if any(x.number in fit.uses[name] for name in fused)
        ]
        mapped = [self._block]
        for copy in copies:
            if sch.describe(copy).writes in {read.buffer for read in sch.describe(self._block).reads}:
                mapped.insert(0, copy)
                self._add(copy)
            else:
                self._out.append(copy)
        for block in mapped:
            sch.transform_block_layout(block, _fusion(sch.describe(block), fit))

    def pad(self) -> None:
        """Pad what the intrinsic's sizes do not divide."""
        sch, fit, info = self._sch, self.now, self._sch.describe(self._block)
        axes = [fit.axis_of(it.name) for it in info.iters]
        padding = [1 if axis is None or axis.padded == axis.extent else axis.size for axis in axes]
        if max(padding) == 1:
            return
        for copy in sch.pad_einsum(self._block, padding):
            if sch.describe(copy).sources == (info.name,):
                self._out.append(copy)
            else:
                self._add(copy)

    def lay_out(self) -> None:
        """Copy what does not lie ready, and pack the copies."""
        for number, operand in list(enumerate(self.now.operands))[1:]:
            if operand.buffer not in self._copies and not operand.ready:
                copied = self._sch.cache_read if operand.digits else self._sch.reindex
                self._add(copied(self._block, operand.buffer))
            packed = self.now.operands[number]
            if packed.buffer in self._copies:
                self._pack(number, self._copies[packed.buffer])
        result = self.now.operands[0]
        if result.ready:
            return
        if self._sch.describe(self._block).output or not result.digits:
            self._out.append(self._sch.reindex(self._block, result.buffer))
        self._sch.transform_layout(self._block, self.now.operands[0].layout)

    def _pack(self, number: int, copy: ms.BlockRV) -> None:
        """Pack a copy; one that pads is made row by row, and packed by another: under conditions, vectors are gathered
        element by element."""
        operand = self.now.operands[number]
        if self._sch.describe(copy).conditional and not operand.ready and operand.digits:
            copy_rows(self._sch, copy)
            copy = self._sch.cache_read(self._block, operand.buffer)
        pack(self._sch, copy, self.now.operands[number], self._columns(number))

    def _columns(self, number: int) -> int | None:
        """The dimension of an operand whose index is the variable that vector lanes run along; None without one."""
        (lanes,) = self.now.axis_of_lanes.iters
        buffer = self.now.operands[number].buffer
        read = next(read for read in self._sch.describe(self._block).reads if read.buffer == buffer)
        return read.bare.index(lanes) if lanes in read.bare else None

    def inline_copies_out(self) -> None:
        """Let what reads the result read it where the block writes it, so that at most one copy is left."""
        for copy in self._out:
            if not self._sch.describe(copy).output:
                self._sch.compute_inline(copy)

    def _add(self, copy: ms.BlockRV) -> None:
        """Note a copy of an operand; what only it reads is computed in it."""
        for source in self._sch.describe(copy).sources:
            producer = self._sch.get_block(source)
            info = self._sch.describe(producer)
            cheap = not info.reduces and not info.expensive and len(info.readers) == 1
            if cheap and not _pads_transposed(info) and self._sch.refusal(partial(_inline, producer)) is None:
                self._copies.pop(info.writes, None)
                self._sch.compute_inline(producer)
        self._copies[self._sch.describe(copy).writes] = copy


def _pads_transposed(info: ms.BlockInfo) -> bool:
    """Whether a block has conditions, and neighbours in it are read far apart: vectors of it would be gathered element
    by element, where it is not tiled by itself."""
    inner = info.iters[-1].name
    moved = [read.uses for read in info.reads if any(inner in use for use in read.uses)]
    return info.conditional and any(inner not in uses[-1] for uses in moved)


def _inline(block: ms.BlockRV, sch: ms.Schedule) -> None:
    sch.compute_inline(block)


def _fusion(info: ms.BlockInfo, fit: ms.TensorFit) -> str:
    """The index map that fuses the variables of a block, or of a copy with the same variables."""
    extents = {it.name: it.extent or 1 for it in info.iters}
    outputs: list[str] = []
    for name in extents:
        axis = fit.axis_of(name)
        if axis is None or len(axis.iters) == 1:
            outputs.append(name)
        elif name == axis.iters[0]:
            inner = [prod(extents[x] for x in axis.iters[n + 1 :]) for n in range(len(axis.iters))]
            outputs.append(" + ".join(f"{x}*{size}" for x, size in zip(axis.iters, inner, strict=True)))
    return f"{', '.join(extents)} -> {', '.join(outputs)}"


def fits_of(sch: ms.Schedule, block: ms.BlockRV, intrinsics: tuple[str, ...]) -> tuple[ms.TensorFit, ...]:
    """How a block fits intrinsics, once its quotients are divided: those of the target, and all where it has none.

    Raises ScheduleError where it fits none.
    """
    trial = sch.trial()
    divide(trial, block)
    fits: tuple[ms.TensorFit, ...] = trial.tensor_fits(block, *intrinsics)
    return tuple(fit for fit in fits if not _missing_features(sch, fit)) or fits


def obstacle_to_fit(sch: ms.Schedule, block: ms.BlockRV, fit: ms.TensorFit, most_padding: float) -> str | None:
    """Why an intrinsic that fits is not for this target, not allowed, or a waste; None where it is none of these."""
    name, missing = fit.intrinsic.name, _missing_features(sch, fit)
    if missing:
        return f"`{name}` would fit, and the target lacks {missing[0]}"
    if fit.intrinsic.flushes_denormals and not sch.allows("flush_denormals", block):
        return f'`{name}` takes denormals for zero, and "flush_denormals" is not allowed'
    if fit.waste > most_padding:
        return f"`{name}` would compute {fit.waste:.1f} times as much as needed, the rest for padding"
    return None


def _missing_features(sch: ms.Schedule, fit: ms.TensorFit) -> list[str]:
    """The instruction sets that an intrinsic needs and the target lacks, sorted."""
    return sorted(each for each in fit.intrinsic.features if not sch.target.has(each))
