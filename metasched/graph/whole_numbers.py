"""Numbers of elements as callers give them: Python's integers and NumPy's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from metasched.graph.errors import NetworkError
from metasched.support.integers import integer_of


def require_whole_number(value: Any, what: str) -> int:
    """An integer of any package as Python's. Raises NetworkError for anything else; `what` is what it is, for that.

    True and False are none, though Python counts with them.
    """
    number = integer_of(value)
    if number is None:
        raise NetworkError(f"{what} is a whole number, and not {value!r}")
    return number


def bucket_sizes(given: Any) -> tuple[int, ...]:
    """The largest sizes of buckets as a caller gives them. Raises NetworkError for what is no list of whole numbers."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise NetworkError(f"`buckets` is a list of the largest size of each bucket, such as (2, 4), and not {given!r}")
    return tuple(require_whole_number(size, "a bucket") for size in given)
