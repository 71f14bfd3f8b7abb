"""What a person's own function can be called with, found out without calling it."""

from __future__ import annotations

import inspect
from typing import Any


def takes(fn: Any, *names: str) -> bool:
    """Whether a function can be called with so many arguments by their places; also where it does not say."""
    try:
        inspect.signature(fn).bind(*names)
    except TypeError:
        return False
    except ValueError:  # a function of C
        return True
    return True


def lacking_methods(value: object, *names: str) -> list[str]:
    """The methods that an object does not have."""
    return [name for name in names if not callable(getattr(value, name, None))]


def name_of(fn: Any) -> str:
    """The name of a function as messages show it."""
    return f"`{getattr(fn, '__name__', None) or repr(fn)}`"
