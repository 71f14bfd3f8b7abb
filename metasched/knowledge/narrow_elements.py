"""What was found for numbers of f32, as what is known of the same with an operand that is kept in f16.

A product of f16 is multiplied and summed in f32: `X[m, k] * f32(W[k, o])`. A vector of the second operand is converted
once for all rows of a tile, beside which that takes little, so the tiles that are good for f32 are good for it. The
first operand is read one element at a time, and converting it takes as long as what it is multiplied by: where it is
f16, wider tiles are better. What has tensor instructions of its own, as bf16 and bytes have, is no such kind either.
"""

from __future__ import annotations

import re

from metasched.dtypes import DType

_NARROW, _WIDE = DType.F16, DType.F32
_CONVERTED = re.compile(rf"\b{_WIDE}\((x\d+\[[^\]]*\])\)")
_OPERAND = re.compile(rf"\b(x\d+): {_NARROW}\b")


def kind_in_wide_elements(kind: str) -> str | None:
    """A kind with operands of f32 instead of f16 that are converted to it; None where none are, or the first of
    several is.
    """
    statement, mark, types = kind.rpartition(" of ")
    narrow = _OPERAND.findall(types)
    if not narrow or ("x0" in narrow and "x1:" in types):
        return None
    return _CONVERTED.sub(r"\1", statement) + mark + _OPERAND.sub(rf"\1: {_WIDE}", types)
