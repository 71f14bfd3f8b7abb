"""The math functions by name, found by the files of `metasched.functions.library`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import ModuleType

from metasched.functions.declaration import MathFunction
from metasched.support.declared_files import DeclaredFiles, require_only


def _read_function(name: str, module: ModuleType) -> MathFunction:
    declared = [value for value in vars(module).values() if isinstance(value, MathFunction)]
    own = {function.name: function for function in declared if function.formula.__module__ == module.__name__}
    return require_only("math function", name, module, own)


FILES = DeclaredFiles("metasched.functions.library", "math function", _read_function)


@cache
def functions() -> Mapping[str, MathFunction]:
    """Every math function of the language by name.

    Raises TypeError for a file that does not declare exactly one function of its own name.
    """
    return FILES.load()
