"""How many bits of integers are set."""

from __future__ import annotations

from collections.abc import Sequence

from metasched.doors.jit.trace import ArrayTrace
from metasched.dtypes import DType, unsigned_of_size
from metasched.graph.builder import GraphValue


def count_bits(trace: ArrayTrace, values: Sequence[GraphValue], result: DType) -> GraphValue:
    """The bits that are set in the absolute values of integers, added up side by side in each of them.

    Pairs of bits become their sums, then fours and eights; one product adds up the bytes in the highest one.
    """
    own = values[0].type.dtype
    wide = unsigned_of_size(own.bits)
    pairs, fours, bytes_, ones = (_repeated(pattern, wide) for pattern in ("01", "0011", "00001111", "00000001"))
    size = "{0}" if own.is_unsigned else f"{wide}(abs({{0}}))"
    found = trace.nodes.expression("CountBits", size, values, [own], wide)
    steps = [
        f"{{0}} - (({{0}} >> 1) & {pairs})",
        f"({{0}} & {fours}) + (({{0}} >> 2) & {fours})",
        f"({{0}} + ({{0}} >> 4)) & {bytes_}",
    ]
    if own.bits > 8:
        steps.append(f"({{0}} * {ones}) >> {own.bits - 8}")
    for text in steps:
        found = trace.nodes.expression("CountBits", text, [found], [wide], wide)
    return trace.nodes.cast(found, result)


def _repeated(pattern: str, dtype: DType) -> int:
    return int(pattern * (dtype.bits // len(pattern)), 2)
