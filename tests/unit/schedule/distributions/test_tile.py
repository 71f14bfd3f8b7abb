from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.ir.integers.affine import const, simplify
from metasched.ir.nodes import Binary, BinOp, Var
from metasched.lang.instructions import HOLE
from metasched.schedule.distributions.tile import Tile, divisors


def tile(extent: int, parts: int = 2, innermost: int = 64, *, perfect: bool = False) -> Tile:
    return Tile(const(extent), parts, innermost, perfect)


tiles = st.builds(
    tile,
    st.sampled_from([1, 2, 7, 12, 13, 64, 127, 360, 512, 1009]),
    st.integers(2, 4),
    st.sampled_from([1, 5, 64, 256]),
    perfect=st.booleans(),
)
seeds = st.integers(0, 1 << 20)


def extents(dist: Tile, count: int) -> np.ndarray:
    return np.full(count, dist.concrete_extent(), dtype=np.int64)


@pytest.mark.parametrize(
    ("decision", "inside"),
    [
        ((HOLE, 1), True),
        ((HOLE, 12), True),
        ((HOLE, 5), True),
        ((HOLE, 13), False),
        ((HOLE, 0), False),
        ((HOLE, -1), False),
        ((HOLE, True), False),
        ((HOLE, 2.0), False),
        ((HOLE, 2, 3), False),
        ((6, 2), False),
        ((HOLE,), False),
        (2, False),
        ("2", False),
        (None, False),
    ],
)
def test_what_is_in_the_support(decision: object, inside: bool) -> None:
    assert tile(12).contains(decision) is inside  # type: ignore[arg-type]


def test_what_is_left_bounds_each_factor() -> None:
    """From the innermost outwards: 4 inside 10 leaves 3 for the next."""
    dist = tile(10, 3)
    assert dist.contains((HOLE, 3, 4))
    assert not dist.contains((HOLE, 4, 4))
    assert not tile(100, 3, innermost=4).contains((HOLE, 1, 5))
    assert tile(100, 3, innermost=4).contains((HOLE, 25, 4)), "only the innermost has a largest size"


def test_perfect_factors_divide_what_is_left() -> None:
    dist = tile(12, 3, perfect=True)
    assert dist.contains((HOLE, 2, 3))
    assert not dist.contains((HOLE, 2, 5))
    assert not dist.contains((HOLE, 3, 6))
    assert tile(127, perfect=True).neighbours((HOLE, 1)) == ()


@pytest.mark.parametrize(
    ("given_", "mended"),
    [
        ((HOLE, 40), (HOLE, 12)),
        ((HOLE, 0), (HOLE, 1)),
        ((HOLE, 2, 40), (HOLE, 12)),
        (7, (HOLE, 1)),
        ((), (HOLE, 1)),
        ((HOLE, "x"), (HOLE, 1)),
    ],
)
def test_mending(given_: object, mended: tuple[object, ...]) -> None:
    assert tile(12).repair(given_) == mended  # type: ignore[arg-type]


def test_mending_a_perfect_tile_takes_the_divisor_below() -> None:
    assert tile(12, perfect=True).repair((HOLE, 5)) == (HOLE, 4)


def test_outputs_are_the_outer_part_and_the_factors() -> None:
    assert tile(127, 3).outputs((HOLE, 4, 8)) == (const(4), const(4), const(8))
    outer, *inner = tile(127, 3).free_outputs([Var("a"), Var("b")])
    assert outer == simplify(Binary(BinOp.CEILDIV, const(127), Var("a") * Var("b")))
    assert inner == [Var("a"), Var("b")]
    assert tile(127, 3).column_names(("x", "y", "z")) == ("y", "z")


def test_it_has_no_options() -> None:
    with pytest.raises(TypeError, match="a tile has no list of options"):
        tile(12).options()


@pytest.mark.parametrize(
    ("dist", "words"),
    [
        (tile(12, 3), "2 inner factors of 12, the innermost at most 64"),
        (tile(12, 2, 4, perfect=True), "1 inner dividing factor of 12, the innermost at most 4"),
    ],
)
def test_the_support_in_words(dist: Tile, words: str) -> None:
    assert dist.support() == words


@pytest.mark.parametrize("value", [1, 2, 12, 127, 1009, 1024])
def test_divisors(value: int) -> None:
    assert divisors(value).tolist() == [d for d in range(1, value + 1) if value % d == 0]


def test_divisors_of_large_extents() -> None:
    """No number beyond a million is tried: programs may have as many iterations as 62 bits say."""
    assert divisors(2**62).tolist() == [2**n for n in range(63)]
    assert divisors(2**61 - 1).tolist() == [1, 2**61 - 1]
    large = (2**30 - 35) ** 2
    assert divisors(6 * large).tolist() == [1, 2, 3, 6, large, 2 * large, 3 * large, 6 * large]
    assert divisors(999_983 * 1_000_003).tolist() == [1, 999_983, 1_000_003, 999_983 * 1_000_003]


@given(tiles, seeds)
def test_draws_are_in_the_support(dist: Tile, seed: int) -> None:
    rng = np.random.default_rng(seed)
    decision = dist.sample(rng)
    assert dist.contains(decision)
    assert dist.repair(decision) == decision
    assert dist.decode(dist.encode(decision)) == decision
    assert all(dist.contains(n) and n != decision for n in dist.neighbours(decision))


@given(tiles, seeds, st.integers(0, 3000))
def test_repair_lands_in_the_support_and_stays(dist: Tile, seed: int, largest: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, largest + 1, size=(8, dist.width))
    mended = dist.repair_rows(rows, extents(dist, 8))
    np.testing.assert_array_equal(dist.repair_rows(mended, extents(dist, 8)), mended)
    assert all(dist.contains(dist.decode(row)) for row in mended)
    assert all(dist.repair((HOLE, *map(int, row))) == dist.decode(m) for row, m in zip(rows, mended, strict=True))


@given(tiles, seeds)
def test_mutants_are_in_the_support(dist: Tile, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = dist.sample_rows(rng, extents(dist, 16))
    kept = rows.copy()
    moved = dist.mutate_rows(rng, rows, extents(dist, 16))
    np.testing.assert_array_equal(rows, kept)
    assert all(dist.contains(dist.decode(row)) for row in moved)


@given(seeds)
def test_rows_of_different_extents(seed: int) -> None:
    """A tile of a tile: each row has an extent of its own."""
    rng = np.random.default_rng(seed)
    dist = Tile(Var("outer"), 3, 64)
    sizes = rng.integers(1, 200, size=20)
    for rows in (dist.sample_rows(rng, sizes), dist.mutate_rows(rng, dist.sample_rows(rng, sizes), sizes)):
        for row, size in zip(rows, sizes, strict=True):
            assert tile(int(size), 3).contains(dist.decode(row))


@pytest.mark.parametrize("perfect", [False, True])
def test_a_loop_of_no_iterations_has_the_tiles_of_one(perfect: bool) -> None:
    rng = np.random.default_rng(0)
    dist = Tile(const(0), 3, perfect=perfect)
    assert dist.sample_rows(rng, np.zeros(5, np.int64)).tolist() == [[1, 1]] * 5
    assert dist.repair_rows(np.full((2, 2), 8), np.zeros(2, np.int64)).tolist() == [[1, 1]] * 2
    assert dist.mutate_rows(rng, np.ones((4, 2), np.int64), np.zeros(4, np.int64)).tolist() == [[1, 1]] * 4
    assert dist.contains((1, 1)) or dist.contains((HOLE, 1, 1))
