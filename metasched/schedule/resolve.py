"""Resolving an instruction's arguments to names in the program, expressions and literals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from metasched.dtypes import INDEX, holds_range
from metasched.errors import ScheduleError
from metasched.ir.integers.affine import const, free_vars, simplify, substitute
from metasched.ir.nodes import Expr
from metasched.lang.instructions import Ref
from metasched.schedule.arguments import INTLIKE, LOOPLIKE, argument_error, is_literal_of, items
from metasched.schedule.kinds import INLINE, ROOT, ArgumentKind
from metasched.schedule.primitive import Declaration, Param
from metasched.support.data_classes import dataclass
from metasched.support.messages import did_you_mean, listing


@dataclass
class Env:
    """The values of the trace's labels."""

    blocks: dict[str, str] = field(default_factory=dict)
    loops: dict[str, str] = field(default_factory=dict)
    ints: dict[str, Expr] = field(default_factory=dict)


def resolved_arguments(
    declaration: Declaration, bound: Iterable[tuple[Param, Any]], env: Env
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments to run a primitive with, from those of an instruction by parameter.

    Raises ScheduleError for an argument of the wrong kind, and for one that is not a handle of an earlier line.
    """
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for param, value in bound:
        resolved = (
            tuple(_resolve(declaration, param, v, env) for v in items(declaration, param, value))
            if param.many
            else _resolve(declaration, param, value, env)
        )
        if param.variadic:
            positional.extend(resolved)
        elif param.keyword:
            keywords[param.name] = resolved
        else:
            positional.append(resolved)
    return positional, keywords


def _resolve(declaration: Declaration, param: Param, value: Any, env: Env) -> Any:
    kind = param.kind
    if isinstance(value, Ref):
        if kind is ArgumentKind.LOCATION and value.name in (ROOT, INLINE) and value.name not in env.loops:
            return value.name
        tables = _tables(kind, env)
        for table in tables:
            if value.name in table:
                return table[value.name]
        raise ScheduleError(
            declaration.name,
            f"`{value.name}`, given for `{param.name}`, is not {kind.value} that an earlier line made",
            hint=_advice(value.name, (label for table in tables for label in table)),
        )
    if kind in INTLIKE and isinstance(value, Expr):
        unknown = free_vars(value) - env.ints.keys()
        if unknown:
            raise ScheduleError(
                declaration.name,
                f"`{min(unknown)}` is not an integer that an earlier line made",
                hint=_advice(min(unknown), env.ints),
            )
        return simplify(substitute(value, env.ints))
    if not is_literal_of(kind, value):
        raise argument_error(declaration, param, value)
    if isinstance(value, int) and not holds_range(INDEX, value, value):
        raise ScheduleError(declaration.name, f"argument `{param.name}`: {value} does not fit in 64 bits")
    if kind in INTLIKE and isinstance(value, int):
        return const(int(value))
    return value


def _tables(kind: ArgumentKind, env: Env) -> list[Mapping[str, Any]]:
    tables: list[Mapping[str, Any]] = []
    if kind in (ArgumentKind.BLOCK, ArgumentKind.TARGET):
        tables.append(env.blocks)
    if kind in LOOPLIKE or kind is ArgumentKind.TARGET:
        tables.append(env.loops)
    if kind in INTLIKE:
        tables.append(env.ints)
    return tables


def _advice(name: str, labels: Iterable[str]) -> str:
    known = sorted(set(labels))
    return did_you_mean(name, known) or (f"those so far are {listing(known)}" if known else "there is none so far")
