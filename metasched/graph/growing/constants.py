"""Constants at several lengths as one, or as a program that computes it of the length.

Positions, masks and the like are computed from sizes, and so at load. At all lengths they may have the same elements
from the beginning on, or from the end backwards (as a row of a causal mask for the last token); or numbers that grow
with the length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.dtypes import INDEX
from metasched.graph.fusion.stages import parse_once
from metasched.graph.growing.sizes import LengthDependence, Lengths
from metasched.graph.ir import Array
from metasched.graph.site import dtype_of
from metasched.graph.text import at, indices
from metasched.graph.value_type import ValueType
from metasched.ir.program import Program
from metasched.reference.execution import reference
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class GrownConstant:
    """Elements of a constant, and the program that computes of them and the length what they are; None: as they are.

    `slopes` are what such a program reads besides: how much each element grows with the length.
    """

    elements: Array
    program: Program | None = None
    slopes: Array | None = None

    def evaluate(self, length: int, shape: Sequence[int]) -> Array:
        """The elements at a length, where it has a shape."""
        made = self.elements
        if self.program is not None:
            given = (self.elements, self.slopes, np.asarray(length, np.int64))
            made = np.asarray(reference(self.program)(*(array for array in given if array is not None)))
        return made[tuple(slice(0, extent) for extent in shape)]


def grown_constant(samples: Sequence[Array], lengths: Lengths) -> GrownConstant:
    """The constant that has these elements at the samples, with room for all of them at the longest length.

    Raises LengthDependence where it depends on the length in another way.
    """
    longest = samples[0]
    offsets = lengths.offsets([array.shape for array in samples])
    shape = [n if b is None else lengths.longest + b for n, b in zip(longest.shape, offsets, strict=True)]
    type_ = ValueType(dtype_of(longest), tuple(shape))
    if all(np.array_equal(longest[_leading_slices(array)], array) for array in samples[1:]):
        return GrownConstant(_cut(longest, type_.shape, [0] * longest.ndim))
    moves = [int(b is not None) for b in offsets]
    if all(np.array_equal(longest[_trailing_slices(longest, array)], array) for array in samples[1:]):
        begins = [move * (lengths.samples[0] - lengths.longest) for move in moves]
        return GrownConstant(_cut(longest, type_.shape, begins), _end_aligned_program(type_, moves, lengths.longest))
    slopes = None if any(moves) else _slopes(samples, lengths)
    if slopes is None:
        raise LengthDependence("its elements depend on the length, and not linearly")
    base = longest - slopes * longest.dtype.type(lengths.samples[0])
    return GrownConstant(base, _rising_program(type_), slopes)


def _leading_slices(array: Array) -> tuple[slice, ...]:
    return tuple(slice(0, extent) for extent in array.shape)


def _trailing_slices(longest: Array, array: Array) -> tuple[slice, ...]:
    return tuple(slice(n - extent, n) for n, extent in zip(longest.shape, array.shape, strict=True))


def _cut(array: Array, shape: Sequence[int], begins: Sequence[int]) -> Array:
    """The elements from an index on, in a shape that may be longer: zeros then."""
    found = array[tuple(slice(begin, begin + extent) for begin, extent in zip(begins, shape, strict=True))]
    if found.shape == tuple(shape):
        return np.ascontiguousarray(found).reshape(found.shape)
    made = np.zeros(tuple(shape), array.dtype)
    made[_leading_slices(found)] = found
    return made


def _end_aligned_program(type_: ValueType, moves: Sequence[int], longest: int) -> Program:
    """Elements that lie as far from the end as they do when the length is the longest."""
    over = indices(type_.rank)
    moved = [
        f"min({name} + ({longest} - length[]), {extent - 1})" if move else name
        for name, move, extent in zip(over, moves, type_.shape, strict=True)
    ]
    moved = [f"max({index}, 0)" if move else index for index, move in zip(moved, moves, strict=True)]
    return _program(type_, f"{at('Y', over)} = {at('A', moved)}", "A")


def _slopes(samples: Sequence[Array], lengths: Lengths) -> Array | None:
    """How much each element grows with the length, where these are whole numbers."""
    longest, shortest = samples[0], samples[-1]
    if longest.dtype == np.bool_ or not np.isfinite(longest).all():
        return None
    steps = np.asarray(np.rint((longest - shortest) / (lengths.samples[0] - lengths.samples[-1])), longest.dtype)
    rises = all(
        np.array_equal(longest - array, steps * longest.dtype.type(lengths.samples[0] - length))
        for array, length in zip(samples, lengths.samples, strict=True)
    )
    return steps if rises else None


def _rising_program(type_: ValueType) -> Program:
    over = indices(type_.rank)
    length = "length[]" if type_.dtype is INDEX else f"{type_.dtype}(length[])"
    return _program(type_, f"{at('Y', over)} = {at('A', over)} + {at('B', over)} * {length}", "AB")


def _program(type_: ValueType, stage: str, constants: str) -> Program:
    given = ", ".join(f"const {name}: {type_}" for name in constants)
    text = f"program at_length({given}, length: {INDEX}[]) -> Y: {type_}:\n    {stage}\n"
    return parse_once(text)
