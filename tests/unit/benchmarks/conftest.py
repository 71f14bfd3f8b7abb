"""A file of measurements of two small tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.yardstick.data import SPACE, TimedCode, TimedTask, append
from tests.support.targets import AVX512

_PROGRAM = """program {name}(A: f32[{rows}, 40], B: f32[40, 64]) -> C: f32[{rows}, 64]:
    product: C[i, j] = sum[k](A[i, k] * B[k, j])
"""
_SKETCH = """trace 1 of {name}:
    product = get_block("product")
    i, j, k = get_loops(product)
    t0, t1 ~ sample_tile(i, parts=2)
    i0, i1 = split(i, [t0, t1])
    t2, t3 ~ sample_tile(j, parts=2)
    j0, j1 = split(j, [t2, t3])
    reorder(i0, j0, k, i1, j1)
    vectorize(j1, lanes=8)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "times.jsonl"
    for name, rows, family in (("small", 24, "one"), ("large", 240, "other")):
        # Wide and low tiles are fast here.
        codes = [
            TimedCode(0, (i, j), rows * i / j * 1e-6, rows * i / j * 1.001e-6)
            for i in range(1, 13)
            for j in range(1, 13)
        ]
        program, sketch = (text.format(name=name, rows=rows) for text in (_PROGRAM, _SKETCH))
        append(TimedTask(name, {}, program, None, family, SPACE, str(AVX512), (sketch,), tuple(codes)), path)
    return path
