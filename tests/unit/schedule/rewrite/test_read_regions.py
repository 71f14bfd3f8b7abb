"""The regions that readers need."""

from __future__ import annotations

import pytest

from metasched.ir import query
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.rewrite import read_regions
from metasched.schedule.rewrite.parts import loops_of
from tests.support.structural import start

TEXT = """
program bounded(A: f32[8, 8]) -> Y: f32[8, 8]:
    T: f32[8, 8]
    T[i, j] = A[i, j] * 2.0
    Y[i, j] = T[i, j] * T[i, j] if T[i, j] > 0.0 and T[i, j] < 1.0 else T[i, 7 - j]
"""


def test_elements_that_are_read_several_times_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at, region_of = [], read_regions._region

    def counted(*given: object) -> object:
        looked_at.append(given)
        return region_of(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(read_regions, "_region", counted)
    ctx = start(TEXT)
    reader = query.blocks(ctx.func)[-1].name
    rows, _ = loops_of(ctx.func, reader)
    compute_at(ctx, query.blocks(ctx.func)[0].name, rows)
    assert len(looked_at) == 4  # two elements, by two indices each
