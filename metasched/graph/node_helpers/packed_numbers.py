"""Weights of a few bits each, packed in bytes, with a scale and a zero point for each block of them.

They are integers, or floats of 4 bits. A matrix of them is a program that unpacks it, `(number - zero point) * scale`,
from bytes that lie in panels of columns: what the product with one row reads is one run of memory then, and a register
tile's columns lie side by side. Bytes and scales are moved into panels once, when constants are computed. The matrix
itself is larger than what it is made of, so it is computed where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from metasched.dtypes import DType, DTypeKind
from metasched.graph.builder import GraphValue
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, indices
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

BITS = (2, 4, 8)
# Columns of a panel: a cache line of bytes, and four vectors of f32 with AVX-512.
_PANEL = 64

# Of all blocks; or for each block, integers or floats in the shape of the scales.
ZeroPoints: TypeAlias = GraphValue | int


@dataclass(frozen=True)
class PackedWeights:
    """Numbers of `bits` bits each, in rows, the first in the lowest bits of a row's first byte.

    `bytes` are `u8[rows, bytes of a row]`, `scales` and `zeros` are `[rows, blocks of a row]`, where a block is of
    `block` numbers; `length` numbers of a row are used. Of `floats`, which are f4e2m1, there are no zero points.
    """

    bytes: GraphValue
    scales: GraphValue
    zeros: ZeroPoints
    bits: int
    block: int
    length: int
    floats: bool = False

    @property
    def parts(self) -> dict[str, GraphValue]:
        """The arrays by their names in programs."""
        zeros = {} if isinstance(self.zeros, int) else {"Z": self.zeros}
        return {"Q": self.bytes, "S": self.scales, **zeros}


def number_in(byte: str, place: str, bits: int) -> str:
    """The text of a number in a byte, as an i32, at a place (an index of the numbers) that counts on over bytes."""
    whole, each = f"i32({byte})", 8 // bits
    if each == 1:
        return whole
    text = f"{whole} % {2**bits}"
    for n in range(1, each):
        # The highest are shifted alone; what is below them is masked as well.
        part = f"{whole} // {2 ** (n * bits)}" + ("" if n == each - 1 else f" % {2**bits}")
        text = f"{part} if {place} % {each} == {n} else {text}"
    return f"({text})"


def number_type(x: GraphValue) -> DType:
    """The type of a value's numbers, which one of more bits may hold."""
    if not x.bits or x.type.dtype.is_float:
        return x.type.dtype
    return next(d for d in DType if d.digits == x.bits and d.properties.kind is x.type.dtype.properties.kind)


def numbers_in(site: NodeSite, packed: GraphValue, bits: int, length: int, dtype: DType = DType.U8) -> GraphValue:
    """The first `length` numbers in the last dimension of bytes, each an element of an integer type, or f4e2m1."""
    over = indices(packed.rank)
    text = number_in(at("A", (*over[:-1], _divide_place(over[-1], 8 // bits))), over[-1], bits)
    if dtype.is_float:
        text = _float_of(text)
    elif not dtype.is_unsigned:
        half = 2 ** (bits - 1)
        text = f"({text} + {half}) % {2 * half} - {half}"
    return site.single([f"{at('Y', over)} = {dtype}({text})"], ValueType(dtype, (*packed.shape[:-1], length)), A=packed)


def _float_of(code: str) -> str:
    """The text of the f32 number that a code of f4e2m1 is. Its magnitudes are 0, .5, 1, 1.5, 2, 3, 4 and 6."""
    size = f"({code} % 8)"
    halves = f"({size} if {size} < 4 else 2 * {size} - 4 if {size} < 6 else 4 * {size} - 16)"
    return f"f32({halves}) * (0.5 if {code} < 8 else -0.5)"


def _code_of(number: str) -> str:
    """The text of the code of f4e2m1, as an i32, that an f32 number of the type has; of zero, that without a sign."""
    size = f"abs({number})"
    code = f"i32({size} * 2.0 if {size} < 2.0 else {size} + 2.0 if {size} < 4.0 else {size} * 0.5 + 4.0)"
    return f"({code} + (8 if {number} < 0.0 else 0))"


def pack_matrix(site: NodeSite, x: GraphValue, summed: int) -> GraphValue:
    """The numbers of a matrix of few bits, as u8[rows, bytes of a row], where rows lie along the dimension `summed`.

    Signed numbers are half of their range larger.
    """
    each, rows, length = 8 // x.bits, x.shape[1 - summed], x.shape[summed]
    parts = []
    for n in range(each):
        place = f"b * {each} + {n}"
        read = at("A", (place, "j") if summed == 0 else ("j", place))
        element = _code_of(f"f32({read})") if x.type.dtype.is_float else f"i32({read}) + {_offset(x)}"
        number = f"({element} if {place} < {length} else 0)" if length % each else f"({element})"
        parts.append(number if n == 0 else f"{number} * {2 ** (n * x.bits)}")
    type_ = ValueType(DType.U8, (rows, -(-length // each)))
    return site.single([f"Y[j, b] = u8({' + '.join(parts)})"], type_, A=x)


def _offset(x: GraphValue) -> int:
    """What makes numbers of few bits unsigned."""
    return int(2 ** (x.bits - 1)) if x.type.dtype.properties.kind is DTypeKind.SIGNED else 0


def pack_weights(
    site: NodeSite, x: GraphValue, scales: GraphValue, zeros: GraphValue | None, summed: int, block: int
) -> PackedWeights:
    """A matrix of few bits, packed along the dimension `summed`, with scales and zero points of blocks along it.

    Both are in the shape of the matrix but for that dimension, along which they have an element for each block.
    """
    offset, of_rows = _offset(x), _rows_of(site, scales, summed)
    middle: ZeroPoints = offset
    if zeros is not None:
        middle = site.elementwise(f"u8(i32({{0}}) + {offset})", _rows_of(site, zeros, summed), dtype=DType.U8)
    bytes_ = pack_matrix(site, x, summed)
    return PackedWeights(bytes_, of_rows, middle, x.bits, block, x.shape[summed], floats=x.type.dtype.is_float)


def _rows_of(site: NodeSite, part: GraphValue, summed: int) -> GraphValue:
    """A matrix with a row for each of its columns where `summed` is the first dimension."""
    if summed == 1:
        return part
    return site.single(["Y[j, b] = A[b, j]"], ValueType(part.type.dtype, part.shape[::-1]), A=part)


def unpack_rows(site: NodeSite, weights: PackedWeights) -> GraphValue:
    """The values of packed numbers, in the scales' type; the rows may have any number of dimensions."""
    over = indices(weights.bytes.rank)
    dtype = weights.scales.type.dtype
    text = _value_text(weights, over[-1], lambda name, step: at(name, (*over[:-1], _divide_place(over[-1], step))))
    type_ = ValueType(dtype, (*weights.bytes.shape[:-1], weights.length))
    return site.single([f"{at('Y', over)} = {cast(text, DType.F32, dtype)}"], type_, **weights.parts)


def unpack_matrix(site: NodeSite, weights: PackedWeights, summed: int = 0) -> GraphValue:
    """What the numbers stand for, in f32, with rows of numbers along the dimension `summed`: by default they become
    columns, f32[length, rows].
    """
    (rows, _) = weights.bytes.shape
    width = min(_PANEL, rows)
    text = _value_text(
        weights, "k", lambda name, step: at(name, (f"j // {width}", _divide_place("k", step), f"j % {width}"))
    )
    panels = {name: arrange_in_panels(site, part, width) for name, part in weights.parts.items()}
    over, shape = ("k", "j"), (weights.length, rows)
    if summed == 1:
        over, shape = over[::-1], shape[::-1]
    return site.single([f"{at('Y', over)} = {text}"], ValueType(DType.F32, shape), **panels)


def _value_text(weights: PackedWeights, place: str, read: Callable[[str, int], str]) -> str:
    """The text of `(number - zero point) * scale` in f32; `read` gives that of a part's element, of which each is for
    so many numbers.
    """
    number, scale = number_in(read("Q", 8 // weights.bits), place, weights.bits), read("S", weights.block)
    scale = cast(scale, weights.scales.type.dtype, DType.F32)
    if weights.floats:
        return f"{_float_of(number)} * {scale}"
    if isinstance(weights.zeros, int):
        return f"f32({number} - {weights.zeros}) * {scale}"
    zero = read("Z", weights.block)
    if weights.zeros.type.dtype.is_integer:
        return f"f32({number} - i32({zero})) * {scale}"
    return f"(f32({number}) - {cast(zero, weights.zeros.type.dtype, DType.F32)}) * {scale}"


def _divide_place(place: str, step: int) -> str:
    return place if step == 1 else f"{place} // {step}"


def arrange_in_panels(site: NodeSite, part: GraphValue, width: int) -> GraphValue:
    """Rows side by side, so many in a panel, as [panels, elements of a row, width]; the last is filled with zeros."""
    rows, length = part.shape
    panels = -(-rows // width)
    row = f"p * {width} + c"
    text = f"A[{row}, k]" + (f" if {row} < {rows} else 0" if rows % width else "")
    return site.single([f"Y[p, k, c] = {text}"], ValueType(part.type.dtype, (panels, length, width)), A=part)
