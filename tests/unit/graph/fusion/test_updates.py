"""Programs that replace a stretch of a tensor are known by what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.graph.fusion.stages import program_of
from metasched.graph.fusion.updates import position_apart, stretch_update
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.reference.execution import reference


def program(arguments: str, *stages: str) -> Program:
    body = "".join(f"    {stage}\n" for stage in stages)
    return parse_program(f"program p(A: f32[2, 7, 4], {arguments}, P: i64[1]) -> Y: f32[2, 7, 4]:\n{body}")


@pytest.mark.parametrize(
    ("arguments", "value", "first", "count"),
    [
        ("U: f32[2, 3, 4]", "U[i, j - P[0], k] if j - P[0] >= 0 and j - P[0] < 3 else A[i, j, k]", 0, 3),
        ("U: f32[2, 3, 4]", "U[i, j - P[0], k] if 0 <= j - P[0] and 3 > j - P[0] else A[i, j, k]", 0, 3),
        ("U: f32[2, 3, 4]", "U[i, j - P[0] - 1, k] if j - P[0] - 1 >= 0 and j - P[0] - 1 <= 2 else A[i, j, k]", 1, 3),
        ("U: f32[2, 3, 4]", "U[i, j - P[0], k] if j - P[0] >= 0 and j - P[0] < 2 else A[i, j, k]", 0, 2),
        ("U: f32[2, 4]", "U[i, k] if j == P[0] else A[i, j, k]", 0, 1),
        ("U: f32[4, 2]", "U[k, i] if j == P[0] + 2 else A[i, j, k]", 2, 1),
        ("U: f32[20]", "U[8 * i + k + 3] * 2 if j == P[0] else A[i, j, k]", 0, 1),
        ("U: f32[2, 7, 4]", "U[i, j, k] if j == P[0] else A[i, j, k]", 0, 1),
        ("U: f32[2, 4]", "U[i, k] * f32(P[0]) if j == P[0] else A[i, j, k]", 0, 1),
    ],
)
def test_what_is_replaced(arguments: str, value: str, first: int, count: int) -> None:
    whole = program(arguments, f"Y[i, j, k] = {value}")
    found = stretch_update(whole)
    assert found is not None
    assert (found.whole, found.position, found.axis, found.first, found.count) == ("A", "P", 1, first, count)
    rng = np.random.default_rng(1)
    given = {b.name: rng.random([e.value for e in b.shape]).astype(np.float32) for b in whole.inputs[:2]}  # type: ignore[attr-defined]
    given["P"] = np.array([2], np.int64)
    stretch = reference(program_of(found.stretch, "stretch"))(*(given[name] for name in found.stretch.inputs))
    made = given["A"].copy()
    made[:, 2 + first : 2 + first + count] = stretch
    np.testing.assert_array_equal(made, reference(whole)(*given.values()))


def test_what_is_new_may_be_computed_in_several_stages() -> None:
    whole = program(
        "U: f32[2, 4]",
        "T: f32[2]",
        "T[i] = sum[r](U[i, r])",
        "Y[i, j, k] = U[i, k] / T[i] if j == P[0] else A[i, j, k]",
    )
    found = stretch_update(whole)
    assert found is not None
    assert found.stretch.inputs == ("U",)
    u = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
    made = reference(program_of(found.stretch, "stretch"))(u)
    np.testing.assert_allclose(made[:, 0], u / u.sum(1, keepdims=True), rtol=1e-6)


def test_what_replaces_may_be_of_another_type() -> None:
    found = stretch_update(
        parse_program(
            "program p(A: f32[7, 4], U: bf16[4], P: i64[1]) -> Y: f32[7, 4]:\n"
            "    Y[i, j] = f32(U[j]) if i == P[0] else A[i, j]\n"
        )
    )
    assert found is not None
    assert (found.whole, found.position, found.axis, found.count) == ("A", "P", 0, 1)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("U: f32[2, 3, 4]", "U[i, (j - P[0]) % 3, k] if (j - P[0]) % 7 < 3 else A[i, j, k]"),  # goes round
        ("U: f32[2, 4]", "U[i, k] if j >= P[0] else A[i, j, k]"),  # a stretch without an end
        ("U: f32[2, 4]", "U[i, k] if j == P[0] else A[i, 6 - j, k]"),  # what is left moves
        ("U: f32[2, 4]", "U[i, k] + A[i, 0, k] if j == P[0] else A[i, j, k]"),  # what was there is read
        ("U: f32[2, 4]", "A[i, j, k] if j == P[0] else U[i, k]"),
        ("U: f32[2, 4]", "U[i, k] if j == 2 * P[0] else A[i, j, k]"),
        ("U: f32[2, 4]", "U[i, k] if i + j == P[0] else A[i, j, k]"),
    ],
)
def test_what_does_anything_else_is_none(arguments: str, value: str) -> None:
    assert stretch_update(program(arguments, f"Y[i, j, k] = {value}")) is None


def test_a_stretch_at_a_fixed_place_has_no_position() -> None:
    text = "program p(A: f32[7], U: f32[7]) -> Y: f32[7]:\n    Y[i] = U[i] if i == 3 else A[i]\n"
    assert stretch_update(parse_program(text)) is None


def test_a_position_that_is_computed_before_may_be_a_program_of_its_own() -> None:
    whole = program(
        "U: f32[2, 4], Q: i64[]",
        "R: i64[]",
        "T: f32[2]",
        "R[] = P[0] * 2 + Q[]",
        "T[i] = sum[r](U[i, r])",
        "Y[i, j, k] = U[i, k] + T[i] if j == R[] else A[i, j, k]",
    )
    assert stretch_update(whole) is None
    found = position_apart(whole)
    assert found is not None
    assert [stage.buffer for stage in found.position.stages] == ["R"]
    assert [stage.buffer for stage in found.rest.stages] == ["T", "Y"]
    assert {*found.position.inputs} == {"P", "Q"}
    update = stretch_update(program_of(found.rest, "rest"))
    assert update is not None
    assert (update.whole, update.position, update.count) == ("A", "R", 1)
    rng = np.random.default_rng(2)
    a, u = rng.random((2, 7, 4)).astype(np.float32), rng.random((2, 4)).astype(np.float32)
    given = {"A": a, "U": u, "Q": np.array(1), "P": np.array([2])}
    r = reference(program_of(found.position, "place"))(*(given[name] for name in found.position.inputs))
    made = reference(program_of(found.rest, "rest"))(*({**given, "R": r}[name] for name in found.rest.inputs))
    np.testing.assert_array_equal(made, reference(whole)(*(given[b.name] for b in whole.inputs)))


@pytest.mark.parametrize("stage", ["A[i, j, k] + U[i, k] * f32(P[0])", "U[i, k] if j == P[0] else A[i, j, k]"])
def test_a_position_that_is_given_is_not_taken_apart(stage: str) -> None:
    assert position_apart(program("U: f32[2, 4]", f"Y[i, j, k] = {stage}")) is None
