"""transform_layout: set the memory layout of an intermediate buffer."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir.index_map import image_shape, inverse
from metasched.ir.integers.affine import NotAffine
from metasched.ir.nodes import Buffer, IndexMap
from metasched.lang import parse_index_map
from metasched.lang.instructions import Instruction
from metasched.schedule.batching import Batching
from metasched.schedule.context import Context
from metasched.schedule.index_maps import read_index_map
from metasched.schedule.kinds import BlockName, IndexMapText, IntExpr
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.parts import replace_temp, require_intermediate

OP = "transform_layout"


def _in_batches(batching: Batching, instruction: Instruction) -> None:
    """Each element lies as the map says, the batch's dimensions outside."""
    _, text, *sizes = instruction.args
    assert isinstance(text, str)
    batching.lay_out(instruction, parse_index_map(text), *sizes)


@primitive(in_batches=_in_batches)
def transform_layout(ctx: Context, block: BlockName, index_map: IndexMapText, *sizes: IntExpr) -> None:
    """Set the memory layout of the buffer that a block writes: the map takes indices to positions in memory.

    The program still indexes the buffer as before; only the addresses change. Padding where a tile does not divide a
    dimension is neither written nor read. A second layout replaces the first.

    Args:
        block: the block that writes the buffer.
        index_map: from the buffer's indices to those in memory, outermost first: "i, j -> j//16, i, j%16", or a
            function, `lambda i, j: (j // 16, i, j % 16)`.
        sizes: the values of names that the text divides by, in the order in which they appear, integers or integer
            random variables: "i, j -> j//t, i, j%t". A function uses random variables as they are.

    Requires:
        The buffer is intermediate, as the layout of inputs and outputs is the caller's, and not stored at a loop. The
        map is one to one: its outputs are sums of indices and their quotients and remainders by numbers and sizes, and
        determine the indices.

    Rewrite:
        temp C: f32[8, 64]                    ->     temp C: f32[8, 64]  layout i, j -> j // 16, i, j % 16
    """
    writer = ctx.block(OP, block)
    require_intermediate(ctx, OP, writer, "give it a cache with cache_read or cache_write, and transform that")
    buffer = ctx.func.buffer(writer.store.buffer)
    layout = read_index_map(ctx, OP, index_map, sizes, len(buffer.shape), f"`{buffer.name}`").map()
    if buffer.alignments:
        raise ScheduleError(
            OP, f"the rows of `{buffer.name}` are aligned already", (buffer.name,), f"{OP} before storage_align"
        )
    if buffer.roll is not None:
        raise ScheduleError(
            OP, f"`{buffer.name}` is a window that rolls", (buffer.name,), "it has a layout or a loop, not both"
        )
    _require_apart(buffer, layout, index_map)
    ctx.func = replace_temp(ctx.func, replace(buffer, layout=layout))


def _require_apart(buffer: Buffer, layout: IndexMap, text: str) -> None:
    """Raise unless the indices in memory determine every index."""
    outputs = [f"<{n}>" for n in range(len(layout.outputs))]
    lost = [name for name in layout.names if name not in inverse(layout, buffer.shape, outputs)]
    if lost:
        raise ScheduleError(
            OP,
            f'"{text}" does not keep the elements of `{buffer.name}` apart: `{lost[0]}` does not follow from it',
            (buffer.name,),
            "use every part of every index once, such as j//16 and j%16",
        )
    try:
        image_shape(layout, buffer.shape)
    except NotAffine as error:
        raise ScheduleError(
            OP,
            f'"{text}" leaves the memory of `{buffer.name}`: {error}',
            (buffer.name,),
            "start every index at 0",
        ) from None
