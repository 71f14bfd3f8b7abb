"""The operators that are known, found by the files of `ops/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any, TypeAlias, TypeVar

from metasched.support.declared_files import DeclaredFiles

# Takes the site, and what PyTorch's operator takes. Gives a value, or as many as it has outputs; None for one unused.
AtenOperator: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=AtenOperator)
_ATEN = "aten."


def aten(*names: str) -> Callable[[F], F]:
    """Declare that a function lowers these operators: "add.Tensor" is `torch.ops.aten.add.Tensor`."""

    def declare(function: F) -> F:
        own = tuple(f"{_ATEN}{name}" for name in names)
        function.__dict__["operators"] = (*function.__dict__.get("operators", ()), *own)
        return function

    return declare


def lowers(*names: str) -> Callable[[F], F]:
    """Declare that a function lowers these operators, by the names that graphs have them under: "cond" is
    `torch.ops.higher_order.cond`, "prims.convert_element_type" is `torch.ops.prims.convert_element_type`.
    """

    def declare(function: F) -> F:
        function.__dict__["operators"] = (*function.__dict__.get("operators", ()), *names)
        return function

    return declare


def _read(name: str, module: ModuleType) -> Mapping[str, AtenOperator]:
    del name
    found: dict[str, AtenOperator] = {
        op: value
        for value in vars(module).values()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
        for op in getattr(value, "operators", ())
    }
    found |= {f"{_ATEN}{op}": function for op, function in getattr(module, "TABLE", {}).items()}
    if not found:
        raise TypeError(
            f"{module.__name__} must declare an operator: a function with `@aten` or `@lowers`, or a `TABLE`"
        )
    return found


FILES = DeclaredFiles("metasched.doors.pytorch.ops", "family of operators", _read)


@cache
def known_operators() -> Mapping[str, AtenOperator]:
    """Every operator that is known, by its name, such as "aten.add.Tensor" and "cond".

    Raises TypeError where two files declare one.
    """
    found: dict[str, AtenOperator] = {}
    for file, declared in FILES.load().items():
        for name, function in declared.items():
            if name in found:
                raise TypeError(f"{FILES.package}.{file} declares {name}, which another file declares")
            found[name] = function
    return MappingProxyType(found)
