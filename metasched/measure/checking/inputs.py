"""The data a program is checked and timed on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.dtypes import INDEX, DType, elements, integer_range
from metasched.errors import KernelError
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Buffer, Func
from metasched.measure.checking.place_values import place_values
from metasched.support.calls import takes
from metasched.support.data_classes import dataclass

Array = NDArray[Any]
Maker = Callable[[np.random.Generator, tuple[int, ...], "np.dtype[Any]"], Array]
# What the caller may give for an argument: an array (or number), a range, or a function that makes an array.
InputSpec = Array | float | tuple[float, float] | Maker
Inputs = Mapping[str, InputSpec]

# What a function that makes an array is called with.
_MADE_OF = ("generator", "shape", "dtype")
_MADE_BY = f"({', '.join(_MADE_OF)})"
_NO_NUMBERS = "OSUMm"  # NumPy's kinds of what is no number: objects, texts, dates
_LEAST, _MOST = 0.25, 1.25  # magnitudes that are drawn: see `metasched.measure.checking.tolerance`
_USUAL_RANGE = (-100, 100)  # integers of which nothing says what they are


@dataclass(frozen=True)
class InputArgument:
    """An input buffer or a scalar: `shape` is () for a scalar. What others are indexed by is in [0, `below`).

    What is compared with places is worth drawing from `places`, inclusive bounds that the type may not hold.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    below: int | None = None
    places: tuple[int, int] | None = None


@dataclass(frozen=True)
class Given:
    """The inputs that the caller gave, as data: whole arrays, or ranges (low, high), by name."""

    arrays: Mapping[str, Array]
    ranges: Mapping[str, tuple[float, float]]


def arguments(func: Func) -> tuple[InputArgument, ...]:
    """The arguments of a program, in calling order."""
    places = place_values(func)
    buffers = {b.name: _argument_of(func, b, places.get(b.name)) for b in func.inputs}
    scalars = {s.name: InputArgument(s.name, (), s.dtype, None, places.get(s.name)) for s in func.scalars}
    return tuple((buffers | scalars)[name] for name in func.order)


def _argument_of(func: Func, buffer: Buffer, places: tuple[int, int] | None) -> InputArgument:
    below = None if buffer.below is None else as_int(buffer.below)
    return InputArgument(buffer.name, shape_of(func, buffer.name), buffer.dtype, below, places)


def shape_of(func: Func, buffer: str) -> tuple[int, ...]:
    """The shape of a buffer of a program whose sizes are all known."""
    shape = []
    for extent in func.buffer(buffer).shape:
        size = as_int(extent)
        assert size is not None, "programs that are measured have constant shapes"
        shape.append(size)
    return tuple(shape)


def require_inputs(func: Func, inputs: Inputs | None) -> None:
    """Raises KernelError for what does not fit the program, as far as that shows without calling functions."""
    if inputs is None:
        return
    if not isinstance(inputs, Mapping):
        raise KernelError(
            f"`inputs` is {inputs!r}; it says by name what data an argument takes: {{'{func.order[0]}': (low, high)}}"
        )
    known = {argument.name: argument for argument in arguments(func)}
    for name, spec in inputs.items():
        if name not in known:
            raise KernelError(f"inputs: {func.name} has no argument `{name}`; it has {', '.join(func.order)}")
        try:
            _require_fitting(known[name], spec)
        except KernelError as error:
            raise KernelError(f"inputs: {error}") from None


def given_inputs(func: Func, inputs: Inputs | None, seed: int) -> Given:
    """The caller's `inputs=`, checked, with its functions called; raises KernelError for what does not fit."""
    require_inputs(func, inputs)
    known = {argument.name: argument for argument in arguments(func)}
    arrays: dict[str, Array] = {}
    ranges: dict[str, tuple[float, float]] = {}
    for name, spec in (inputs or {}).items():
        argument = known[name]
        if isinstance(spec, tuple) and len(spec) == 2:
            ranges[name] = (float(spec[0]), float(spec[1]))
        elif callable(spec):
            made = np.asarray(spec(_stream(seed, name), argument.shape, argument.dtype.numpy))
            _require_array(argument, made, f"the function of `{name}` made ")
            arrays[name] = _array(argument, made)
        else:
            arrays[name] = _array(argument, np.asarray(spec))
    return Given(arrays, ranges)


def _require_fitting(argument: InputArgument, spec: InputSpec) -> None:
    """Raises KernelError for what does not fit an argument; functions are not called."""
    if isinstance(spec, tuple) and len(spec) == 2:
        _require_range(argument, spec)
    elif not callable(spec):
        _require_array(argument, np.asarray(spec), "")
    elif not takes(spec, *_MADE_OF):
        raise KernelError(f"the function of `{argument.name}` is called with {_MADE_BY}, and takes no such arguments")


def _require_range(argument: InputArgument, spec: tuple[Any, Any]) -> None:
    if not all(isinstance(x, Real) and math.isfinite(x) for x in spec) or spec[0] > spec[1]:
        raise KernelError(f"the range of `{argument.name}` is (low, high), finite and in order, not {spec}")
    if argument.dtype.is_integer:
        low, high = _integers_within(argument.dtype, spec)
        if low > high:
            raise KernelError(f"the range {spec} of `{argument.name}` has no number that is {argument.dtype}")


def _require_array(argument: InputArgument, array: Array, made: str) -> None:
    """Raises KernelError for an array that is not what the argument is; `made` says where it comes from."""
    if array.dtype.kind in _NO_NUMBERS:
        given = made or f"`{argument.name}` is given as "
        raise KernelError(f"{given}`{array}`; it is an array, a range (low, high), or a function of {_MADE_BY}")
    wanted = argument.dtype.numpy
    if array.shape == () and argument.shape == ():
        return
    if array.shape != argument.shape or array.dtype != wanted:
        got = f"{array.dtype}{list(array.shape)}"
        is_what = f"`{argument.name}` is {wanted}{list(argument.shape)}"
        raise KernelError(f"{made}{got}, and {is_what}" if made else f"{is_what}, got {got}")


def _array(argument: InputArgument, array: Array) -> Array:
    is_number = array.shape == () and argument.shape == ()
    return array.astype(argument.dtype.numpy) if is_number else np.ascontiguousarray(array)


def integer_inputs(func: Func, given: Given, seed: int, magnitude: int) -> dict[str, Array]:
    """Integer-valued data up to `magnitude`, none of it 0, so that every term of every sum counts.

    Of floats that the caller gave a range they are those nearest to zero. Integers with a range, and those that say
    places, are drawn from all of it, as the other data is: a part of it may leave most of a result without a term.
    """
    return {
        argument.name: given.arrays[argument.name]
        if argument.name in given.arrays
        else _integers(argument, given.ranges.get(argument.name), _stream(seed, argument.name), magnitude)
        for argument in arguments(func)
    }


def random_inputs(func: Func, given: Given, seed: int) -> dict[str, Array]:
    """Random data of both signs, with magnitudes in [0.25, 1.25] unless the caller gave a range.

    Integers are up to 100 where nothing says which, and those that say places are places, or a little beyond.
    """
    return {
        argument.name: given.arrays[argument.name]
        if argument.name in given.arrays
        else _random(argument, given.ranges.get(argument.name), _stream(seed + 1, argument.name))
        for argument in arguments(func)
    }


def drawn_from(given: Given, data: Mapping[str, Array]) -> str:
    """What the data of each argument is, for messages: its least and its largest number, and whether it was given."""
    said = []
    for name, array in data.items():
        numbers = array.astype(np.float64)
        within = f"in [{numbers.min():.6g}, {numbers.max():.6g}]" if array.size else "without elements"
        said.append(f"`{name}` {within}{' (given)' if name in given.arrays or name in given.ranges else ''}")
    return ", ".join(said)


def _stream(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode()])


def _integers(
    argument: InputArgument, span: tuple[float, float] | None, rng: np.random.Generator, magnitude: int
) -> Array:
    says_places = argument.below is not None or argument.places is not None
    if argument.dtype.is_bool or says_places or (argument.dtype.is_integer and span is not None):
        return _random(argument, span, rng)
    low, high = (-magnitude, magnitude) if span is None else (math.ceil(span[0]), math.floor(span[1]))
    if argument.dtype.is_integer:
        low, high = _integers_within(argument.dtype, (low, high))
    if low > high or (span is not None and low == high):  # equal elements would tell nothing of where they are read
        return _random(argument, span, rng)
    if span is not None:
        # As near to zero as the caller's range allows.
        low, high = max(low, min(-magnitude, high - magnitude)), min(high, max(magnitude, low + magnitude))
    values = rng.integers(low, high, argument.shape, _drawn_as(argument.dtype), endpoint=True)
    if low < high:
        values = np.where(values == 0, high if high != 0 else low, values)
    return elements(values, argument.dtype)


def _integers_within(dtype: DType, span: tuple[float, float]) -> tuple[int, int]:
    """The integers of a type that are in a range, whose ends may lie beyond the type's, if only by rounding."""
    lowest, last = integer_range(dtype)
    return max(math.ceil(span[0]), lowest), min(math.floor(span[1]), last)


def _drawn_as(dtype: DType) -> np.dtype[Any]:
    """The type that integers are drawn in: the same numbers for all types that it holds."""
    return dtype.numpy if dtype is DType.U64 else INDEX.numpy


def _random(argument: InputArgument, span: tuple[float, float] | None, rng: np.random.Generator) -> Array:
    if argument.dtype.is_bool:
        return rng.integers(0, 2, argument.shape).astype(np.bool_)
    if argument.dtype.is_integer:
        low, high = _integers_within(argument.dtype, (argument.places or _USUAL_RANGE) if span is None else span)
        if low > high:  # of a type that has none of the places
            low, high = _integers_within(argument.dtype, _USUAL_RANGE)
        if argument.below is not None:
            # All of them where the caller says nothing, and never one that is none.
            low, high = (0, argument.below - 1) if span is None else (max(low, 0), min(high, argument.below - 1))
        drawn = rng.integers(low, high, argument.shape, _drawn_as(argument.dtype), endpoint=True)
        return drawn.astype(argument.dtype.numpy)
    if span is not None:
        return rng.uniform(span[0], span[1], argument.shape).astype(argument.dtype.numpy)
    signs = rng.integers(0, 2, argument.shape) * 2 - 1
    return elements(signs * rng.uniform(_LEAST, _MOST, argument.shape), argument.dtype)
