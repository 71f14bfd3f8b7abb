"""Which values are integers and numbers: True and False, with which Python counts, answer another question."""

from __future__ import annotations

import operator
from typing import Any, TypeGuard


def is_integer(value: object) -> TypeGuard[int]:
    """Whether it is an integer of Python's."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is an integer or a float of Python's."""
    return is_integer(value) or isinstance(value, float)


def integer_of(value: Any) -> int | None:
    """An integer of any package, such as NumPy's, as Python's; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
