from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.ir.integers.affine import const, simplify
from metasched.ir.nodes import Binary, BinOp, Const, Var
from metasched.lang.instructions import HOLE
from metasched.schedule.distributions.partitioned_tile import PartitionedTile
from metasched.schedule.distributions.tile import Tile


def tile(extent: int, parts: int = 3, partition: int = 1, multiple: int = 16) -> PartitionedTile:
    return PartitionedTile(const(extent), parts, partition, multiple)


@st.composite
def partitioned(draw: st.DrawFn) -> PartitionedTile:
    parts = draw(st.integers(2, 4))
    extent = draw(st.sampled_from([1, 2, 7, 12, 64, 127, 360, 512, 1009]))
    return tile(extent, parts, draw(st.integers(1, parts - 1)), draw(st.sampled_from([1, 2, 4, 12, 16, 30])))


seeds = st.integers(0, 1 << 20)


def extents(dist: PartitionedTile, count: int) -> np.ndarray:
    return np.full(count, dist.concrete_extent(), dtype=np.int64)


@pytest.mark.parametrize(
    ("decision", "inside"),
    [
        ((HOLE, 4, 4), True),
        ((HOLE, 1, 16), True),
        ((HOLE, 16, 1), True),
        ((HOLE, 4, 12), True),
        ((HOLE, 3, 5), False),
        ((HOLE, 8, 1), False),
        ((HOLE, 1, 128), False),  # more than 100, rounded up to whole groups of 16
        ((HOLE, 1, 112), True),
        ((HOLE, 0, 16), False),
        ((HOLE, True, 16), False),
        ((HOLE, 16), False),
        ((1, 4, 4), False),
        (16, False),
        (None, False),
    ],
)
def test_what_is_in_the_support(decision: object, inside: bool) -> None:
    assert tile(100).contains(decision) is inside  # type: ignore[arg-type]


@given(partitioned(), seeds)
def test_draws_repairs_and_mutants_are_in_the_support(dist: PartitionedTile, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = dist.sample_rows(rng, extents(dist, 20))
    wild = rng.integers(-3, 300, (20, dist.width))
    rows = [*drawn, *dist.mutate_rows(rng, drawn, extents(dist, 20)), *dist.repair_rows(wild, extents(dist, 20))]
    for row in rows:
        decision = dist.decode(row)
        assert dist.contains(decision)
        assert np.prod(row[dist.partition - 1 :]) % dist.multiple == 0
        assert dist.repair(decision) == decision
        assert all(_holds(c) for c in dist.conditions(decision))


@given(partitioned(), seeds)
def test_one_candidate_or_a_population(dist: PartitionedTile, seed: int) -> None:
    one = dist.sample(np.random.default_rng(seed))
    assert one == dist.decode(dist.sample_rows(np.random.default_rng(seed), extents(dist, 1))[0])
    assert all(dist.contains(n) and n != one for n in dist.neighbours(one))


@given(partitioned(), seeds)
def test_conditions_say_what_is_in_the_support(dist: PartitionedTile, seed: int) -> None:
    wild = dist.decode(np.random.default_rng(seed).integers(1, 40, dist.width).tolist())
    assert dist.contains(wild) is all(_holds(c) for c in dist.conditions(wild))


def _holds(condition: object) -> bool:
    if isinstance(condition, bool):
        return condition
    found = simplify(condition)
    assert isinstance(found, Const)
    return bool(found.value)


def test_extents_of_each_candidate() -> None:
    dist = PartitionedTile(Var("t"), 3, 2, 4)
    rows = dist.sample_rows(np.random.default_rng(0), np.array([8, 512] * 100))
    assert (rows[:, 1] % 4 == 0).all()
    assert rows[::2].max() <= 8 < rows[1::2].max()


def test_without_a_multiple_it_is_a_tile() -> None:
    plain, dist = Tile(const(360), 3, 1 << 40), tile(360, 3, 1, 1)
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    np.testing.assert_array_equal(dist.sample_rows(rng, extents(dist, 9)), plain.sample_rows(again, extents(dist, 9)))


def test_the_prior_puts_shares_everywhere() -> None:
    rows = tile(512, 3, 1, 16).sample_rows(np.random.default_rng(0), np.full(2000, 512))
    assert {1, 2, 4, 8, 16} <= set(rows[:, 0].tolist())
    assert {1, 2, 4, 8, 16} <= set(rows[:, 1].tolist())


def test_outputs() -> None:
    outer, a, b = tile(100).outputs((HOLE, 2, 16))
    assert (outer, a, b) == (const(4), const(2), const(16))
    dist = PartitionedTile(const(100), 3, 1, 16)
    assert dist.free_outputs([Var("a"), Var("b")])[0] == simplify(
        Binary(BinOp.CEILDIV, const(100), Var("a") * Var("b"))
    )
    assert dist.column_names(["t0", "t1", "t2"]) == ("t1", "t2")
    assert not dist.structural


def test_support_in_words() -> None:
    assert tile(100).support() == "2 inner factors of 100, the product of the innermost 2 a multiple of 16"
    assert tile(100, 3, 2).support() == "2 inner factors of 100, the innermost a multiple of 16"
    with pytest.raises(TypeError, match="no list of options"):
        tile(100).options()
