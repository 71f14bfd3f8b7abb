"""The rule that takes what `allow={"fastmath"}` allows."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched import operators
from tests.support.rulework import reasons

PLAIN = """
program plain[N=9](A: f32[N, N], B: i32[N]) -> (C: f32[N], D: i32[N]):
    C[i] = sum[k](A[i, k])
    D[i] = max(B[i], 3)
"""
LARGEST = "program largest[N=9](A: f32[N, N]) -> C: f32[N]:\n    C[i] = max[k](A[i, k])\n"


def annotated(allow: set[str]) -> set[str]:
    """The blocks of a softmax that have the annotation, in the first sketch."""
    program = operators.load("softmax", M=64, N=64)
    space = ms.space(program, rules=["fast_arithmetic"], allow=allow)
    text = str(space[0].trace)
    return {name for name in ("maximum", "exponential", "total", "normal") if f"annotate({name}, " in text}


def test_blocks_that_divide_or_compare_take_what_is_allowed() -> None:
    assert annotated({"fastmath"}) == {"maximum", "normal"}
    assert annotated(set()) == set()


@pytest.mark.parametrize("value", ["u8(A[i] / 3.0)", "u8(min(max(rint(A[i]), 0.0), 255.0))", "u8(max(f32(B[i]), 2.5))"])
def test_what_is_stored_may_be_no_float(value: str) -> None:
    outputs = f"(C: u8[N], D: u8[N]):\n    C[i] = {value}\n    D[i] = u8(A[i]) + B[i]\n"
    text = f"program p[N=64](A: f32[N], B: u8[N]) -> {outputs}"
    (sketch,) = ms.space(ms.parse_program(text), rules=["fast_arithmetic"], allow={"fastmath"})
    assert str(sketch.trace).count('annotate(C, "fastmath", True)') == 1
    assert "annotate(D" not in str(sketch.trace)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLAIN, {"C": "it neither divides nor compares", "D": "it is not about floats"}),
        (LARGEST, {"C": 'the caller does not allow "fastmath"'}),
    ],
)
def test_it_says_why_not(text: str, expected: dict[str, str]) -> None:
    assert reasons(text, "fast_arithmetic") == expected
