"""Programs whose buffers are narrower, and which compute as before."""

from __future__ import annotations

import pytest

from metasched.dtypes import DType
from metasched.graph.fusion.stages import program_of, stages_of
from metasched.graph.precision.narrowing import narrow_stages
from metasched.lang import parse_program


def narrowed(text: str) -> str:
    """A program whose buffers A and Y are of bf16."""
    stages = stages_of(parse_program(text))
    assert stages is not None
    return f"{program_of(narrow_stages(stages, ['A', 'Y'], DType.BF16), 'p')}\n"


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("A[i] if i < 6 else f32(-inf)", "A[i] if i < 6 else bf16(f32(-inf))"),
        ("A[i] if i < 6 else 0.5", "A[i] if i < 6 else 0.5"),
        (
            "f32(1) if i >= 6 else (A[i] if A[i] > f32(0) else f32(2))",
            "bf16(f32(1)) if i >= 6 else A[i] if f32(A[i]) > f32(0) else bf16(f32(2))",
        ),
        ("A[i] if i < 6 else inf - inf", "bf16(f32(A[i]) if i < 6 else inf - inf)"),
    ],
)
def test_what_is_moved_by_conditions_stays_narrow(value: str, made: str) -> None:
    assert f"Y[i] = {made}\n" in narrowed(f"program p(A: f32[6]) -> Y: f32[8]:\n  Y[i] = {value}\n")


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("A[i] + A[i + 1]", "bf16(f16(A[i]) + f16(A[i + 1]))"),
        ("f16(exp(f32(A[i])))", "bf16(exp(f32(A[i])))"),  # rounded once
        ("A[i] if i < 4 else f16(2)", "A[i] if i < 4 else bf16(f16(2))"),
    ],
)
def test_values_in_f16_are_narrowed_too(value: str, made: str) -> None:
    assert f"Y[i] = {made}\n" in narrowed(f"program p(A: f16[6]) -> Y: f16[5]:\n  Y[i] = {value}\n")


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("A[i, j] / S[i]", "bf16(f32(A[i, j]) * (1.0 / S[i]))"),
        ("A[i, j] / (S[i] + 1.0)", "bf16(f32(A[i, j]) * (1.0 / (S[i] + 1.0)))"),
        ("1.0 / S[i] + A[i, j]", "bf16(1.0 / S[i] + f32(A[i, j]))"),
        ("S[i] / A[i, j]", "bf16(S[i] / f32(A[i, j]))"),
        ("floor(A[i, j] / S[i])", "bf16(floor(f32(A[i, j]) / S[i]))"),
    ],
)
def test_rows_are_divided_by_one_reciprocal(value: str, made: str) -> None:
    text = f"program p(A: f32[3, 16], S: f32[3]) -> Y: f32[3, 16]:\n  Y[i, j] = {value}\n"
    assert f"Y[i, j] = {made}\n" in narrowed(text)
    assert "* (1.0" not in narrowed(text.replace("16", "8"))
