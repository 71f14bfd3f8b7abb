"""Cycles from one use of a tensor intrinsic to the next, by kernels that are compiled as all others are.

A kernel adds to several outputs in turn. All of these read one first operand, and a second each, so that a kernel with
more outputs takes longer by these uses and by nothing else: the loop, and what is done once to the shared operand, are
in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from metasched.calibration.cycles import CycleCounter
from metasched.ir.nodes import Expr, Load, Var
from metasched.ir.printer import print_expr
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.runtime.addresses import aligned_empty
from metasched.runtime.compiled import CompiledKernel, build
from metasched.schedule.annotations.flush_denormals import flush_denormals
from metasched.schedule.rewrite.parts import replace_loads
from metasched.schedule.tensor import Intrinsic, intrinsics
from metasched.schedule.trace import Schedule
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.target import Target

# Operands of so many steps stay in the first cache.
_STEPS = 8
# How often a kernel goes through them: it should take much longer than a call.
_PASSES = 512
# Tile registers are eight, and an operand of each kind takes one.
_FEW_TILES, _MANY_TILES = 2, 4


def intrinsics_of(target: Target) -> Mapping[str, Intrinsic]:
    """The tensor intrinsics that a target has instructions for, by name."""
    return {name: found for name, found in intrinsics().items() if found.features <= target.features}


@dataclass(frozen=True)
class TensorLoops:
    """Kernels of the tensor intrinsics of a machine."""

    counter: CycleCounter

    def throughput(self, name: str) -> float:
        """Cycles from one use of an intrinsic to the next, where none waits for another's result."""
        (few, kernel_of_few), (many, kernel_of_many) = self._kernels[name]
        fewer, more = (self.counter.least_call_cycles(kernel) for kernel in (kernel_of_few, kernel_of_many))
        return max(more - fewer, 0.0) / ((many - few) * _STEPS * _PASSES)

    @cached_property
    def _kernels(self) -> Mapping[str, tuple[tuple[int, Callable[[], None]], ...]]:
        target = self.counter.target
        return {
            name: tuple((count, _kernel(intrinsic, count, target)) for count in _numbers_of_outputs(intrinsic, target))
            for name, intrinsic in intrinsics_of(target).items()
        }


def _numbers_of_outputs(intrinsic: Intrinsic, target: Target) -> tuple[int, int]:
    """Enough for no use to wait for another, and more, all of which stay in registers."""
    if intrinsic.tiles:
        return _FEW_TILES, _MANY_TILES
    return target.registers * 3 // 8, target.registers * 5 // 8


def _kernel(intrinsic: Intrinsic, outputs: int, target: Target) -> Callable[[], None]:
    """A kernel with its arguments, whose uses of the intrinsic add to so many outputs in turn."""
    compiled = build(schedule_in_turn(intrinsic, outputs).func, target)
    return compiled.bind(*_zeros(compiled))


def uses_in_turn(intrinsic: Intrinsic, outputs: int) -> Program:
    """A program of as many products of the intrinsic, one after the other, for each of `outputs` outputs.

    Its last operand is another one for each output.
    """
    written, *read = intrinsic.operands
    declared, value = [], intrinsic.block.store.value
    for operand in read:
        outer = ("step", "output") if operand is read[-1] else ("step",)
        declared.append(_declared(intrinsic, operand, (_STEPS, outputs)[: len(outer)]))
        read_there = replace(operand, indices=(*map(Var, outer), *operand.indices))
        value = replace_loads(value, operand.buffer, partial(_always, read_there))
    return parse_program(
        f"program uses({', '.join(declared)}) -> {_declared(intrinsic, written, (outputs,))}:\n"
        f"    {written.buffer}[{', '.join(['output', *_axes(written)])}] = "
        f"sum[again < {_PASSES}, step, {', '.join(_reduced(intrinsic))}]({print_expr(value)})\n"
    )


def _always(read: Load, _: tuple[Expr, ...]) -> Load:
    return read


def _declared(intrinsic: Intrinsic, operand: Load, outer: tuple[int, ...]) -> str:
    shape = (*outer, *map(intrinsic.extent, _axes(operand)))
    return f"{operand.buffer}: {operand.type.value}[{', '.join(map(str, shape))}]"


def _axes(operand: Load) -> tuple[str, ...]:
    return tuple(map(print_expr, operand.indices))


def _reduced(intrinsic: Intrinsic) -> tuple[str, ...]:
    return intrinsic.axes[: len(intrinsic.axes) - len(intrinsic.operands[0].indices)]


def schedule_in_turn(intrinsic: Intrinsic, outputs: int) -> Schedule:
    """`uses_in_turn` with its outputs side by side in registers, inside of all steps."""
    written = intrinsic.operands[0]
    sch = Schedule(uses_in_turn(intrinsic, outputs))
    block = sch.get_block(written.buffer)
    if intrinsic.flushes_denormals:
        sch.annotate(block, flush_denormals.name, True)
    spatial, reduced = ("output", *_axes(written)), ("again", "step", *_reduced(intrinsic))
    loops = dict(zip((*spatial, *reduced), sch.get_loops(block), strict=True))
    inner = [loops[axis] for axis in intrinsic.block_axes]
    sch.reorder(loops["again"], loops["step"], loops["output"], *inner)
    sch.unroll(loops["output"])
    sch.tensorize(inner[0], intrinsic.name)
    return sch


def _zeros(kernel: CompiledKernel) -> list[np.ndarray[Any, Any]]:
    arrays = [aligned_empty(p.shape, p.dtype.numpy) for p in kernel.parameters if p.shape is not None]
    for array in arrays:
        array[...] = 0
    return arrays
