"""What is worked out once an object and kept with it, without a lock: properties, and results by a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


def find_kept(instance: object, key: str) -> Any:
    """The value that is kept with an object under a key; None where there is none."""
    return instance.__dict__.get(key)


def keep(instance: object, key: str, value: T) -> T:
    """Keep something with an object, a frozen one as well, and return it.

    What another thread kept meanwhile stays, and is returned: it may have been given out already.
    """
    found: T = instance.__dict__.setdefault(key, value)
    return found


def kept_with(instance: object, key: str, make: Callable[[], T]) -> T:
    """What is kept with an object under a key, made at the first use, but for None. Threads that come at once each make
    it, so it is equal each time.
    """
    found: T | None = find_kept(instance, key)
    return keep(instance, key, make()) if found is None else found


class cached_property(Generic[T]):  # noqa: N801 -- a decorator, named as that of functools
    """What a method returns, kept in the object's `__dict__` from the first use on.

    `functools.cached_property` of Python 3.11 holds a lock of the class meanwhile: other threads wait for it, whatever
    their object is, and a process that is forked meanwhile waits for ever. Here threads that come at once each work it
    out, so the method returns equal values each time.
    """

    def __init__(self, method: Callable[[Any], T]) -> None:
        self._method = method
        self._name = method.__name__
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        return keep(instance, self._name, self._method(instance))
