"""Strategies propose new, legal candidates, depend on nothing but seed and observations, and learn."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.model import CostModel
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategies.random import RandomSearch
from metasched.search.strategy import SHORT_LIST
from tests.support.toys import Bench, Toy, Toys

SMALL = EvolutionConfig(population=128, generations=2)


def evolution(arms: list[Toy], seed: int = 0, config: EvolutionConfig = SMALL) -> Evolution:
    return Evolution(Toys(arms), CostModel(seed), seed, config)


def run(strategy: Evolution | RandomSearch, bench: Bench, rounds: int, batch: int = 8) -> None:
    for _ in range(rounds):
        strategy.observe(bench.measure(strategy.propose(batch)))


def test_every_arm_is_measured_early() -> None:
    arms = [Toy(flavour=n) for n in range(6)]
    bench = Bench(arms)
    run(evolution(arms), bench, 3)
    assert {c.arm for c in bench.seen} == set(range(6))


def test_the_first_candidates_are_what_the_model_likes_best_and_none_at_random() -> None:
    """So a search that ends with them has spent nothing on learning; what comes after them explores."""
    seen = []
    for explore in (0.0, 1.0):
        arms = [Toy(), Toy(flavour=1)]
        bench, config = Bench(arms), EvolutionConfig(population=128, generations=2, explore=explore)
        run(evolution(arms, config=config), bench, 3)
        seen.append(bench.seen)
    assert seen[0][:SHORT_LIST] == seen[1][:SHORT_LIST]
    assert seen[0][SHORT_LIST:] != seen[1][SHORT_LIST:]


def test_a_good_arm_gets_most_of_the_budget() -> None:
    arms = [Toy(flavour=3), Toy(), Toy(flavour=5)]
    bench = Bench(arms)
    run(evolution(arms), bench, 8)
    late = [c.arm for c in bench.seen[32:]]
    assert late.count(1) > len(late) / 2


def test_structures_are_found_that_were_not_there_at_first() -> None:
    """Of a thousand structures it looks at a few, and comes to good ones by breeding them."""
    arms = [Toy(flavour=abs(n - 700) // 8) for n in range(1000)]
    bench = Bench(arms)
    strategy = Evolution(_Line(arms), CostModel(0), 0, SMALL)
    run(strategy, bench, 24)
    assert min(arms[c.arm].flavour for c in bench.seen) <= 2
    assert len({c.arm for c in bench.seen}) < 120


class _Line(Toys):
    """Structures in a row: a mutation is a step."""

    def mutate(self, rng: np.random.Generator, arm: int) -> int | None:
        return int(np.clip(arm + rng.integers(-40, 41), 0, len(self) - 1))

    def cross(self, rng: np.random.Generator, mother: int, father: int) -> int | None:
        return (mother + father) // 2


class _Idle(Toy):
    """Its last column changes nothing that a feature tells."""

    def features(self, rows: np.ndarray) -> np.ndarray:
        out = super().features(rows)
        out[:, self.width - 1] = 0
        return out


def test_what_has_the_features_of_another_is_measured_last() -> None:
    """It is most likely the same code. But it is measured in the end: features do not tell everything."""
    arms = [_Idle(width=2, most=16)]
    bench = Bench(arms)
    strategy = evolution(arms, config=EvolutionConfig(population=2048, generations=4))
    while found := strategy.propose(4):
        strategy.observe(bench.measure(found))
    looks = [c.row[0] for c in bench.seen]
    assert len(set(looks[:12])) == 12
    assert len(bench.seen) == sum(a * b <= 16 for a in range(1, 17) for b in range(1, 17))


@pytest.mark.parametrize("wrong", [{"population": 0}, {"mutate": 1.5}, {"explore": -0.1}, {"generations": -1}])
def test_configurations_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="population"):
        EvolutionConfig(**wrong)  # type: ignore[arg-type]
