"""f16 and bf16 in programs: computed in f32, rounded once, where they are stored."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.ir.printer import print_func


def stage(text: str, arguments: str = "A: bf16[8], B: bf16[8]", result: str = "C: bf16[8]") -> str:
    """The block of a one-stage program, as text."""
    program = ms.parse_program(f"program p({arguments}) -> {result}:\n    {text}\n")
    return print_func(program.func).splitlines()[-1].strip().removeprefix("C: ")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("C[i] = A[i] * B[i] + 0.1", "C[i] = bf16(f32(A[i]) * f32(B[i]) + 0.1)"),
        ("C[i] = A[i] + bf16(exp(B[i]))", "C[i] = bf16(f32(A[i]) + f32(bf16(exp(f32(B[i])))))"),
        # What is moved is not converted, and constants are rounded here.
        ("C[i] = A[i] if B[i] > 0 else 0.1", "C[i] = A[i] if f32(B[i]) > 0.0 else 0.10009765625"),
    ],
)
def test_stages(written: str, meant: str) -> None:
    assert stage(written) == meant


def test_a_largest_element_rounds_nothing() -> None:
    assert stage("C[i] = max[k](A[i, k])", "A: f16[8, 4]", "C: f16[8]") == "C[i] max= A[i, k]  init -inf"


def test_wider_types_go_by_way_of_f32() -> None:
    assert stage("C[i] = bf16(A[i])", "A: f64[8]") == "C[i] = bf16(f32(A[i]))"
    assert stage("C[i] = f64(A[i])", "A: bf16[8]", "C: f64[8]") == "C[i] = f64(f32(A[i]))"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "program p(A: bf16[4, 4]) -> C: bf16[4]:\n    C[i] = sum[k](A[i, k])",
            "`sum` over bf16 would round to bf16 at every step",
            r"`sum\[k\]\(f32\(A\[i, k\]\)\)`, and round in a stage after it",
        ),
        (
            "program p(A: f16[4], B: bf16[4]) -> C: f16[4]:\n    C[i] = A[i] + B[i]",
            "is bf16 where f16 is needed",
            r"cast it: `f16\(B\[i\]\)`",
        ),
        (
            "program p(A: f16[4], s: f16) -> C: f16[4]:\n    C[i] = A[i] * s",
            "the scalar `s` is f16, which is a type of storage",
            "write `s: f32`",
        ),
    ],
)
def test_mistakes(text: str, message: str, hint: str) -> None:
    with pytest.raises(ms.LanguageError, match=message) as error:
        ms.parse_program(text)
    assert error.match(hint)


def test_quotients_that_sizes_decide_are_gone() -> None:
    """One group of channels leaves no trace in the index."""
    assert stage("C[i] = A[i // 8 * 8 + i % 8] * B[i // 9]").endswith("f32(A[i]) * f32(B[0]))")
