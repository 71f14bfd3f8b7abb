from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from metasched.schedule.rewrite.cook_toom import MOST_PRODUCTS, Matrix, fast_filter

SIZES = [(m, r) for m in range(1, MOST_PRODUCTS) for r in range(1, 8) if m + r - 1 <= MOST_PRODUCTS]


def times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * x for a, x in zip(row, vector, strict=True)), start=Fraction(0)) for row in matrix]


@pytest.mark.parametrize(("m", "r"), SIZES)
def test_they_filter_exactly(m: int, r: int) -> None:
    rng, found = np.random.default_rng([m, r]), fast_filter(m, r)
    assert found.products == m + r - 1
    data = [Fraction(int(x)) for x in rng.integers(-9, 10, m + r - 1)]
    weights = [Fraction(int(x)) for x in rng.integers(-9, 10, r)]
    products = [a * b for a, b in zip(times(found.filter, weights), times(found.data, data), strict=True)]
    direct = [sum((data[k + j] * weights[j] for j in range(r)), start=Fraction(0)) for k in range(m)]
    assert times(found.result, products) == direct


def test_the_matrices_of_lavin_and_gray_but_for_signs_of_rows() -> None:
    found = fast_filter(4, 3)
    data = [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0]]
    data += [[0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]]
    filters = [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]
    assert [list(row) for row in found.data] == data
    assert [[24 * x for x in row] for row in found.filter] == filters


def test_larger_tiles_amplify_errors_more() -> None:
    for norm, expected in ((1, [2 + 2 / 3, 16.0, 22.56]), (2, [1.29, 5.6, 6.8])):
        assert [fast_filter(m, 3).amplification(norm) for m in (2, 4, 6)] == pytest.approx(expected, rel=0.02)
