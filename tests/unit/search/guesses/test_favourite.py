"""The candidates that the cost model likes best before anything is measured."""

from __future__ import annotations

import metasched as ms
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.guesses.favourite import favourites

STAGES = 28


def test_of_a_long_chain_of_stages_fewer_structures_are_looked_at() -> None:
    arms = SpaceArms(ms.space(ms.parse_program(chain(STAGES))), ms.Target.detect(threads=2))
    assert next(favourites(arms)) is not None
    assert 2 <= len(arms) < 8


def chain(stages: int) -> str:
    """A program each of whose stages chooses between the one before it, from behind, and a larger number."""
    befores = (f"T{n}[4095 - i]" for n in range(stages - 1))
    steps = [f"T{n}[i] = {at} * A[i] if {at} < 4.0 else {at}" for n, at in enumerate(befores, start=1)]
    lines = ["T0[i] = A[i] * 2.0", *steps, f"Y[i] = T{stages - 1}[i] + A[i]"]
    declared = [f"T{n}: f32[4096]" for n in range(stages)]
    return "\n    ".join(["program p(A: f32[4096]) -> Y: f32[4096]:", *declared, *lines])
