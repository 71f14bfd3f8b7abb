"""What the parameters of pooling and of transposed convolutions may be, beyond what their files' sizes say."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.dtypes import Beyond, DType, float_format
from metasched.ir.source import ProgramDef, Setting
from metasched.lang.diagnostics import Diagnostics
from metasched.support.data_classes import dataclass

_MAX_POOLING = "max_pool"
_COUNT_PADDING = "COUNT_PAD"
_OUTPUT_PADDING = "OPAD"
# Types of which minus infinity, which the padding of maxima is made of, would be NaN.
_WITHOUT_INFINITY = frozenset(
    dtype.value for dtype in DType if dtype.is_float and float_format(dtype).beyond in {Beyond.NAN, Beyond.ONE_NAN}
)


@dataclass(frozen=True)
class _Limit:
    """The largest value of a parameter, the parameters that it follows from, and why; `what` names it in a message."""

    parameter: str
    what: str
    most: int
    by: tuple[str, ...]
    why: str


def check_limits(definition: ProgramDef, given: Mapping[str, Setting], diagnostics: Diagnostics) -> None:
    """Refuse padding that can hold an entire pooling window or that a type has no number for, and output padding that
    reaches both stride and dilation.

    Elaboration reports values that are not integers, and those too small for a limit to exist.

    Raises:
        LanguageError: when a parameter of the operator is beyond its limit.
    """
    places = {param.name: param.at for param in definition.params}
    values = {param.name: given.get(param.name, param.default) for param in definition.params}
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    if numbers.get(_COUNT_PADDING, 0) not in {0, 1}:
        diagnostics.error(
            places[_COUNT_PADDING],
            f"whether padding counts ({_COUNT_PADDING}) is 0 or 1, not {numbers[_COUNT_PADDING]}",
            f"with {_COUNT_PADDING}=1 the zeros of the padding are among the elements of a mean",
        )
    dtype = values.get("T")
    if definition.name.startswith(_MAX_POOLING) and numbers.get("P", 0) > 0 and dtype in _WITHOUT_INFINITY:
        lowest = float_format(DType(dtype)).lowest
        diagnostics.error(
            places["T"],
            f"maxima are padded (P={numbers['P']}) with minus infinity, and {dtype} (T) has none",
            f"with P=0 there is no padding; a program of your own may pad with the lowest number, `{dtype}({lowest})`",
        )
    limit = _limit(definition.name, numbers)
    if limit is not None and limit.most >= 0 and numbers[limit.parameter] > limit.most:
        follows = ", ".join(f"{name}={numbers[name]}" for name in limit.by)
        diagnostics.error(
            places[limit.parameter],
            f"{limit.what} ({limit.parameter}) of {numbers[limit.parameter]} is too much where {follows}",
            f"{limit.parameter} may be {limit.most} here at most: {limit.why}",
        )
    diagnostics.check()


def _limit(name: str, numbers: Mapping[str, int]) -> _Limit | None:
    """The limit of an operator with these numbers; None where it has none, or where a number is missing."""
    if numbers.keys() >= {_OUTPUT_PADDING, "S", "D"}:
        most = max(numbers["S"], numbers["D"]) - 1
        return _Limit(_OUTPUT_PADDING, "output padding", most, ("S", "D"), "it is less than S or D")
    if numbers.keys() >= {_COUNT_PADDING, "P", "R"} and numbers[_COUNT_PADDING] == 0:
        why = (
            f"from P = R on, the first window has no element to take the mean of; {_COUNT_PADDING}=1 counts the padding"
        )
        return _Limit("P", "padding", numbers["R"] - 1, ("R", _COUNT_PADDING), why)
    if name.startswith(_MAX_POOLING) and numbers.keys() >= {"P", "R", "D"}:
        why = "beyond P = D*(R - 1), the first window has no element to take the maximum of"
        return _Limit("P", "padding", numbers["D"] * (numbers["R"] - 1), ("R", "D"), why)
    return None
