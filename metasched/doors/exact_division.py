"""Whole quotients and remainders of f64, which nothing wider computes.

The remainder |a| - q |b| is exact where q has no more than 24 bits: |b| is taken apart into its first 24 bits and the
rest, whose products with q are exact, and so are the two differences (Sterbenz). Larger quotients are rounded, and of
those that have no digit for the units left nothing remains.
"""

from __future__ import annotations

from metasched.doors.node_calls import NodeCalls
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue

# What is divided so, by NumPy's names.
EXACT_DIVISIONS = frozenset({"floor_divide", "fmod", "remainder"})
# Of a quotient without a digit for the units.
NOTHING_LEFT = f"abs({{0}} / {{1}}) >= {2.0**53} and abs({{0}}) < inf and {{1}} != 0.0"
_PART = "(f64(f32(abs({0}))) if abs({0}) > 1e-30 and abs({0}) < 1e30 else abs({0}))"
_DIVISION_REST = (
    f"(0.0 if {NOTHING_LEFT} else abs({{0}}) if abs({{1}}) == inf and abs({{0}}) < inf"
    " else (abs({0}) - {2} * {3}) - {2} * (abs({1}) - {3}))"
)
# A quotient may have been rounded to the next whole number.
_RANGE_CORRECTION = "({0} + abs({1}) if {0} < 0.0 else {0} - abs({1}) if {0} >= abs({1}) else {0})"
_SIGN_TRANSFER = "(-{0} if {1} < 0.0 or 1.0 / {1} < 0.0 else {0})"
_SIGNS_DIFFER = "{0} != 0.0 and ({0} < 0.0) != ({1} < 0.0)"
_REMAINDER = f"({{0}} + {{1}} if {_SIGNS_DIFFER} else {{0}} if {{0}} != 0.0 else 0.0 if {{1}} > 0.0 else -0.0)"
_QUOTIENT = f"({{2}} / {{1}} if {{1}} == 0.0 else rint(({{2}} - {{0}}) / {{1}}) - (1.0 if {_SIGNS_DIFFER} else 0.0))"


def divide_exactly(nodes: NodeCalls, name: str, a: GraphValue, b: GraphValue) -> GraphValue:
    """Divide two f64 as NumPy's `floor_divide`, `fmod` or `remainder` does, by its name."""

    def step(text: str, *operands: GraphValue) -> GraphValue:
        wide = [DType.F64] * len(operands)
        return nodes.expression(name.title().replace("_", ""), text, operands, wide, DType.F64, divides=True)

    quotient = step("floor(abs({0}) / abs({1}))", a, b)
    left = step(_DIVISION_REST, a, b, quotient, step(_PART, b))
    rest = step(_SIGN_TRANSFER, step(_RANGE_CORRECTION, left, b), a)
    if name == "fmod":
        return rest
    if name == "remainder":
        return step(_REMAINDER, rest, b)
    # A quotient of zero has the sign of what was divided.
    return step("({0} if {0} != 0.0 else 0.0 * ({1} / {2}))", step(_QUOTIENT, rest, b, a), a, b)
