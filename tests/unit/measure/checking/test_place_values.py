from __future__ import annotations

import pytest

from metasched.lang import parse_program
from metasched.measure.checking.place_values import place_values


@pytest.mark.parametrize(
    ("arguments", "value", "expected"),
    [
        ("I: i32[32], X: f32[32]", "sum[i](X[i] if i64(I[i]) == b else 0)", {"I": (-2, 17)}),
        ("I: i32[32], X: f32[32]", "max[i if b == i64(I[i])](X[i])", {"I": (-2, 17)}),
        ("I: i64[32], X: f32[32]", "sum[i](X[i] if I[i] - 1 == 2 * b else 0)", {"I": (-1, 33)}),
        ("I: i64[32], X: f32[32]", "sum[i](X[i] if 5 - I[i] == b else 0)", {"I": (-12, 7)}),
        ("L: u8[16], X: f32[16, 32]", "sum[i](X[b, i] if i < i64(L[b]) else 0)", {"L": (-3, 34)}),
        ("k: i32, X: f32[16]", "X[b] if b <= i64(k) else 0", {"k": (-2, 17)}),
        ("I: i64[32], J: i64[32]", "sum[i](1.0 if I[i] == b and J[i] == I[i] else 0)", {"I": (-2, 17)}),
        ("I: i64[32], X: f32[32]", "sum[i](X[i] if I[i] == b or I[i] == 100 + b else 0)", {"I": (-8, 123)}),
        ("I: i64[32], X: f32[32]", "sum[i](X[i] if I[i] % 4 == b else 0)", {}),
        ("I: i64[16], k: i64", "1.0 if I[b] == k or I[b] > 7 else 0", {}),
        ("X: f32[16]", "1.0 if X[b] > 0.5 else 0", {}),
    ],
)
def test_integers_that_are_compared_with_places(
    arguments: str, value: str, expected: dict[str, tuple[int, int]]
) -> None:
    func = parse_program(f"program p({arguments}) -> Y: f32[16]:\n    Y[b] = {value}\n").func
    assert place_values(func) == expected
