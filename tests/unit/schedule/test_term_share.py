from __future__ import annotations

import pytest

import metasched as ms

SUM = "program p[N=8](A: f32[N, N], b: f32[N]) -> C: f32[N]:\n    x: C[i] = sum[k{}](A[i, k] * b[k])\n"


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        ("", 1.0),
        (" if k < 6", 0.75),
        (" if k <= i", 36 / 64),
        (" if k < 6 and i >= 4", 0.75 * 0.5),
        (" if k <= i and i < 4", 10 / 64),
        (" if b[k] > 0", 1.0),
        (" if 1 > 0", 1.0),
    ],
)
def test_bounds_are_counted(condition: str, share: float) -> None:
    sch = ms.Schedule(ms.parse_program(SUM.format(condition)))
    assert sch.describe(sch.get_block("x")).present == pytest.approx(share)


def test_what_is_no_reduction_has_all() -> None:
    sch = ms.Schedule(ms.parse_program("program p[N=8](A: f32[N]) -> C: f32[N]:\n    x: C[i] = A[i] if i < 4 else 0\n"))
    assert sch.describe(sch.get_block("x")).present == 1.0
