"""Random programs with divisions and functions of values that some loops around them do not change.

Lowering computes these before such a loop, unless something in it writes what they read, or a condition decides whether
they are needed.
"""

from __future__ import annotations

import numpy as np

from tests.property.fuzz.fuzz_programs import Drawing, Source, pick

_TYPES = ("f32", "f32", "f64")
# Of a number from one on.
_LONG = ("log({0})", "1 / {0}", "2 / ({0} + 1)", "exp(0 - {0})", "sqrt({0})", "tanh({0})", "sqrt({0}) / (1 + {0})")
_COMPUTED = ("S[i] * S[i] + 1", "exp(S[i]) + 1", "total[i] + 1")
_AT_LEAST_ONE = (
    *("T[i]", "T[i]", "(T[i] * 2)", "T[(i + 1) % N]", "(T[i - 1] if i >= 1 else 1)"),
    *("(S[i] * S[i] + 1)", "(abs(B[0]) + 1)", "(abs(X[i, M - 1]) + 1)"),
)
_CONDITIONS = ("j % 3 == 0", "j >= i", "i < 2", "X[i, j] < 0.1")
_RESULTS = {
    "Y[N, M]": "Y[i, j] = {} + B[j]",
    "Y[N]": "Y[i] = sum[j < M]({} * B[j])",
    "Y[N, K]": "Y[i, k] = sum[j < M]({} * W[j, k] + B[j])",
}


class _Values(Drawing):
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def long(self) -> str:
        return pick(self.rng, _LONG).format(pick(self.rng, _AT_LEAST_ONE))

    def value(self, depth: int) -> str:
        if depth == 0:
            return self.long() if self.chance(0.6) else pick(self.rng, ("X[i, j]", "S[i]", "B[j]"))
        a, b = self.value(depth - 1), self.value(depth - 1)
        if self.chance(0.3):
            return f"({a} if {pick(self.rng, _CONDITIONS)} else {b})"
        return pick(self.rng, ("({} * {})", "({} + {})", "({} - {})", "max({}, {})")).format(a, b)


def invariants(rng: np.random.Generator) -> Source:
    """Rows of which each has a number, and values made of these by long operations."""
    values, dtype = _Values(rng), pick(rng, _TYPES)
    result, statement = pick(rng, tuple(_RESULTS.items()))
    computed = pick(rng, _COMPUTED)
    lines = ["total[i] = sum[j](abs(X[i, j]))"] if "total" in computed else []
    # One that reads T, which the program computes.
    lines += [f"T[i] = {computed}", statement.format(f"({values.value(2)} + 1 / T[i])")]
    body = "".join(f"    {line}\n" for line in lines)
    arguments = {"X": "N, M", "S": "N", "B": "M", "W": "M, K"}
    given = ", ".join(f"{name}: {dtype}[{shape}]" for name, shape in arguments.items() if f"{name}[" in body)
    name, _, shape = result.partition("[")
    sizes = {"N": pick(rng, (1, 2, 3, 5)), "M": pick(rng, (2, 3, 8, 13, 19, 26)), "K": pick(rng, (1, 2, 5))}
    used = {own: size for own, size in sizes.items() if own != "K" or "K" in shape}
    settings = ", ".join(f"{own}={size}" for own, size in used.items())
    return Source(f"program rows[{settings}]({given}) -> {name}: {dtype}[{shape}:\n{body}", tuple(used.items()))
