"""Sizes that a model says by others: `past_sequence_length + 1`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int | None]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b if b else None,
}
# Longer names are no expressions that anybody wrote.
_LONGEST = 256


def size_of(text: str, sizes: Mapping[str, int]) -> int | None:
    """The size that is named so, or an expression of such names; None where one is not known."""
    if text in sizes:
        return int(sizes[text])
    tree = _parse_expression(text)
    return None if tree is None or isinstance(tree, ast.Constant) else _value(tree, sizes)


def names_in(text: str) -> frozenset[str]:
    """The names in an expression; none where the text is none."""
    tree = _parse_expression(text)
    return frozenset() if tree is None else frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))


def _parse_expression(text: str) -> ast.expr | None:
    if len(text) > _LONGEST:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _value(tree: ast.expr, sizes: Mapping[str, int]) -> int | None:
    match tree:
        case ast.Name(id=name):
            return sizes.get(name)
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            a, b = _value(left, sizes), _value(right, sizes)
            return None if a is None or b is None else _OPERATIONS[type(op)](a, b)
    return None
