"""The law of parametric programs: for any row, what a sketch says is what the replay of the row's trace is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

import metasched as ms
from metasched.cost.features import FeatureProgram
from metasched.errors import ScheduleError
from metasched.ir.validate import validate
from metasched.target import Target
from tests.property.fuzz.fuzz_classics import PADDED, ROWS, STRIDED, WHOLE
from tests.support.parametric import require_equal

EXAMPLES = Path(__file__).parents[2] / "examples"
TARGET = Target.detect(threads=2)


def constrained(sch: ms.Schedule) -> None:
    """Sizes that fit each other, or not: every row is a question of a mask."""
    i, j, k = sch.get_loops(sch.get_block("dense"))
    _, inner = sch.sample_tile(i, parts=2)
    sch.split(i, [3, inner])
    lanes = sch.sample_categorical([4, 8, 64, 96], name="lanes")
    sch.vectorize(j, lanes=lanes * 2 if sch.choose("double", [False, True]) else lanes)
    _, rest = sch.split(k, [sch.sample_categorical([1, 2, 5], name="depth"), sch.sample_categorical([1, 4], name="d")])
    sch.unroll(rest)


@cache
def space(name: str) -> ms.Space:
    load = ms.load_program
    match name:
        case "dense":
            return ms.space(load(EXAMPLES / "dense_relu.ms", N=13, M=24, K=7))
        case "conv2d":
            return ms.space(load(EXAMPLES / "conv2d.ms", H=7, W=5, CI=4, CO=12))
        case "matmul":
            return ms.space(load(EXAMPLES / "relu_pad_matmul.ms", N=4, K=40, M=3, L=23))
        case "constrained":
            return ms.space(load(EXAMPLES / "dense_relu.ms", N=13, M=24, K=7), module=constrained)
    texts = {"padded": PADDED, "rows": ROWS, "strided": STRIDED, "whole": WHOLE}
    return ms.space(ms.parse_program(texts[name].format("f32")))


NAMES = ("dense", "conv2d", "matmul", "padded", "rows", "strided", "whole", "constrained")


@st.composite
def candidates(draw: st.DrawFn) -> tuple[ms.Sketch, npt.NDArray[np.int64]]:
    found = space(draw(st.sampled_from(NAMES)))
    variants = found.variants(draw(st.integers(0, len(found) - 1)), 3)
    sketch = variants[draw(st.integers(0, len(variants) - 1))]
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    anything = rng.integers(0, draw(st.sampled_from([2, 5, 20, 200])), size=(1, len(sketch.columns)))
    return sketch, np.concatenate([sketch.sample(rng, 1), sketch.repair(anything)])


@settings(max_examples=settings.default.max_examples * 2 // 3)
@given(candidates())
def test_a_row_is_what_its_trace_replays_to(candidate: tuple[ms.Sketch, npt.NDArray[np.int64]]) -> None:
    sketch, rows = candidate
    legal = sketch.mask(rows)
    features = FeatureProgram(sketch.func, sketch.columns, TARGET)(rows)
    for row, allowed, expected in zip(rows, legal, features, strict=True):
        trace = sketch.trace_of(row)
        try:
            schedule = trace.apply_to(sketch.program)
        except ScheduleError as error:
            assert not allowed, f"the mask lets through what replay refuses: {error}"
            continue
        assert allowed, "the mask leaves out what replay takes"
        assert schedule.trace == trace
        assert sketch.row_of(trace) == tuple(int(x) for x in row)
        require_equal(sketch.func, sketch.columns, row, schedule.func)
        validate(schedule.func)
        concrete = FeatureProgram(schedule.func, (), TARGET)(np.empty((1, 0), dtype=np.int64))[0]
        differing = np.flatnonzero(~np.isclose(expected, concrete, rtol=1e-4, atol=1e-4))
        assert not differing.size, [(FeatureProgram.names[n], expected[n], concrete[n]) for n in differing[:4]]


@given(candidates())
def test_rows_stay_in_the_support(candidate: tuple[ms.Sketch, npt.NDArray[np.int64]]) -> None:
    sketch, rows = candidate
    np.testing.assert_array_equal(
        sketch.repair(rows), rows, "repaired rows and draws from the prior are in the support"
    )
    rng = np.random.default_rng(0)
    moved = sketch.repair(sketch.mutate(rng, rows))
    np.testing.assert_array_equal(sketch.repair(moved), moved)
    for row in moved[: 1 if sketch.columns else 0]:
        (trace,) = [sketch.trace_of(row)]
        if sketch.mask(moved[:1])[0]:
            assert trace.apply_to(sketch.program).trace == trace


def test_constraints_leave_some_rows_out() -> None:
    """Otherwise the law would not be about masks."""
    sketch = space("constrained")[0]
    rows = sketch.sample(np.random.default_rng(0), 200)
    assert 0 < sketch.mask(rows).sum() < 200
