"""Results of functions, remembered by the very objects that they were called with.

For objects that are large to compare, and of which there is one each, such as programs of equal texts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")
R = TypeVar("R")
H = TypeVar("H", bound=Hashable)

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


class _ItselfWeakly(Generic[T]):
    """An object as a key, as `Itself`, that does not keep the object."""

    __slots__ = ("_hash", "_object")

    def __init__(self, object_: T) -> None:
        self._object = ref(object_)
        self._hash = id(object_)

    def get(self) -> T | None:
        """The object; None when nothing else has kept it."""
        return self._object()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ItselfWeakly):
            return False
        mine = self.get()
        return mine is not None and other.get() is mine


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


def remembered_weakly(function: Callable[[T, H], R]) -> Callable[[T, H], R]:
    """A function whose results are remembered by its first argument itself, which is not kept for that, and the second.

    For objects that take much memory, such as arrays of weights.
    """

    @lru_cache(maxsize=_MOST_RESULTS)
    def call(key: _ItselfWeakly[T], second: H) -> R:
        object_ = key.get()
        assert object_ is not None, "the caller has it"
        return function(object_, second)

    @wraps(function)
    def call_by_identity(object_: T, second: H, /) -> R:
        return call(_ItselfWeakly(object_), second)

    return call_by_identity
