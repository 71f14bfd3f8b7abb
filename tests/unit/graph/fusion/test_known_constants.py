"""Constants whose elements indices say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.graph.fusion.known_constants import (
    KnownConstant,
    PlacesInOrder,
    SameTruth,
    Triangle,
    known_constant,
)
from metasched.graph.passes.declaration import PassOptions
from metasched.graph.passes.pipeline import optimise_graph
from metasched.target import Target
from tests.support.graphs import network, require_equal

BELOW = np.tri(16, 17, 1, dtype=np.bool_)


@pytest.mark.parametrize(
    ("array", "dtype", "known"),
    [
        (np.ones((2, 3), np.bool_), DType.BOOL, SameTruth(value=True)),
        (np.zeros((2, 3), np.bool_), DType.BOOL, SameTruth(value=False)),
        (np.array([True, False, True]), DType.BOOL, None),
        (np.arange(5, 17, 3)[:, None], DType.I64, PlacesInOrder(0, 5, 3)),
        (np.array([0, 1, 3]), DType.I64, None),
        (np.arange(3, dtype=np.uint8), DType.U8, None),
        (BELOW[None], DType.BOOL, Triangle(DType.BOOL, 1, 2, 1, inside=True, outside=False)),
        (~BELOW, DType.BOOL, Triangle(DType.BOOL, 0, 1, 1, inside=False, outside=True)),
        (np.where(BELOW, 0, -np.inf).astype("f4"), DType.F32, Triangle(DType.F32, 0, 1, 1, 0.0, -np.inf)),
        (np.tri(4, 4, dtype=np.bool_), DType.BOOL, None),
        (np.eye(16, dtype=np.bool_), DType.BOOL, None),
        (np.full((16, 16), np.nan, np.float32), DType.F32, None),
    ],
)
def test_what_is_known_of_a_constant(array: Any, dtype: DType, known: KnownConstant | None) -> None:
    assert known_constant(array, dtype) == known


def _last_lines(body: str) -> list[str]:
    """The last lines of a network's programs after all passes, which compute the same."""
    graph = network(body).graph
    made = optimise_graph(graph, PassOptions(Target.detect()))
    require_equal(graph, made)
    return [str(node.program).splitlines()[-1].strip() for node in made.computes]


def _literal(array: Any) -> str:
    values = ", ".join(str(value) for value in array.reshape(-1).tolist())
    return f"{{{values}}}"


@pytest.mark.parametrize("mask", ["m", "Not(n)", "And(m, l)", "Or(l, m)"])
def test_a_mask_that_hides_nothing_is_not_read(mask: str) -> None:
    head = "m (float[2, 3] x, bool[2, 3] o) => (y) <float w = {-9.0}, bool[1, 3] m = {1, 1, 1}, bool[3] n = {0, 0, 0}>"
    made = "c = Identity(m)" if mask == "m" else f"c = {mask}"
    (text,) = _last_lines(f"{head} {{ l = And(m, m)  {made}  a = Where(c, x, w)  y = Neg(a) }}")
    assert text == "Y[i0] = -A[i0]"


@pytest.mark.parametrize(
    ("condition", "text"),
    [("Less(i, j)", "if i0 < i1"), ("GreaterOrEqual(j, i)", "if i1 >= i0"), ("Less(k, j)", "if -2 * i0 + 5 < i1")],
)
def test_places_in_order_are_compared_by_their_indices(condition: str, text: str) -> None:
    """Of many places: a mask of few is computed ahead."""
    i, j = np.arange(300), np.arange(301)
    places = f"int64[300, 1] i = {_literal(i)}, int64[301] j = {_literal(j)}, int64[300, 1] k = {_literal(5 - 2 * i)}"
    (found,) = _last_lines(
        f"m (float[300, 301] x) => (y) <{places}, float z = {{0.5}}>"
        f" {{ c = {condition}  b = Where(c, x, z)  y = Neg(b) }}"
    )
    assert text in found


@pytest.mark.parametrize("inside", [True, False])
def test_a_triangle_of_truths_is_a_comparison(inside: bool) -> None:
    mask = _literal(np.where(BELOW, inside, not inside).astype(int))
    (text,) = _last_lines(
        f"m (float[2, 16, 17] x) => (y) <bool[16, 17] m = {mask}, float z = {{0.5}}> {{ y = Where(m, x, z) }}"
    )
    assert text == f"Y[i0, i1, i2] = A[i0, i1, i2] if {'' if inside else 'not '}i2 <= i1 + 1 else 0.5"


def test_a_triangle_of_numbers_that_is_added_is_a_choice_of_two_and_a_factor_stays_a_matrix() -> None:
    weights = f"<float[16, 17] m = {_literal(np.where(BELOW, 1.5, -2.0))}>"
    (text,) = _last_lines(f"m (float[2, 16, 17] x) => (y) {weights} {{ y = Add(x, m) }}")
    assert text == "Y[i0, i1, i2] = A[i0, i1, i2] + f32(1.5 if i2 <= i1 + 1 else -2.0)"
    (product,) = _last_lines(f"m (float[3, 16] x) => (y) {weights} {{ y = MatMul(x, m) }}")
    assert product == "Y[i0, i1] = sum[r0 < 16](A[i0, r0] * B[r0, i1])"
