"""Arguments of a primitive: bound to its parameters, and checked against their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from metasched.errors import ScheduleError
from metasched.lang.instructions import Hole, Ref, Value
from metasched.schedule.kinds import ArgumentKind
from metasched.schedule.primitive import Declaration, Param
from metasched.schedule.values import BlockRV, LoopRV
from metasched.support.integers import is_integer

# Handle kinds and what an environment holds for them: a name in the program, or an expression.
LOOPLIKE = frozenset({ArgumentKind.LOOP, ArgumentKind.LOCATION})
INTLIKE = frozenset({ArgumentKind.INT, ArgumentKind.FACTOR, ArgumentKind.SETTING})


def bind(declaration: Declaration, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[Param, Any]]:
    """Arguments by parameter, defaults filled in. Raises ScheduleError, in the style of Python's own errors."""
    rest, left = list(args), dict(kwargs)
    bound: list[tuple[Param, Any]] = []
    for param in declaration.params:
        if param.variadic:
            value: Any = tuple(rest)
            rest = []
        elif param.name in left:
            value = left.pop(param.name)
        elif rest:
            value = rest.pop(0)
        elif param.required:
            strange = sorted(kwargs.keys() - {other.name for other in declaration.params})
            beside = f", and there is no `{strange[0]}`" if strange else ""
            reason = f"argument `{param.name}` is missing{beside}"
            raise ScheduleError(declaration.name, reason, hint=declaration.usage)
        else:
            value = param.default
        bound.append((param, value))
    if rest or left:
        extra = f"`{next(iter(left))}`" if left else _argument_text(rest[0])
        raise ScheduleError(declaration.name, f"unexpected argument {extra}", hint=declaration.usage)
    return bound


def _argument_text(value: Any) -> str:
    """An argument as shown in messages: a handle by its label."""
    name = value.name if isinstance(value, Ref) else getattr(value, "label", None)
    return repr(value) if name is None else f"`{name}`"


def items(declaration: Declaration, param: Param, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list):
        raise argument_error(declaration, param, value)
    return tuple(value)


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, as which a trace has them."""
    return value.item() if isinstance(value, np.generic) else value


def is_default(param: Param, written: Value) -> bool:
    return type(written) is type(param.default) and written == param.default


def is_literal_of(kind: ArgumentKind, value: Any) -> bool:
    if isinstance(value, Hole):
        return False
    if kind is ArgumentKind.FACTOR and value is None:
        return True
    if kind is ArgumentKind.SETTING and isinstance(value, bool):
        return True
    if kind is ArgumentKind.BOOL:
        return isinstance(value, bool)
    if kind in (ArgumentKind.STR, ArgumentKind.FEATURE, ArgumentKind.PERMISSION, ArgumentKind.INDEX_MAP):
        return isinstance(value, str)
    if kind is ArgumentKind.LITERAL:
        return isinstance(value, str | int | float | bool)
    return kind in (*INTLIKE, ArgumentKind.NUMBER) and is_integer(value)


def argument_error(declaration: Declaration, param: Param, value: Any) -> ScheduleError:
    expected = f"a list, each {param.kind.value}" if param.many and not param.variadic else param.kind.value
    hint = declaration.usage
    if isinstance(value, BlockRV | LoopRV):
        hint += f"; `{value.label}` is {'a block' if isinstance(value, BlockRV) else 'a loop'}"
    return ScheduleError(
        declaration.name, f"argument `{param.name}`: expected {expected}, got {_argument_text(value)}", hint=hint
    )
