"""Windows over pixels of interleaved channels, along rows of all channels."""

from __future__ import annotations

import pytest

from metasched.compiler.lower import lower
from tests.support.rulework import TARGET, apply, correct, reasons
from tests.support.schedules import vars_of

BLURRED = """
program blurred[N=9, M=12, C=3](X: f32[N, M, C], w: f32[3, 3]) -> Y: f32[N - 2, M - 2, C]:
    Y[i < N - 2, j < M - 2, c] = sum[r, s](X[i + r, j + s, c] * w[r, s])
"""
TO_BYTES = """
program to_bytes(X: u8[9, 12, 3], w: f32[3]) -> Y: u8[9, 10, 3]:
    S[i, j < 10, c] = sum[s](f32(X[i, j + s, c]) * w[s])
    Y[i, j, c] = u8(min(max(S[i, j, c], 0.0), 255.0))
"""
POOLED = """
program pooled(X: f32[8, 10, 3]) -> Y: f32[4, 5, 3]:
    Y[i < 4, j < 5, c] = max[r < 2, s < 2](X[2*i + r, 2*j + s, c])
"""
OF_EACH_CHANNEL = """
program each(X: f32[9, 12, 3], w: f32[3, 3]) -> Y: f32[9, 10, 3]:
    Y[i, j < 10, c] = sum[s](X[i, j + s, c] * w[s, c])
"""
SHARPENED = """
program sharpened(X: f32[9, 12, 3]) -> Y: f32[9, 10, 3]:
    Y[i, j < 10, c] = X[i, j + 1, c] * 2.0 - X[i, j + 2, c]
"""
PART = """
program part(X: f32[9, 12, 4], w: f32[3]) -> Y: f32[9, 10, 3]:
    Y[i, j < 10, c < 3] = sum[s](X[i, j + s, c] * w[s])
"""


@pytest.mark.parametrize(("text", "block"), [(BLURRED, "Y"), (TO_BYTES, "S")], ids=["an output", "in between"])
def test_a_row_of_pixels_and_channels_is_one_dimension(text: str, block: str) -> None:
    sch, outcomes = apply(text, "interleaved")
    assert [o.block for o in outcomes if o.reason is None] == [block]
    info = sch.describe(sch.get_block(block))
    assert [it.extent for it in info.spatial][1:] == [30]
    assert len(vars_of(sch, block)) == len(info.iters)
    correct(sch)


def test_rows_are_read_without_quotients() -> None:
    sch, _ = apply(BLURRED, "interleaved", "multi_level_tiling", "row_runs", "vectorize")
    text = str(lower(sch.func, TARGET))
    assert "FLOORDIV" not in text
    assert "MOD" not in text
    correct(sch)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (POOLED, "what it reads does not have its channels side by side"),
        (OF_EACH_CHANNEL, "what it reads does not have its channels side by side"),
        (PART, "what it reads does not have its channels side by side"),
        (SHARPENED, "it is not a reduction"),
        (BLURRED.replace("C=3", "C=16"), "its rows (16 elements) fill half of a vector, or have one element"),
        (BLURRED.replace("C=3", "C=1"), "its rows (1 elements) fill half of a vector, or have one element"),
    ],
    ids=["every other pixel", "weights of channels", "some channels", "element-wise", "vectors", "one channel"],
)
def test_why_not(text: str, reason: str) -> None:
    assert reasons(text, "interleaved") == {"Y": reason}


def test_what_is_scheduled_stays() -> None:
    sch, outcomes = apply(BLURRED, "multi_level_tiling", "interleaved")
    before, _ = apply(BLURRED, "multi_level_tiling")
    assert {o.reason for o in outcomes if o.rule == "interleaved" and o.block == "Y"} == {"it is scheduled already"}
    assert vars_of(sch, "Y") == vars_of(before, "Y")
