"""Equal computations as equal stages: the order of these."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.graph.fusion.canonical import canonical
from metasched.graph.fusion.stages import program_of, stages_of

# A product of bytes with zero points of both sides: its corrections are sums over rows and over columns.
PRODUCT = """
program product(A: u8[64, 32], const B: i8[32, 48], x: i32[], y: i32[]) -> Y: f32[64, 48]:
    T: i32[64, 48]
    R: i32[64]
    C: i32[48]
    T[i, j] = sum[k < 32](i32(A[i, k]) * i32(B[k, j]))
    R[i] = sum[k < 32](i32(A[i, k]))
    C[j] = sum[k < 32](i32(B[k, j]))
    Y[i, j] = f32(T[i, j] - x[] * C[j] - y[] * R[i])
"""


def test_the_heaviest_of_what_a_stage_needs_is_made_last() -> None:
    """The result is computed with tiles of the product, for which the corrections have to be there."""
    stages = stages_of(ms.parse_program(PRODUCT))
    assert stages is not None
    made = canonical(stages)[0]
    work = [made.iterations(stage) for stage in made.stages]
    assert work == [48 * 32, 64 * 32, 64 * 48 * 32, 64 * 48]


def test_tiles_of_a_product_take_what_follows_with_them() -> None:
    stages = stages_of(ms.parse_program(PRODUCT))
    assert stages is not None
    program = program_of(canonical(stages)[0], "product")
    sch = ms.Schedule(program)
    main = max(sch.block_names(), key=lambda name: sch.describe(sch.get_block(name)).instances or 0)
    sch.reverse_compute_at(sch.get_block("Y"), sch.get_loops(sch.get_block(main))[0])
    assert sch.get_loops(sch.get_block("Y"))[0] == sch.get_loops(sch.get_block(main))[0]


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("T[i] + 0.0", "Y[i0] = sum[r0 < 8](A[i0, r0])"),
        ("f32(0.0) + T[i]", "Y[i0] = sum[r0 < 8](A[i0, r0])"),
        ("T[i] + (0.0 + (1.0 if i < 3 else 0.0))", "Y[i0] = T0[i0] + (1.0 if i0 < 3 else 0.0)"),
        ("T[i] * (A[i, 0] + 0.0)", "Y[i0] = T0[i0] * (A[i0, 0] + 0.0)"),
        ("T[i] + (0.0 + (1.0 if i < 3 else -0.0))", "Y[i0] = T0[i0] + (0.0 + (1.0 if i0 < 3 else -0.0))"),
    ],
)
def test_a_zero_is_added_only_to_what_may_be_a_negative_zero(line: str, made: str) -> None:
    text = f"program p(A: f32[8, 8]) -> Y: f32[8]:\n    T: f32[8]\n    T[i] = sum[r < 8](A[i, r])\n    Y[i] = {line}\n"
    stages = stages_of(ms.parse_program(text))
    assert stages is not None
    assert str(program_of(canonical(stages)[0], "p")).splitlines()[-1].strip() == made
