"""Every statement's features, and relation curves, on a product whose loops one can multiply by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.yardstick.details import CURVES, CYCLES, DETAILED, RELATIONS, THRESHOLDS, Details, details_of
from benchmarks.yardstick.details import joined_details as joined
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.memory import BUFFERS
from metasched.lang import parse_program
from tests.support.targets import AVX512
from tests.unit.cost.conftest import COLUMNS, dense_relu, draw_rows

NO_ROWS = np.empty((1, 0), np.int64)


def plain(rows: int, columns: int, terms: int) -> Details:
    """Of a product in the order of its loops."""
    text = f"program p(A: f32[{rows}, {terms}], B: f32[{terms}, {columns}]) -> C: f32[{rows}, {columns}]:\n"
    program = parse_program(text + "    C[i, j] = sum[k](A[i, k] * B[k, j])\n")
    return details_of(program.func, (), NO_ROWS, AVX512)


def curve(details: Details, access: int, relation: tuple[str, str]) -> dict[int, float]:
    """A curve of the first candidate by the exponent of its threshold."""
    curves = details.curves[0].reshape(BUFFERS, len(RELATIONS), len(THRESHOLDS))
    return dict(zip(THRESHOLDS, curves[access, RELATIONS.index(relation)].tolist(), strict=True))


def test_bytes_touched_by_loops_of_few_iterations() -> None:
    """Loops inside i, j and k have 2^9, 2^4 and 1 iterations, and all have 2^12: C is touched by j and i only."""
    found = plain(8, 32, 16)
    of_store = curve(found, 0, ("touched", "trips"))
    assert [of_store[t] for t in (2, 4, 6, 10, 12, 14)] == [2, 2, 2, 7, 7, 10]
    of_first = curve(found, 1, ("touched", "trips"))
    assert [of_first[t] for t in (2, 4, 6, 10, 12, 14)] == [2, 2, 6, 6, 6, 9]


def test_uses_of_an_element_in_loops_that_touch_little() -> None:
    found = plain(8, 32, 16)
    assert [curve(found, 0, ("reuse", "touched"))[t] for t in (2, 4, 8, 12)] == [0, 4, 4, 4]
    assert [curve(found, 1, ("reuse", "touched"))[t] for t in (2, 4, 8, 12)] == [0, 0, 5, 5]
    assert [curve(found, 1, ("reuse", "trips"))[t] for t in (4, 8, 10, 14)] == [0, 0, 5, 5]


def test_an_access_that_is_not_there_has_no_curve() -> None:
    assert all(not any(curve(plain(8, 32, 16), 3, relation).values()) for relation in RELATIONS)


def test_statements_are_all_there_and_the_longest_comes_first() -> None:
    func, rows = dense_relu(64, 128, 256), draw_rows(50, 1)
    features, details = FeatureProgram(func, COLUMNS, AVX512)(rows), details_of(func, COLUMNS, rows, AVX512)
    assert details.curves.shape == (50, CURVES)
    cycles = np.exp2(details.statements[:, :, CYCLES].astype(np.float64)) - 1.0
    assert (np.diff(cycles, axis=1) <= 0).all()
    np.testing.assert_allclose(np.log2(cycles.sum(axis=1) + 1.0), features[:, NAMES.index("all.cycles")], rtol=1e-5)
    names = [feature.name for feature in DETAILED]
    for name in ("accumulators", "b1.reuse_distance"):
        column = details.statements[:, :, names.index(name)]
        assert (column == features[:, [NAMES.index(f"s0.{name}")]]).any(axis=1).all()


def test_those_of_several_programs_have_room_for_the_most_statements() -> None:
    one, two = plain(8, 32, 16), details_of(dense_relu(64, 64, 64), COLUMNS, draw_rows(3, 2), AVX512)
    both = joined([one, two])
    assert both.statements.shape == (4, two.statements.shape[1], len(DETAILED))
    assert np.array_equal(both.statements[0, :1], one.statements[0])
    assert not both.statements[0, 1:].any()
    assert np.array_equal(both.take(np.array([2])).curves, two.curves[1:2])
    assert joined([]).curves.shape == (0, CURVES)


@pytest.mark.parametrize("count", [0, 5])
def test_rows_may_be_none(count: int) -> None:
    assert len(details_of(dense_relu(), COLUMNS, draw_rows(5, 0)[:count], AVX512).statements) == count
