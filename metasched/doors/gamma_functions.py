"""The logarithm of the gamma function, its derivative, and the inverse of the error function, in f64.

The first two are expressions of one operand, `{0}`. Below `_SHIFT` an argument is moved there by the recurrence, of
whose eight factors those at equal distances from the middle are multiplied: x (x + 7) + i (7 - i).
There are the asymptotic series of Stirling (Abramowitz and Stegun, 6.1.40 and 6.3.18). Arguments below zero are
reflected (6.1.17 and 6.3.7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from metasched.doors.node_calls import NodeCalls
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue

_SHIFT = 8.0
# Bernoulli's numbers B2, B4, ... of the series.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_PAIRS = (0.0, 6.0, 10.0, 12.0)  # i (7 - i)
# The first guess of the inverse, as PyTorch and SciPy's older versions have it: rational functions of x squared, and
# further out of the root of -log((1 - |x|) / 2).
_NEAR = (0.886226899, -1.645349621, 0.914624893, -0.140543331)
_NEAR_BELOW = (1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801)
_FAR = (-1.970840454, -1.624906493, 3.429567803, 1.641345311)
_FAR_BELOW = (1.0, 3.543889200, 1.637067800)
_SEAM = 0.7


def _polynomial(x: str, coefficients: Sequence[float]) -> str:
    """A polynomial by Horner's scheme, from the constant on."""
    made = repr(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        made = f"({made} * {x} + ({coefficient!r}))"
    return made


def _shifted(x: str) -> str:
    return f"({x} + {_SHIFT} if {x} < {_SHIFT} else {x})"


def _pairs(x: str) -> list[str]:
    return [f"({x} * ({x} + {_SHIFT - 1}) + {pair})" for pair in _PAIRS]


def _series(x: str, divisors: Sequence[int]) -> str:
    return _polynomial(f"(1.0 / ({x} * {x}))", [b / d for b, d in zip(_BERNOULLI, divisors, strict=True)])


def _positive_log_gamma(x: str) -> str:
    z = _shifted(x)
    series = _series(z, [2 * n * (2 * n - 1) for n in range(1, len(_BERNOULLI) + 1)])
    moved = f"(log({' * '.join(_pairs(x))}) if {x} < {_SHIFT} else 0.0)"
    return f"(({z} - 0.5) * (log({z}) - 1.0) + {math.log(2 * math.pi) / 2 - 0.5!r} + {series} / {z} - {moved})"


def _positive_digamma(x: str) -> str:
    z = _shifted(x)
    series = _series(z, [2 * n for n in range(1, len(_BERNOULLI) + 1)])
    moved = " + ".join(f"1.0 / {pair}" for pair in _pairs(x))
    moved = f"((2.0 * {x} + {_SHIFT - 1}) * ({moved}) if {x} < {_SHIFT} else 0.0)"
    return f"(log({z}) - 0.5 / {z} - {series} / ({z} * {z}) - {moved})"


def _log_gamma() -> str:
    size = "abs({0})"
    sine = f"abs(sin({math.pi!r} * ({{0}} - rint({{0}}))))"
    reflected = f"log({math.pi!r} / ({size} * {sine})) - {_positive_log_gamma(size)}"
    poles = "{0} <= 0.0 and {0} == floor({0})"
    return f"(inf if {poles} or {size} == inf else {_positive_log_gamma(size)} if not {{0}} < 0.0 else {reflected})"


def _digamma() -> str:
    y = "({0} if not {0} < 0.0 else 1.0 - {0})"
    q = "({0} - rint({0}))"
    reflected = f"(0.0 if not {{0}} < 0.0 else {q} / {q} * {math.pi!r} / tan({math.pi!r} * {q}))"
    return f"({{0}} if {{0}} == inf else -1.0 / {{0}} if {{0}} == 0.0 else {_positive_digamma(y)} - {reflected})"


def inverse_error_function(nodes: NodeCalls, x: GraphValue) -> GraphValue:
    """The inverse of the error function of f64: two steps of Newton's from a guess."""
    size, square = "abs({0})", "({0} * {0})"
    near = f"{{0}} * {_polynomial(square, _NEAR)} / {_polynomial(square, _NEAR_BELOW)}"
    root = f"sqrt(-log((1.0 - {size}) * 0.5))"
    far = f"{_polynomial(root, _FAR)} / {_polynomial(root, _FAR_BELOW)}"
    guess = f"({near} if {size} <= {_SEAM} else {far} if {{0}} > 0.0 else -({far}))"
    found = nodes.expression("Erfinv", guess, [x], [DType.F64], DType.F64)
    step = f"({{1}} - (erf({{1}}) - {{0}}) * {math.sqrt(math.pi) / 2!r} * exp({{1}} * {{1}}))"
    for text in (step, f"({{0}} * inf if {size} == 1.0 else {step})"):
        found = nodes.expression("Erfinv", text, [x, found], [DType.F64] * 2, DType.F64)
    return found


LOG_GAMMA = _log_gamma()
DIGAMMA = _digamma()
