"""The plain values of modules in text, and the functions and operators on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from metasched.ir.source import BoolLit, FloatLit, IntLit, ListLit, NoneLit, SourceExpr, TextLit
from metasched.ir.source_printer import print_source
from metasched.schedule.values import BlockRV, Int, LocationRV, LoopRV, ceildiv, maximum, minimum
from metasched.support.data_classes import dataclass

CHOOSE_HINT = 'for a structural decision write `how ~ choose("none", "outer")`, whose result is a plain value'


class _Unknown:
    """The answer of a query about sizes that depends on tile sizes; in comparisons it counts as None."""

    def __repr__(self) -> str:
        return "a size that is not known"


UNKNOWN = _Unknown()


def known(value: Any) -> Any:
    """A module's value in Python, where an unknown one is None."""
    if isinstance(value, list):
        return [known(item) for item in value]
    return None if value is UNKNOWN else value


def not_known(what: str) -> tuple[str, str]:
    """The message and the hint for the use of a size that depends on tile sizes."""
    return f"`{what}` is not known: it depends on tile sizes", f"test `{what} == None` before"


def plain(e: SourceExpr) -> Any:
    """The value of a literal, or a list of literals. Raises ValueError for anything else."""
    match e:
        case IntLit(value=value) | FloatLit(value=value) | BoolLit(value=value) | TextLit(value=value):
            return value
        case NoneLit():
            return None
        case ListLit(items=items):
            return [plain(item) for item in items]
    raise ValueError(f"`{print_source(e)}` is no plain value")


@dataclass(frozen=True)
class TextFunction:
    """A function of values: its number of arguments, its implementation, and its documentation."""

    arity: int
    run: Callable[..., Any]
    doc: str


def _integer_operation(
    exact: Callable[[int, int], int], symbolic: Callable[[Int | int, Int | int], Int]
) -> Callable[[Any, Any], Any]:
    """An operation on integers, which gives a number, or on random variables, which gives an expression. Raises
    TypeError for anything else.
    """

    def run(a: Any, b: Any) -> Int | int:
        if isinstance(a, int) and isinstance(b, int):
            return exact(a, b)
        if not isinstance(a, Int | int) or not isinstance(b, Int | int):
            raise TypeError
        return symbolic(a, b)

    return run


FUNCTIONS: Mapping[str, TextFunction] = {
    "len": TextFunction(1, len, "`len(loops)` is how many items a list has"),
    "min": TextFunction(2, _integer_operation(min, minimum), "`min(a, b)` is the smaller of two integers"),
    "max": TextFunction(2, _integer_operation(max, maximum), "`max(a, b)` is the larger of two integers"),
    "ceildiv": TextFunction(
        2,
        _integer_operation(lambda a, b: -(-a // b), ceildiv),
        "`ceildiv(a, b)` is a quotient of integers, rounded up",
    ),
}


def kind_of(value: Any) -> str:
    """What a value is, for messages."""
    match value:
        case BlockRV():
            return "a block"
        case LocationRV():
            return "a location that was drawn"
        case LoopRV():
            return "a loop"
        case Int():
            return "a random variable"
        case list():
            return f"a list of {len(value)}"
        case None:
            return "nothing"
    return repr(value)
