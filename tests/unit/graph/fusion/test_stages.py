"""Programs made of stages are those that their text says."""

from __future__ import annotations

from metasched.graph.fusion.stages import program_of, stages_of
from metasched.lang import parse_program

TEXT = """program border(A: f32[6, 4], const W: f32[4], P: i64[1]) -> Y: f32[8]:
    T: f32[8, 4]
    T[i, j] = A[i - 1, j] * -2.0 if i >= 1 and (i < 7 or j == 0) and i - 1 < 6 and i < P[0] else -(1.5e-3 + W[j])
    Y[i] = sum[r < 4 if r < P[0]](max(T[i, r], f32(r) - 0.5) / (W[r] - (T[i, r] - 1.0)))
"""


def test_a_program_of_stages_is_what_its_text_parses_to() -> None:
    stages = stages_of(parse_program(TEXT))
    assert stages is not None
    made = program_of(stages, "border")
    read = parse_program(str(made))
    assert made.definition == read.definition
    assert made.func == read.func
    assert program_of(stages, "border") is made
