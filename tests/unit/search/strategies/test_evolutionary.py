"""Strategies propose new, legal candidates, depend on nothing but seed and observations, and learn."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.model import CostModel
from metasched.search.short_list import SHORT_LIST
from metasched.search.space_protocol import Observation
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategies.random import RandomSearch
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


def test_what_is_left_once_times_are_known_is_a_small_part_of_the_work() -> None:
    """The rest is done when it looks ahead."""
    arms = [Toy(), Toy(flavour=1)]
    bench, strategy = Bench(arms), evolution(arms, config=EvolutionConfig(population=512, ahead=3))
    run(strategy, bench, 1)
    scored = []
    for _ in range(3):
        proposed = strategy.propose(8)
        before = strategy.scored
        strategy.look_ahead()
        ahead = strategy.scored
        strategy.observe(bench.measure(proposed))
        strategy.propose(8)
        scored.append((ahead - before, strategy.scored - ahead))
    assert sum(later for _, later in scored) < sum(ahead for ahead, _ in scored) / 2


def test_looking_ahead_changes_nothing_that_is_proposed() -> None:
    """A search that is resumed does later what it did while a batch was built."""
    arms = [Toy(flavour=n) for n in range(6)]
    config = EvolutionConfig(population=128, ahead=3)
    bench, one, other = Bench(arms), evolution(arms, config=config), evolution(arms, config=config)
    for _ in range(4):
        proposed = one.propose(8)
        assert other.propose(8) == proposed
        one.look_ahead()
        results = bench.measure(proposed)
        one.observe(results)
        other.observe(results)


def test_what_was_bred_ahead_is_chosen_by_the_times_that_are_known_since() -> None:
    """What is proposed depends on the results of the batch before, not of those before that alone."""
    found = []
    for slow in (0, 1):
        arms = [Toy(), Toy(flavour=1)]
        strategy = evolution(arms, config=EvolutionConfig(population=128, ahead=3))
        bench = Bench(arms)
        run(strategy, bench, 1)
        results = bench.measure(strategy.propose(16))
        strategy.look_ahead()
        strategy.observe([Observation(r.candidate, 9.0 if r.candidate.arm == slow else 1e-3) for r in results])
        found.append([candidate.arm for candidate in strategy.propose(16)])
    assert found[0].count(0) < found[1].count(0)


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
    arms: list[Toy] = [_Idle(width=2, most=16)]
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
