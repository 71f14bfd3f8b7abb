"""Results of functions, remembered by the very objects that they were called with.

For objects that are large to compare, and of which there is one each, such as programs of equal texts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST_RESULTS = 1 << 12


class Itself(Generic[T]):
    """An object as a key, which is equal to that of the same object alone. It keeps the object."""

    __slots__ = ("object",)

    def __init__(self, object_: T) -> None:
        self.object = object_

    def __hash__(self) -> int:
        return id(self.object)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.object is other.object


def remembered_by_identity(function: Callable[[T], R]) -> Callable[[T], R]:
    """A function of one object that works out the result once for each of the objects that it was last called with.

    The result is given out again, so nobody may change it.
    """

    @lru_cache(maxsize=_MOST_RESULTS)
    def call(key: Itself[T]) -> R:
        return function(key.object)

    @wraps(function)
    def call_by_identity(object_: T, /) -> R:
        return call(Itself(object_))

    return call_by_identity
