"""Programs that replace a stretch of a tensor are known by what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.graph.updates import stretch_update
from metasched.lang import parse_program
from metasched.reference.execution import reference


@pytest.mark.parametrize(
    ("arguments", "value", "first", "count"),
    [
        ("U: f32[2, 3, 4]", "U[i, j - P[0], k] if j - P[0] >= 0 and j - P[0] < 3 else A[i, j, k]", 0, 3),
        ("U: f32[2, 3, 4]", "U[i, j - P[0], k] if 0 <= j - P[0] and 3 > j - P[0] else A[i, j, k]", 0, 3),
        ("U: f32[2, 3, 4]", "U[i, j - P[0] - 1, k] if j - P[0] - 1 >= 0 and j - P[0] - 1 <= 2 else A[i, j, k]", 1, 3),
        ("U: f32[2, 4]", "U[i, k] if j == P[0] else A[i, j, k]", 0, 1),
        ("U: f32[4, 2]", "U[k, i] if j == P[0] + 2 else A[i, j, k]", 2, 1),
    ],
)
def test_what_is_replaced(arguments: str, value: str, first: int, count: int) -> None:
    program = parse_program(
        f"program p(A: f32[2, 7, 4], {arguments}, P: i64[1]) -> Y: f32[2, 7, 4]:\n    Y[i, j, k] = {value}\n"
    )
    found = stretch_update(program.func)
    assert found is not None
    assert (found.whole, found.update, found.position, found.axis) == ("A", "U", "P", 1)
    assert (found.first, found.count) == (first, count)
    rng = np.random.default_rng(1)
    given = [rng.random([e.value for e in b.shape]).astype(np.float32) for b in program.inputs[:2]]  # type: ignore[attr-defined]
    expected = reference(program)(*given, np.array([2], np.int64))
    made = given[0].copy()
    for index in np.ndindex(2, count, 4):
        source = tuple(0 if d is None else index[d] for d in found.dimensions)
        made[index[0], 2 + first + index[1], index[2]] = given[1][source]
    np.testing.assert_array_equal(made, expected)


def test_what_replaces_may_be_of_another_type() -> None:
    program = parse_program(
        "program p(A: f32[7, 4], U: bf16[4], P: i64[1]) -> Y: f32[7, 4]:\n"
        "    Y[i, j] = f32(U[j]) if i == P[0] else A[i, j]\n"
    )
    found = stretch_update(program.func)
    assert found is not None
    assert (found.whole, found.update, found.position, found.axis, found.count) == ("A", "U", "P", 0, 1)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("U: f32[2, 7, 4]", "U[i, j, k] if j == P[0] else A[i, j, k]"),  # of another place in the update
        ("U: f32[2, 3, 4]", "U[i, j - P[0], k] if j - P[0] >= 0 and j - P[0] < 2 else A[i, j, k]"),  # not all of it
        ("U: f32[2, 3, 4]", "U[i, (j - P[0]) % 3, k] if (j - P[0]) % 7 < 3 else A[i, j, k]"),  # goes round
        ("U: f32[2, 4]", "U[i, k] if j >= P[0] else A[i, j, k]"),  # a stretch without an end
        ("U: f32[2, 4]", "U[i, k] if j == P[0] else A[i, 6 - j, k]"),  # what is left moves
        ("U: f32[2, 4]", "U[i, k] * 2 if j == P[0] else A[i, j, k]"),
        ("U: f32[2, 4]", "A[i, j, k] if j == P[0] else U[i, k]"),
        ("U: f32[2, 4]", "U[i, k] if j == 2 * P[0] else A[i, j, k]"),
        ("U: f32[2, 4]", "U[i, k] if i + j == P[0] else A[i, j, k]"),
    ],
)
def test_what_does_anything_else_is_none(arguments: str, value: str) -> None:
    program = parse_program(
        f"program p(A: f32[2, 7, 4], {arguments}, P: i64[1]) -> Y: f32[2, 7, 4]:\n    Y[i, j, k] = {value}\n"
    )
    assert stretch_update(program.func) is None
