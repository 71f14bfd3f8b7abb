"""Statistics of the samplers. Seeds are fixed: a failure is a change, not bad luck."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import special

from metasched.ir.integers.affine import const
from metasched.lang.instructions import HOLE, Decision
from metasched.schedule.distributions.base import Distribution
from metasched.schedule.distributions.categorical import Categorical
from metasched.schedule.distributions.choice import ChoiceDistribution
from metasched.schedule.distributions.tile import EXACT_SHARE, Tile

# Below it, two samples are held to come from different distributions; with fixed seeds, a bound to tune once.
SIGNIFICANT = 1e-3


def rows_of(dist: Tile | Categorical, extent: int, count: int, seed: int = 0) -> np.ndarray:
    return dist.sample_rows(np.random.default_rng(seed), np.full(count, extent, dtype=np.int64))


def singly(dist: Distribution, count: int) -> Counter[Decision]:
    rng = np.random.default_rng(1)
    return Counter(dist.sample(rng) for _ in range(count))


def require_same(first: Counter[Decision], second: Counter[Decision]) -> None:
    """A chi-square test of homogeneity; rare outcomes are put together."""
    keys = sorted({*first, *second}, key=str)
    common = [k for k in keys if first[k] + second[k] >= 20]
    rare = [sum(c[k] for k in keys if k not in common) for c in (first, second)]
    table = np.array([[c[k] for k in common] + [r] for c, r in zip((first, second), rare, strict=True)])
    table = table[:, table.sum(axis=0) > 0]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    assert probability(table, expected, table.shape[1] - 1) > SIGNIFICANT


def probability(drawn: np.ndarray, expected: np.ndarray, freedom: int) -> float:
    """That of counts at least so far from what is expected, by a chi-square test. `scipy.stats` takes 2 s to import."""
    return float(special.chdtrc(freedom, ((drawn - expected) ** 2 / expected).sum()))


def support(dist: Tile, extent: int) -> list[Decision]:
    every = itertools.product(range(1, extent + 1), repeat=dist.width)
    return [(HOLE, *factors) for factors in every if dist.contains((HOLE, *factors))]


@pytest.mark.parametrize("extent", [127, 360, 512, 1009])
def test_the_share_of_exact_divisors(extent: int) -> None:
    """A uniform draw among divisors with the stated probability, and else log-uniform, which may divide as well."""
    dist = Tile(const(extent), 2, innermost=extent)
    drawn = rows_of(dist, extent, 20_000)[:, 0]
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    # P(log-uniform draw is f) = log((f + 1) / f) / log(extent + 0.999), cut at the extent.
    by_chance = sum(np.log((d + 1) / d) for d in divisors) / np.log(extent + 0.999)
    expected = EXACT_SHARE + (1 - EXACT_SHARE) * by_chance
    share = float((extent % drawn == 0).mean())
    assert share == pytest.approx(expected, abs=0.01)


def test_divisors_are_equally_likely() -> None:
    dist = Tile(const(360), 2, innermost=360)
    drawn = Counter(rows_of(dist, 360, 20_000)[:, 0].tolist())
    divisors = [d for d in range(1, 361) if 360 % d == 0]
    chance = np.log([(d + 1) / d for d in divisors]) / np.log(360.999)
    expected = 1 / len(divisors) * EXACT_SHARE + (1 - EXACT_SHARE) * chance
    counts = np.array([drawn[d] for d in divisors])
    assert probability(counts, expected / expected.sum() * counts.sum(), len(counts) - 1) > SIGNIFICANT


@pytest.mark.parametrize("extent", [127, 1009])
def test_primes_have_tiles(extent: int) -> None:
    drawn = rows_of(Tile(const(extent), 2), extent, 2000)[:, 0]
    between = (drawn > 1) & (drawn < extent)
    assert between.mean() > 0.1
    assert len(set(drawn[between].tolist())) > 20


@pytest.mark.parametrize(
    ("extent", "parts", "innermost", "perfect"),
    [(1, 3, 64, False), (7, 3, 64, False), (12, 3, 4, False), (12, 4, 64, True), (13, 2, 64, False)],
)
def test_everything_in_the_support_is_drawn(extent: int, parts: int, innermost: int, perfect: bool) -> None:
    dist = Tile(const(extent), parts, innermost, perfect)
    drawn = {dist.decode(row) for row in rows_of(dist, extent, 30_000)}
    assert drawn == set(support(dist, extent))


@pytest.mark.parametrize(("extent", "innermost", "step"), [(100, 64, 16), (12, 12, 1), (7, 64, 16), (40, 20, 32)])
def test_a_step_leaves_the_support_as_it_is(extent: int, innermost: int, step: int) -> None:
    dist = Tile(const(extent), 2, innermost, step=step)
    rows = rows_of(dist, extent, 30_000)
    assert {dist.decode(row) for row in rows} == set(support(dist, extent))


@pytest.mark.parametrize(("extent", "step", "whole"), [(100, 16, 4), (127, 1, 64), (7, 16, 1), (40, 8, 5)])
def test_half_of_the_innermost_sizes_are_multiples_of_the_step(extent: int, step: int, whole: int) -> None:
    """The other half divide or are arbitrary, so that a little more than a half is expected; mutants are redrawn so."""
    dist = Tile(const(extent), 3, step=step)
    multiples = [min(step * (n + 1), extent) for n in range(whole)]
    rows = rows_of(dist, extent, 8000)
    assert np.isin(rows[:, -1], multiples).mean() >= 0.48
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = dist.mutate_rows(rng, rows, np.full(len(rows), extent, dtype=np.int64))
    without = Tile(const(extent), 3)
    others = rows_of(without, extent, 8000)
    for _ in range(20):
        others = without.mutate_rows(rng, others, np.full(len(rows), extent, dtype=np.int64))
    assert step == 1 or np.isin(rows[:, -1], multiples).mean() > np.isin(others[:, -1], multiples).mean()


@pytest.mark.parametrize(
    ("extent", "parts", "perfect"), [(48, 2, False), (48, 3, False), (127, 2, False), (48, 4, True)]
)
def test_one_by_one_and_all_at_once_are_one_distribution(extent: int, parts: int, perfect: bool) -> None:
    dist = Tile(const(extent), parts, perfect=perfect)
    many = Counter(dist.decode(row) for row in rows_of(dist, extent, 4000))
    require_same(singly(dist, 4000), many)


def test_an_extent_a_row_is_the_distribution_of_that_extent() -> None:
    dist = Tile(const(1), 3)  # the expression is not looked at: extents are given
    extents = np.tile(np.array([7, 48, 127]), 4000)
    rows = dist.sample_rows(np.random.default_rng(3), extents)
    for extent in (7, 48, 127):
        of_it = Counter(dist.decode(row) for row in rows[extents == extent])
        require_same(of_it, Counter(dist.decode(row) for row in rows_of(dist, extent, 4000, seed=4)))


def test_mutation_moves_and_can_get_everywhere() -> None:
    dist = Tile(const(24), 3)
    rng = np.random.default_rng(0)
    extents = np.full(400, 24, dtype=np.int64)
    start = np.ones((400, 2), dtype=np.int64)
    seen: set[Decision] = set()
    rows = start
    for _ in range(60):
        rows = dist.mutate_rows(rng, rows, extents)
        seen |= {dist.decode(row) for row in rows}
    assert seen == set(support(dist, 24))
    moved = dist.mutate_rows(rng, rows, extents)
    assert (moved != rows).any(axis=1).mean() > 0.5
    assert (moved != rows).any(axis=1).mean() < 1.0


def test_mutation_keeps_to_the_neighbourhood() -> None:
    """At least half of the mutants change the product of two factors only by a prime, or one factor."""
    dist = Tile(const(512), 4)
    rng = np.random.default_rng(0)
    extents = np.full(4000, 512, dtype=np.int64)
    rows = dist.sample_rows(rng, extents)
    moved = dist.mutate_rows(rng, rows, extents)
    assert ((moved != rows).sum(axis=1) <= 2).mean() > 0.9


@pytest.mark.parametrize("probabilities", [(0.25, 0.25, 0.25, 0.25), (0.7, 0.1, 0.1, 0.1), (0.0, 0.5, 0.5, 0.0)])
def test_categorical_probabilities(probabilities: tuple[float, ...]) -> None:
    dist = Categorical((0, 16, 64, 256), probabilities)
    for drawn in (singly(dist, 8000), Counter(rows_of(dist, 1, 8000)[:, 0].tolist())):
        for value, p in zip(dist.values, probabilities, strict=True):
            assert drawn[value] / 8000 == pytest.approx(p, abs=0.02)
            assert p > 0 or not drawn[value]


def test_mutants_of_a_categorical_follow_its_probabilities() -> None:
    dist = Categorical((4, 8), (0.9, 0.1))
    rng = np.random.default_rng(0)
    none = np.zeros(8000, dtype=np.int64)
    moved = dist.mutate_rows(rng, np.full((8000, 1), 8), none)
    assert (moved == 4).mean() == pytest.approx(0.9, abs=0.02)


def test_choices_are_equally_likely() -> None:
    drawn = singly(ChoiceDistribution(("a", "b", "c", "d")), 8000)
    assert probability(np.array(list(drawn.values())), np.full(4, 2000), 3) > SIGNIFICANT
