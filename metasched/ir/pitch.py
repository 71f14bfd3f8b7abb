"""Arguments that are parts of larger arrays: contiguous rows, and a larger stride of an outer dimension.

Where an array lies is the caller's business: neither a program nor its schedule mentions it. So one task, and one
trace, serve a program wherever its arguments lie; strides are put into the scheduled program right before it is
lowered, as alignments, which lowering and the features of the cost model know from intermediates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Alignment, Buffer, Const, Func


def packed_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Elements between neighbours along each dimension of a C-contiguous array."""
    step, steps = 1, []
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return tuple(reversed(steps))


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of memory from the first element of an array to its last, both included."""
    if 0 in shape:
        return 0
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def is_packed(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether an array of these strides, in elements, fills its memory in C order."""
    packed = zip(shape, strides, packed_strides(shape), strict=True)
    return all(extent == 1 or stride == wanted for extent, stride, wanted in packed)


def is_pitched(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a buffer may have these strides: dimensions nest in order, and the innermost rows are contiguous.

    Rows of one element may lie anywhere: the last dimension says that this is what they are.
    """
    row, single = 1, bool(shape) and shape[-1] == 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 1:
            continue
        if stride < row or (row == 1 and stride != 1 and not single):
            return False
        row = (extent - 1) * stride + row
    return True


def reshape_strides(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> tuple[int, ...] | None:
    """The strides of the same elements in another shape; None where no strides give them their order."""
    if 0 in shape:
        return packed_strides(to)  # no elements, and any strides are theirs
    chunks = _chunks(shape, strides)
    found: list[int] = []
    size, step = chunks.pop() if chunks else (1, 1)
    inside = 1
    for extent in reversed(to):
        if extent == 1:
            found.append(step * inside)
            continue
        if inside == size and chunks:
            (size, step), inside = chunks.pop(), 1
        if size % (inside * extent):
            return None
        found.append(step * inside)
        inside *= extent
    return tuple(reversed(found)) if inside == size and not chunks else None


def _chunks(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Dimensions put together while one stride serves them: sizes and strides, outermost first."""
    found: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if found and found[-1][1] == extent * stride:
            found[-1] = (found[-1][0] * extent, stride)
        else:
            found.append((extent, stride))
    return found


def contiguous_run(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements lie one after another in memory, from one whose innermost indices are 0."""
    length = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != length:
            break
        length *= extent
    return length


def set_strides(func: Func, strides: Mapping[str, Sequence[int]]) -> Func:
    """The program with some of its inputs and outputs at these strides, in elements. See `is_pitched`."""
    inputs, outputs = (
        tuple(_align_buffer(b, strides[b.name]) if b.name in strides else b for b in group)
        for group in (func.inputs, func.outputs)
    )
    return replace(func, inputs=inputs, outputs=outputs)


def _align_buffer(buffer: Buffer, strides: Sequence[int]) -> Buffer:
    shape = [as_int(extent) for extent in buffer.shape]
    extents = [extent for extent in shape if extent is not None]
    assert len(extents) == len(strides), buffer
    assert is_pitched(extents, strides), (buffer, strides)
    step, alignments = 1, []
    for axis in reversed(range(len(extents))):
        if extents[axis] != 1 and strides[axis] != step:
            # The least multiple of the stride that is no less than what the dimensions inside take: the stride.
            alignments.append(Alignment(axis, Const(strides[axis]), Const(0)))
            step = strides[axis]
        step *= extents[axis]
    return replace(buffer, alignments=tuple(reversed(alignments)))
