"""Index maps given as Python functions or as text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from metasched.errors import LanguageError, ScheduleError
from metasched.ir.affine import const, simplify
from metasched.ir.nodes import Expr, IndexMap, Var
from metasched.ir.printer import print_index_map
from metasched.lang import parse_index_map
from metasched.schedule.values import Int


def index_map_text(op: str, function: Callable[..., Any]) -> str:
    """The text of a map given as a function of indices, `lambda i, j: (j // 16, i, j % 16)`.

    Raises ScheduleError when it returns anything but index arithmetic on its parameters.
    """
    names = tuple(inspect.signature(function).parameters)
    result = function(*(Int(Var(name)) for name in names))
    outputs = result if isinstance(result, tuple | list) else (result,)
    return print_index_map(IndexMap(names, tuple(_expr(op, e) for e in outputs)))


def _expr(op: str, value: object) -> Expr:
    if isinstance(value, Int):
        return simplify(value.expr)
    if isinstance(value, int) and not isinstance(value, bool):
        return const(value)
    raise ScheduleError(
        op,
        f"the index map returns {value!r}, which is no index",
        hint="return a tuple of index arithmetic, such as (j // 16, i, j % 16)",
    )


def read_index_map(op: str, text: str, rank: int, what: str) -> IndexMap:
    """Parse a map over the `rank` indices of `what`. Raises ScheduleError if the text is not one."""
    try:
        index_map = parse_index_map(text)
    except LanguageError as error:
        first = error.diagnostics[0]
        hint = first.hint or 'write one such as "i, j -> j//16, i, j%16"'
        raise ScheduleError(
            op, f'the index map "{text}" is not understood: {first.message} (column {first.column})', (), hint
        ) from None
    if len(index_map.names) != rank:
        raise ScheduleError(
            op,
            f'the index map "{text}" has {len(index_map.names)} indices on its left, and {what} has {rank}',
            (),
            "name each of them once before the arrow",
        )
    return index_map
