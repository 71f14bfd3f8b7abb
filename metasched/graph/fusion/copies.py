"""Programs that only copy: concatenations, slices, splits, permutations, whatever they were called.

Such a program has one stage, and each element of its output is an element of an input. The output falls into boxes,
each of which is a copy of elements whose indices are linear in those of the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from metasched.graph.placement import ValuePart
from metasched.graph.value_type import ValueType
from metasched.ir import query
from metasched.ir.integers.affine import ZERO, NotAffine, as_int, coefficient, substitute
from metasched.ir.nodes import Binary, BinOp, Expr, Func, Load, Select, Var
from metasched.ir.pitch import contiguous_run, is_packed, packed_strides
from metasched.support.by_identity import remembered_by_identity
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE

# More boxes than a concatenation has.
_MOST_BOXES = 256


@dataclass(frozen=True)
class CopiedBox:
    """Elements of an output that are copies of an input's.

    Attributes:
        input: the input's name in the program.
        begin: the first index, in the output.
        shape: how many indices there are along each of the output's dimensions.
        source: the index in the input of what the first is a copy of.
        steps: for each dimension of the input, how far the index moves for a step along each of the output's.

    """

    input: str
    begin: tuple[int, ...]
    shape: tuple[int, ...]
    source: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]

    def strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """Strides of the copied elements along the output's dimensions, where they lie in an input of these strides."""
        return tuple(
            sum(row[d] * stride for row, stride in zip(self.steps, strides, strict=True))
            for d in range(len(self.shape))
        )

    def offset(self, strides: Sequence[int]) -> int:
        """Where the first copied element lies in an input of these strides."""
        return sum(index * stride for index, stride in zip(self.source, strides, strict=True))

    def dimensions(self, shape: Sequence[int]) -> tuple[int | None, ...] | None:
        """For each dimension of an input of a shape, the output's dimension that it is; None for one of one element.

        None where this is no copy of the whole input.
        """
        found: list[int | None] = []
        for row, start, extent in zip(self.steps, self.source, shape, strict=True):
            along = [d for d, step in enumerate(row) if step and self.shape[d] > 1]
            if extent == 1 and not along:
                found.append(None)
            elif len(along) == 1 and row[along[0]] == 1 and start == 0 and self.shape[along[0]] == extent:
                found.append(along[0])
            else:
                return None
        used = [d for d in found if d is not None]
        return tuple(found) if sorted(used) == [d for d, n in enumerate(self.shape) if n > 1] else None


@remembered_by_identity
def copied_boxes(func: Func) -> tuple[CopiedBox, ...] | None:
    """The boxes of an unscheduled program that only copies; None for any other."""
    stages = query.blocks(func)
    if len(stages) != 1 or len(func.outputs) != 1 or func.scalars:
        return None
    (block,) = stages
    (output,) = func.outputs
    if block.reducer is not None or block.guards or block.index is not None or block.store.buffer != output.name:
        return None
    names = [index.name if isinstance(index, Var) else None for index in block.store.indices]
    shape = [as_int(extent) for extent in output.shape]
    whole = [(0, extent) for extent in shape if extent is not None]
    if len(whole) != len(shape):
        return None
    inputs = {b.name for b in func.inputs}
    boxes: list[CopiedBox] = []
    for value, box in _leaves(block.store.value, names, whole):
        found = _copied_box(value, names, box, inputs)
        if found is None or len(boxes) == _MOST_BOXES:
            return None
        boxes.append(found)
    return tuple(boxes)


def is_of_whole_lines(type_: ValueType, part: ValuePart) -> bool:
    """Whether the rows of a value begin on cache lines and are whole ones where it is that part of another.

    Where there are gaps between them, no vector is then of two rows, or of two lines.
    """
    steps = [s for s, n in zip(part.strides, type_.shape, strict=True) if n > 1]
    length = contiguous_run(type_.shape, part.strides)
    wanted = (length, part.offset, *(s for s in steps if s >= length))
    return all(n * type_.dtype.bytes % CACHE_LINE == 0 for n in wanted)


def may_be_computed_there(box: CopiedBox, whole: ValueType) -> bool:
    """Whether a value may lie in the box of the output that is a copy of it: without gaps, or in whole cache lines."""
    strides = packed_strides(whole.shape)
    offset = sum(index * stride for index, stride in zip(box.begin, strides, strict=True))
    there = is_of_whole_lines(ValueType(whole.dtype, box.shape), ValuePart("", offset, strides))
    return there or is_packed(box.shape, strides)


_Box = list[tuple[int, int]]
_Names = Sequence[str | None]


def _leaves(value: Expr, names: _Names, box: _Box) -> Iterator[tuple[Expr, _Box]]:
    """What an expression is in each box that its conditions divide a box into; whole where one is not understood."""
    if isinstance(value, Select):
        halves = _divide_box(value.cond, names, box)
        if halves is not None:
            for half, side in zip(halves, (value.then, value.otherwise), strict=True):
                if all(low < high for low, high in half):
                    yield from _leaves(side, names, half)
            return
    yield value, box


# How many the limit moves up, and whether the condition holds from there on, for a term that rises.
_LIMITS = {BinOp.LT: (0, False), BinOp.LE: (1, False), BinOp.GE: (0, True), BinOp.GT: (1, True)}
_MIRRORED_OPS = {BinOp.LT: BinOp.GT, BinOp.LE: BinOp.GE, BinOp.GE: BinOp.LE, BinOp.GT: BinOp.LT}


def _divide_box(cond: Expr, names: _Names, box: _Box) -> tuple[_Box, _Box] | None:
    """Where a comparison of one index with a number holds, and where it does not."""
    if not isinstance(cond, Binary) or cond.op not in _LIMITS:
        return None
    linear = _linear(Binary(BinOp.SUB, cond.a, cond.b), names)
    if linear is None:
        return None
    constant, steps = linear
    along = [d for d, step in enumerate(steps) if step]
    if len(along) != 1 or abs(steps[along[0]]) != 1:
        return None
    (d,), op = along, cond.op
    if steps[d] < 0:
        constant, op = -constant, _MIRRORED_OPS[op]
    up, rises = _LIMITS[op]
    low, high = box[d]
    limit = min(max(up - constant, low), high)
    below, above = ([*box[:d], part, *box[d + 1 :]] for part in ((low, limit), (limit, high)))
    return (above, below) if rises else (below, above)


def _copied_box(value: Expr, names: _Names, box: _Box, inputs: set[str]) -> CopiedBox | None:
    if not isinstance(value, Load) or value.buffer not in inputs:
        return None
    source, rows = [], []
    for index in value.indices:
        linear = _linear(index, names)
        if linear is None:
            return None
        constant, steps = linear
        source.append(constant + sum(step * low for step, (low, _) in zip(steps, box, strict=True)))
        rows.append(tuple(steps))
    begin, shape = tuple(low for low, _ in box), tuple(high - low for low, high in box)
    return CopiedBox(value.buffer, begin, shape, tuple(source), tuple(rows))


def _linear(index: Expr, names: _Names) -> tuple[int, list[int]] | None:
    """A constant, and the coefficient of each of the output's indices; None where that is not all."""
    constant = as_int(substitute(index, {name: ZERO for name in names if name is not None}))
    if constant is None:
        return None
    try:
        steps = [0 if name is None else as_int(coefficient(index, name)) for name in names]
    except NotAffine:
        return None
    whole = [step for step in steps if step is not None]
    return (constant, whole) if len(whole) == len(steps) else None
