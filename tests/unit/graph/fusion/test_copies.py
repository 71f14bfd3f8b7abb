"""Programs that only copy are known by what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.graph.fusion.copies import CopiedBox, copied_boxes
from metasched.lang import parse_program
from metasched.reference.execution import reference


def boxes(signature: str, stage: str) -> tuple[CopiedBox, ...] | None:
    return copied_boxes(parse_program(f"program p({signature}):\n    {stage}\n").func)


@pytest.mark.parametrize(
    ("signature", "stage"),
    [
        ("A: f32[2, 3], B: f32[2, 4]) -> (Y: f32[2, 7]", "Y[i, j] = A[i, j] if j < 3 else B[i, j - 3]"),
        ("A: f32[2, 3], B: f32[2, 4]) -> (Y: f32[2, 7]", "Y[i, j] = B[i, j - 3] if j >= 3 else A[i, j]"),
        ("A: f32[2, 3], B: f32[2, 4]) -> (Y: f32[2, 7]", "Y[i, j] = A[i, j] if j <= 2 else B[i, j - 3]"),
        ("A: f32[2, 3], B: f32[2, 4]) -> (Y: f32[2, 7]", "Y[i, j] = B[i, j - 3] if 2 < j else A[i, j]"),
        ("A: f32[9, 5]) -> (Y: f32[2, 3]", "Y[i, j] = A[2 * i + 4, j + 1]"),
        ("A: f32[3, 2]) -> (Y: f32[2, 3]", "Y[i, j] = A[2 - j, i]"),
        ("A: f32[4], B: f32[2]) -> (Y: f32[3]", "Y[i] = A[i] if i < 1 else (B[i - 1] if i < 2 else A[i + 1])"),
        ("A: f32[4]) -> (Y: f32[3]", "Y[i] = A[i] if i < 9 else A[0]"),
    ],
)
def test_boxes_have_what_the_program_copies(signature: str, stage: str) -> None:
    program = parse_program(f"program p({signature}):\n    {stage}\n")
    found = copied_boxes(program.func)
    assert found is not None
    given = {b.name: np.random.default_rng(1).random(tuple(e.value for e in b.shape)) for b in program.inputs}  # type: ignore[attr-defined]
    arrays = {name: array.astype(np.float32) for name, array in given.items()}
    expected = reference(program)(*arrays.values())
    made = np.full_like(expected, np.nan)
    for box in found:
        for index in np.ndindex(box.shape):
            source = tuple(
                start + sum(step * n for step, n in zip(row, index, strict=True))
                for start, row in zip(box.source, box.steps, strict=True)
            )
            place = tuple(low + n for low, n in zip(box.begin, index, strict=True))
            assert np.isnan(made[place]), "boxes overlap"
            made[place] = arrays[box.input][source]
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("signature", "stage"),
    [
        ("A: f32[4]) -> (Y: f32[4]", "Y[i] = A[i] * 2"),
        ("A: f32[4]) -> (Y: f32[4]", "Y[i] = A[i // 2]"),
        ("A: f32[4]) -> (Y: f32[4]", "Y[i] = A[i] if i % 2 == 0 else A[0]"),
        ("A: f32[4], I: i64[4]) -> (Y: f32[4]", "Y[i] = A[I[i]]"),
        ("A: f32[4]) -> (Y: f32[6]", "Y[i] = A[i] if i < 4 else 0"),
        ("A: f32[4]) -> (Y: f32[]", "Y[] = sum[k](A[k])"),
        ("A: f32[4]) -> (Y: f64[4]", "Y[i] = f64(A[i])"),
        ("A: f32[4], s: i64) -> (Y: f32[4]", "Y[i] = A[i] if i < s else A[0]"),
        ("A: f32[2, 2]) -> (Y: f32[2, 2]", "Y[i, j] = A[i, j] if i + j < 2 else A[0, 0]"),
    ],
)
def test_what_does_more_than_copy_has_none(signature: str, stage: str) -> None:
    assert boxes(signature, stage) is None
