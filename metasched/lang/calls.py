"""The math functions in programs built in Python: `exp(x)`, and so on for each of `metasched.functions.library`.

They are made at their first use. Their types are in `calls.pyi`, which `make docs` writes.
"""

from __future__ import annotations

from collections.abc import Callable

from metasched.functions.registry import functions
from metasched.lang.build import call
from metasched.lang.python_values import Value, ValueLike


def __getattr__(name: str) -> object:
    if name == "__all__":
        return list(functions())
    if name not in functions():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _function(name)
    return value


def _function(name: str) -> Callable[..., Value]:
    def apply(*args: ValueLike) -> Value:
        return call(name, *args)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"`{functions()[name].usage}`, element by element.\n\n{functions()[name].doc}"
    return apply
