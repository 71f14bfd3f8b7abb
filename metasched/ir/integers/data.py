"""Which integers depend on data, so that their values are not known from the program."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeGuard

from metasched.ir.nodes import Cast, Expr, Load, ScalarVar, Var


@lru_cache(maxsize=1 << 16)
def depends_on_data(e: Expr) -> bool:
    """Whether `e` reads a buffer or a scalar argument, or converts a float: its arithmetic may wrap."""
    if isinstance(e, Load | ScalarVar) or (isinstance(e, Cast) and e.value.dtype.is_float):
        return True
    return any(depends_on_data(child) for child in e.children() if isinstance(child, Expr))


def is_index_variable(e: Expr) -> TypeGuard[Var]:
    """Whether `e` is a bare loop or iteration variable, and not a scalar argument, which no loop changes."""
    return isinstance(e, Var) and not isinstance(e, ScalarVar)
