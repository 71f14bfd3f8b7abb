"""Pieces of a program's text: index variables, subscripts that broadcast, literals."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from metasched.dtypes import DType, float_format, integer_range
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.value_type import ValueType

# Integers beyond these are not written as literals.
_LARGEST = 2**31


def fresh_name(name: str, taken: Container[str], mark: str = "'") -> str:
    """A name that is not taken: this one, with as many marks behind it as that needs."""
    while name in taken:
        name += mark
    return name


def indices(rank: int, letter: str = "i") -> tuple[str, ...]:
    """Names of the index variables of a stage of so many dimensions."""
    return tuple(f"{letter}{n}" for n in range(rank))


def at(name: str, subscripts: Sequence[str]) -> str:
    """A read or a left-hand side."""
    return f"{name}[{', '.join(subscripts)}]"


def declare_buffer(name: str, type_: ValueType) -> str:
    """The declaration of an intermediate buffer."""
    return f"{name}: {type_}"


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that these have together, by NumPy's rule. Raises Unsupported where there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    out = []
    for dim in range(rank):
        extents = {shape[dim - rank + len(shape)] for shape in shapes if dim >= rank - len(shape)} - {1}
        if len(extents) > 1:
            raise Unsupported(f"the shapes {' and '.join(map(str, shapes))} do not broadcast")
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def read(name: str, shape: tuple[int, ...], over: Sequence[str], extents: tuple[int, ...]) -> str:
    """The element of a tensor that is broadcast to `extents`, at the indices `over`."""
    skipped = len(extents) - len(shape)
    return at(
        name,
        ["0" if extent == 1 else over[skipped + dim] for dim, extent in enumerate(shape)],
    )


def place_within(place: str, extent: int) -> str:
    """A place where there is one: itself, or the first or last of so many."""
    return f"min(max({place}, 0), {extent - 1})"


def saturates(dtype: DType) -> bool:
    """Whether ONNX's nodes keep numbers in the range of a float type, unless they say otherwise: of those of 8 bits."""
    return dtype.is_float and dtype.bits == DType.U8.bits


def saturate(text: str, dtype: DType) -> str:
    """The text of an f32 value in a float type, kept in its range; NaN stays what it is there."""
    return f"{dtype}({clamp_to_range(text, dtype)})"


def clamp_to_range(text: str, dtype: DType) -> str:
    """The text of an f32 value between the lowest and the largest number of a float type."""
    kind = float_format(dtype)
    return f"min(max({text}, {real(kind.lowest)}), {real(kind.largest)})"


def number(value: float | bool, dtype: DType) -> str | None:
    """A literal of a type; None where there is none: of NaN, and of large integers."""
    if dtype.is_bool:
        return "True" if value else "False"
    if dtype.is_integer:
        return None if abs(int(value)) >= _LARGEST else _parenthesise_negative(str(int(value)))
    value = float(value)
    if math.isnan(value) or (value == 0 and math.copysign(1, value) < 0):
        return None
    return _parenthesise_negative(repr(value))


def limits(dtype: DType) -> tuple[str, str]:
    """The least and the largest number of a type, as a program says them where a number of the type is wanted."""
    if dtype.is_float:
        return ("-inf", "inf")
    if dtype.is_bool:
        return ("False", "True")
    lowest, highest = integer_range(dtype)
    return (str(lowest), str(highest))


def real(value: float) -> str:
    """A float literal. Raises Unsupported for NaN."""
    text = number(float(value) + 0.0, DType.F64)
    if text is None:
        raise Unsupported("the language has no literal for NaN")
    return text


def _parenthesise_negative(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def cast(text: str, given: DType, wanted: DType) -> str:
    """An expression of one type as another; nothing is written where they are the same."""
    return text if given is wanted else f"{wanted}({text})"


def operand_text(letter: str, operand: GraphValue, over: Sequence[str], extents: tuple[int, ...]) -> str:
    """How a broadcast operand is written in an expression: a constant of one element is a literal, if it can be."""
    if operand.constant is not None and operand.type.size == 1:
        literal = number(operand.constant.reshape(-1)[0].item(), operand.type.dtype)
        # A literal zero as a divisor is a mistake in the language.
        if literal is not None and operand.constant.reshape(-1)[0]:
            return literal
    return read(letter, operand.shape, over, extents)


def index_ranges(names: Sequence[str], extents: Sequence[int]) -> str:
    """The indices of a reduction with their ranges: `r0 < 3, r1 < 4`."""
    return ", ".join(f"{name} < {extent}" for name, extent in zip(names, extents, strict=True))
