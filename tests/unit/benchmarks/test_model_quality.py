"""The whole benchmark, on a file of two small tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.model_quality import chosen_contestants, run
from benchmarks.registry import Options
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


def test_a_line_for_each_verdict_and_a_table(data: Path, tmp_path: Path) -> None:
    options = Options(threads=1, data=data, models=("random", "roofline"), kept=tmp_path / "kept")
    *lines, last = run(options)
    assert [line["case"] for line in lines] == [
        "second measurement; families never seen; space",
        "random; families never seen; space",
        "random; 64 own records as well; space",
        "roofline; families never seen; space",
        "roofline; 64 own records as well; space",
    ]
    assert [line["seeds"] for line in lines] == [1, 5, 5, 1, 5]
    assert all(line["tasks"] == 2 for line in lines)
    assert lines[0]["pair_accuracy"] == 1.0
    assert last["case"] == "table"
    assert str(last["table"]).count("| roofline |") == 2
    assert [*run(options)] == [*lines, last], "equal features, seeds and times give equal figures"


def test_who_is_unknown_is_named() -> None:
    with pytest.raises(ValueError, match="no model `tree`: there are random, roofline, "):
        chosen_contestants(["roofline", "tree"])
    assert [one.name for one in chosen_contestants(["roofline"])] == ["roofline"]
    assert len(chosen_contestants([])) > 2


def test_without_measurements_it_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"benchmarks\.yardstick\.collect makes them"):
        next(iter(run(Options(data=tmp_path / "none.jsonl"))))
