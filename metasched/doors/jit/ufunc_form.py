"""How a ufunc is written in the language: its expression, for kinds of types."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Form:
    """The expression of a ufunc, where {0} and {1} are its operands: `any`, or one for a kind of type.

    Attributes:
        any: of types that have none of their own.
        floats, integers, bools: of these types; "" for `any`.
        unsigned: of integers without a sign; "" for `integers`.
        of_truth: whether operands of all types are taken as true or false.
        divides: whether a literal zero may be a divisor.
        wide: whether floats are computed in f64 and rounded; divisions of f64 itself are as `exact_division` says.

    """

    any: str = ""
    floats: str = ""
    integers: str = ""
    bools: str = ""
    divides: bool = False
    wide: bool = False
    unsigned: str = ""
    of_truth: bool = False

    def text(self, dtype: DType) -> str:
        """The expression of operands of a type; "" where there is none."""
        if dtype.is_bool:
            return self.bools or self.any
        if dtype.is_float:
            return self.floats or self.any
        return (self.unsigned if dtype.is_unsigned else "") or self.integers or self.any
