"""The indices that all stages of a program go along."""

from __future__ import annotations

import pytest

from metasched.graph.fusion.rows import row_extents
from metasched.graph.fusion.stages import parse_once, stages_of

ROWS = """program p(A: f32[3, 5, 7]) -> Y: f32[3, 5, 7]:
    S: f32[3, 5]
    S[i, j] = sum[k](A[i, j, k])
    Y[i, j, k] = A[i, j, k] / S[{0}]
"""

ALL = """program p(A: f32[3, 5]) -> Y: f32[3, 5]:
    S[i] = sum[j](A[i, j])
    M[] = max[i](S[i])
    Y[i, j] = A[i, j] - M[]
"""
PAIRS = """program p(A: f32[3, 5]) -> Y: f32[3, 3]:
    T[i, j] = exp(A[i, j])
    Y[i, k] = sum[j](T[i, j] * T[k, j])
"""


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (ROWS.format("i, j"), (3, 5)),
        (ROWS.format("i, 4 - j"), (3,)),
        ("program p(A: f32[3, 5]) -> Y: f32[5, 3]:\n    T[i, j] = exp(A[i, j])\n    Y[j, i] = T[i, j]\n", (5, 3)),
        (ALL, ()),
        (PAIRS, ()),
    ],
)  # fmt: skip
def test_rows(text: str, extents: tuple[int, ...]) -> None:
    stages = stages_of(parse_once(text))
    assert stages is not None
    assert row_extents(stages) == extents
