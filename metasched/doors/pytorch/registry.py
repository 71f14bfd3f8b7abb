"""The operators that are known, found by the files of `ops/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from metasched.support.declared_files import Declarations, DeclaredFiles, require_several

# Takes the site, and what PyTorch's operator takes. Gives a value, or as many as it has outputs; None for one unused.
AtenOperator: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=AtenOperator)
_ATEN = "aten."
_DECLARED_OPERATORS: Declarations[str] = Declarations("operators")


def aten(*names: str) -> Callable[[F], F]:
    """Declare that a function lowers these operators: "add.Tensor" is `torch.ops.aten.add.Tensor`."""

    return lowers(*(f"{_ATEN}{name}" for name in names))


def lowers(*names: str) -> Callable[[F], F]:
    """Declare that a function lowers these operators, by the names that graphs have them under: "cond" is
    `torch.ops.higher_order.cond`, "prims.convert_element_type" is `torch.ops.prims.convert_element_type`.
    """

    def declare(function: F) -> F:
        return _DECLARED_OPERATORS.add(function, *names)

    return declare


def _read_declarations(name: str, module: ModuleType) -> Mapping[str, AtenOperator]:
    del name
    found = [(op, function) for function, op in _DECLARED_OPERATORS.of_module(module)]
    found += [(f"{_ATEN}{op}", function) for op, function in getattr(module, "TABLE", {}).items()]
    return require_several(module, found, "an operator: a function with `@aten` or `@lowers`, or a `TABLE`")


FILES = DeclaredFiles("metasched.doors.pytorch.ops", "family of operators", _read_declarations)


@cache
def known_operators() -> Mapping[str, AtenOperator]:
    """Every operator that is known, by its name, such as "aten.add.Tensor" and "cond".

    Raises TypeError where two files declare one.
    """
    return FILES.merge()
