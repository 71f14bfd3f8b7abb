from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.lang.instructions import HOLE
from metasched.space.sketch import Sketch
from tests.support.programs import DENSE_RELU
from tests.support.schedules import program


def module(sch: ms.Schedule) -> None:
    i, j, k = sch.get_loops(sch.get_block("dense"))
    sch.sample_tile(k, name="unused")
    i0, i1 = sch.split(i, sch.sample_tile(i))
    sch.split(i1, sch.sample_tile(i1, parts=3, name="nested"))
    sch.vectorize(j, lanes=sch.sample_categorical([4, 8, 96], name="lanes"))
    sch.parallel(i0)


@pytest.fixture(scope="module")
def sketch() -> Sketch:
    return ms.space(program(N=48), module=module)[0]


def rows(sketch: Sketch, count: int = 50) -> np.ndarray:
    return sketch.sample(np.random.default_rng(0), count)


def test_columns_are_the_free_numbers(sketch: Sketch) -> None:
    assert [v.address for v in sketch.variables] == ["i", "nested", "lanes"]
    assert len(sketch.columns) == 4
    assert sketch.groups == ((0,), (1, 2), (3,))
    assert [v.span for v in sketch.variables] == [slice(0, 1), slice(1, 3), slice(3, 4)]


def test_it_prints_as_a_parametric_program(sketch: Sketch, capsys: pytest.CaptureFixture[str]) -> None:
    outer, *_ = sketch.columns
    assert f"parallel i_0 in ceildiv(48, {outer}):" in str(sketch)
    sketch.show()
    assert capsys.readouterr().out == f"{sketch}\n"


def test_its_trace_has_holes(sketch: Sketch) -> None:
    assert sketch.trace.decisions == {}
    with pytest.raises(ms.ScheduleError, match='no decision is given for "i"'):
        sketch.trace.apply_to(sketch.program)
    again = ms.parse_trace(str(sketch.trace))
    assert again == sketch.trace


def test_rows_are_draws_of_the_prior(sketch: Sketch) -> None:
    drawn = rows(sketch)
    assert drawn.shape == (50, 4)
    assert drawn.dtype == np.int64
    np.testing.assert_array_equal(rows(sketch), drawn)
    np.testing.assert_array_equal(sketch.repair(drawn), drawn)
    assert (drawn[:, 1] * drawn[:, 2] <= 2 * drawn[:, 0]).all(), "a tile of a tile"


def test_a_population_of_none(sketch: Sketch) -> None:
    rng = np.random.default_rng(0)
    none = sketch.sample(rng, 0)
    assert none.shape == (0, 4)
    assert sketch.mutate(rng, none).shape == (0, 4)
    assert sketch.repair(none).shape == (0, 4)
    assert sketch.mask(none).shape == (0,)


def test_repairing_follows_the_order_of_the_trace(sketch: Sketch) -> None:
    broken = np.array([[1000, 1000, 1000, 5], [3, 10, 2, 96], [0, 0, 0, 0]])
    assert sketch.repair(broken).tolist() == [[48, 1, 48, 4], [3, 2, 2, 96], [1, 1, 1, 4]]
    assert broken[0, 0] == 1000, "the given rows are left alone"


def test_mutants_differ_in_a_variable_or_two(sketch: Sketch) -> None:
    before = rows(sketch)
    after = sketch.mutate(np.random.default_rng(1), before)
    changed = np.array(
        [[(a[list(g)] != b[list(g)]).any() for g in sketch.groups] for a, b in zip(before, after, strict=True)]
    )
    assert changed.sum(axis=1).max() <= 2
    assert changed.any(axis=0).all()
    assert changed.any()


def test_the_mask_is_the_constraints(sketch: Sketch) -> None:
    drawn = rows(sketch)
    np.testing.assert_array_equal(sketch.mask(drawn), drawn[:, 3] <= 64)
    assert 0 < sketch.mask(drawn).sum() < 50


def test_rows_and_traces(sketch: Sketch) -> None:
    row = sketch.repair(np.array([[12, 2, 3, 8]]))[0]
    assert sketch.decisions(row) == {"i": (HOLE, 12), "nested": (HOLE, 2, 3), "lanes": 8}
    trace = sketch.trace_of(row)
    assert trace.apply_to(sketch.program).trace == trace
    assert sketch.row_of(trace) == (12, 2, 3, 8)
    assert sketch.row_of(sketch.trace) is None
    assert sketch.row_of(ms.Schedule(sketch.program).trace) is None
    longer = ms.Schedule(sketch.program)
    module(longer)
    longer.get_block("relu")
    assert sketch.row_of(longer.trace) is None


def test_a_sketch_without_numbers() -> None:
    sketch = ms.space(program(DENSE_RELU), module=lambda sch: sch.get_block("dense"))[0]
    rng = np.random.default_rng(0)
    drawn = sketch.sample(rng, 3)
    assert drawn.shape == (3, 0)
    assert sketch.mutate(rng, drawn).shape == (3, 0)
    assert sketch.mask(drawn).tolist() == [True] * 3
    assert sketch.row_of(sketch.trace_of(drawn[0])) == ()
