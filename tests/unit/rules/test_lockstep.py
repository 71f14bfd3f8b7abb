"""Chains of blocks that go on from element to element at one place."""

from __future__ import annotations

import pytest
from metasched.rules.lockstep import lockstep

from metasched.dtypes import DType
from tests.support.rulework import TARGET, apply, correct, reasons

STEP = "(G[{0}] >> 4) + (0 if X[n, G[{0}] & 3] <= V[{0}] else 1)"


def walk(steps: int, last: str = "Y[n] = sum[t](W[P{0}[t, n] & 63])", rows: int = 40) -> str:
    """A program that takes some steps in each of six trees, and adds up what it comes to."""
    shape = rows if "sum" in last else f"6, {rows}"
    tables = "const R: i32[6], const G: i32[64], const V: f32[64], const W: f32[64]"
    lines = [f"program walk(X: f32[{rows}, 4], {tables}) -> Y: f32[{shape}]:"]
    place = "R[t] & 63"
    for step in range(1, steps + 1):
        lines += [f"    P{step}: i32[6, {rows}]", f"    P{step}[t, n] = {STEP.format(place)}"]
        place = f"P{step}[t, n] & 63"
    return "\n".join([*lines, f"    {last.format(steps)}", ""])


def test_all_steps_of_some_rows_are_taken_before_those_of_the_next() -> None:
    sch, _ = apply(walk(4), lockstep)
    text = str(sch.trace)
    assert sch.block_names() == ("P1", "P2", "P3", "P4", "Y")
    assert text.count("compute_at(") == 4
    assert text.count("vectorize(") == 2
    outer, trees, _ = sch.describe(sch.get_block("Y")).loops
    assert sch.describe(sch.get_block("P1")).loops[:2] == (outer, trees)
    correct(sch)


def test_the_width_is_so_many_vectors_of_the_target() -> None:
    sch, _ = apply(walk(4), lockstep(vectors=(3,)))
    assert f"[{3 * TARGET.lanes(DType.I32)}]" in str(sch.trace)


@pytest.mark.parametrize("text", [walk(4, rows=3), walk(4, "Y[t, n] = W[P{0}[t, n] & 63]")], ids=["few rows", "no sum"])
def test_steps_alone(text: str) -> None:
    """Where no reduction has columns for vectors, steps go along the longest dimension of what they compute."""
    sch, _ = apply(text, lockstep)
    assert str(sch.trace).count("compute_at(") == 3
    correct(sch)


def test_two_steps_are_left_to_others() -> None:
    reason = "it does not end a chain of blocks that each read the one before several times"
    assert set(reasons(walk(2), lockstep).values()) == {reason}


def chain(step: str, rows: int = 4096) -> str:
    """Three element-wise steps, each of which reads the one before several times."""
    lines = [f"program chain(A: f32[{rows}, 512]) -> Y: f32[{rows}, 512]:"]
    lines += [f"    {name}: f32[{rows}, 512]" for name in ("T", "U")]
    pairs = zip("ATU", "TUY", strict=True)
    return "\n".join([*lines, *(f"    {y}[i, j] = {step.format(f'{x}[i, j]')}" for x, y in pairs), ""])


def test_comparisons_of_what_no_cache_holds_are_taken_together() -> None:
    sch, _ = apply(chain("{0} if {0} > 0 else {0} * 0.1"), lockstep)
    assert str(sch.trace).count("compute_at(") == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (chain("{0} * tanh({0})"), "call functions or divide"),
        (chain("{0} / (1 + abs({0}))"), "call functions or divide"),
        (chain("{0} if {0} > 0 else {0} * 0.1", rows=32), "the second cache holds"),
    ],
)
def test_steps_that_do_not_wait_for_memory_stay_apart(text: str, why: str) -> None:
    assert why in reasons(text, lockstep)["Y"]
