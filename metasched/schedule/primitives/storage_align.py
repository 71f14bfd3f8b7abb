"""storage_align: set the stride of a dimension of an intermediate buffer."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir.nodes import Alignment, IndexMap, Var
from metasched.lang.instructions import Instruction
from metasched.schedule.batching import Batching
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, IntExpr, Number
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.parts import replace_temp, require_intermediate

OP = "storage_align"


def _in_batches(batching: Batching, instruction: Instruction) -> None:
    """Align the dimension of an element, behind those of the batch."""
    buffer, dims = batching.written_buffer(instruction)
    if buffer.layout is None and dims != tuple(range(len(dims))):
        names = tuple(f"d{n}" for n in range(len(buffer.shape) - len(dims)))
        batching.lay_out(instruction, IndexMap(names, tuple(Var(name) for name in names)))
    block, axis, *others = instruction.args
    assert isinstance(axis, int)
    batching.run(replace(instruction, args=(block, axis + len(dims), *others)))


@primitive(in_batches=_in_batches)
def storage_align(ctx: Context, block: BlockName, axis: Number, factor: IntExpr, offset: IntExpr) -> None:
    """Make the stride of a dimension a multiple of `factor` elements, plus `offset`.

    Rows whose stride is a power of two compete for a few cache sets; an offset of a cache line or a vector avoids these
    conflicts. The gaps are neither written nor read. The alignment applies to the final array, shrunk to the region
    used inside its loops; an array in vector registers has no strides.

    Args:
        block: the block that writes the buffer.
        axis: the dimension, 0 the outermost; counted in memory order where the buffer has a layout.
        factor: an integer or an integer random variable, in elements.
        offset: an integer or an integer random variable, in elements.

    Requires:
        The buffer is intermediate. The dimension is not the last one, which stays contiguous.

    Rewrite:
        temp C: f32[64, 64]                   ->     temp C: f32[64, 64]  aligned(0, 64, 16)
    """
    writer = ctx.block(OP, block)
    require_intermediate(ctx, OP, writer, "give it a cache with cache_read or cache_write, and align that")
    buffer = ctx.func.buffer(writer.store.buffer)
    rank = len(buffer.shape if buffer.layout is None else buffer.layout.outputs)
    if not 0 <= axis < rank - 1:
        raise ScheduleError(
            OP,
            f"axis {axis} is no dimension of `{buffer.name}` that has rows",
            (buffer.name,),
            f"the rows of its {rank} dimensions are along 0 to {rank - 2}" if rank > 1 else "it has a single row",
        )
    ctx.require(
        factor >= 1, ScheduleError(OP, "the factor is less than 1", (buffer.name,), "1 leaves rows as they are")
    )
    ctx.require(
        offset >= 0, ScheduleError(OP, "the offset is negative", (buffer.name,), "0 is a multiple of the factor")
    )
    kept = tuple(a for a in buffer.alignments if a.axis != axis)
    alignments = tuple(sorted((*kept, Alignment(axis, factor, offset)), key=lambda a: a.axis))
    ctx.func = replace_temp(ctx.func, replace(buffer, alignments=alignments))
