"""What programs are called with in Python: arguments by their places or names, and scalars."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metasched.dtypes import DType, integer_range
from metasched.errors import KernelError
from metasched.support.messages import a_or_an, did_you_mean, listing


def order_arguments(
    kernel: str, names: Sequence[str], inputs: tuple[Any, ...], named: Mapping[str, Any], options: Sequence[str] = ()
) -> tuple[Any, ...]:
    """The arguments in calling order, of which some may be given by name. The caller checks their number.

    `options` are the function's other keyword arguments, for a hint. Raises KernelError for a name that is none of
    `names`, and for an argument that is given twice or not at all.
    """
    if not inputs and len(named) == len(names) and all(map(named.__contains__, names)):
        return tuple(map(named.__getitem__, names))
    unknown = [name for name in named if name not in names]
    if unknown:
        hint = did_you_mean(unknown[0], (*names, *options)) or f"its arguments are {listing(names)}"
        raise KernelError(f"{kernel} has no argument `{unknown[0]}`", hint=hint)
    twice = [name for name in names[: len(inputs)] if name in named]
    if twice:
        raise KernelError(f"{kernel} is given `{twice[0]}` twice: by its place, and by name")
    missing = [name for name in names[len(inputs) :] if name not in named]
    if missing:
        raise KernelError(f"{kernel} is called without {listing(missing)}", hint=f"its arguments are {listing(names)}")
    return (*inputs, *(named[name] for name in names[len(inputs) :]))


def scalar(name: str, dtype: DType, value: Any, taker: str = "the kernel") -> float | int:
    """A checked scalar as a Python number; an integer must be in range, a float parameter takes integers too.

    An array of no dimensions is a number too: it is what a kernel with such an output returns. Raises KernelError for
    anything else, which says what the `taker` takes.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if dtype.is_bool:
        if not isinstance(value, bool | np.bool_):
            raise KernelError(_type_message(name, value, taker, "a bool"))
        return int(value)
    if dtype.is_float:
        if isinstance(value, bool | np.bool_) or not isinstance(value, float | int | np.floating | np.integer):
            raise KernelError(_type_message(name, value, taker, f"a number ({dtype})"))
        try:
            return float(value)
        except OverflowError:
            raise KernelError(f"`{name}` is larger than any number of {dtype}") from None
    try:
        number = operator.index(value)
    except TypeError:
        raise KernelError(_type_message(name, value, taker, f"an integer ({dtype})")) from None
    least, most = integer_range(dtype)
    if not least <= number <= most:
        raise KernelError(f"`{name}` is {number}, which is not in {dtype}'s range {least} .. {most}")
    return number


def _type_message(name: str, value: object, taker: str, wanted: str) -> str:
    return f"`{name}` is {a_or_an(type(value).__name__)}; {taker} takes {wanted}"
