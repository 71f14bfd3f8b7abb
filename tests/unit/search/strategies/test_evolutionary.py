"""Strategies propose new, legal candidates, depend on nothing but seed and observations, and learn."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.model import CostModel
from metasched.search.space_protocol import Candidate, Observation
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


@pytest.mark.parametrize("kind", ["evolutionary", "random"])
def test_proposals_are_legal_new_and_as_many_as_asked_for(kind: str) -> None:
    arms = [Toy(most=4000), Toy(width=3, flavour=1)]
    bench = Bench(arms)
    strategy = evolution(arms) if kind == "evolutionary" else RandomSearch(Toys(arms), 0)
    run(strategy, bench, 5)
    assert len(bench.seen) == 40
    assert len(set(bench.seen)) == 40
    for c in bench.seen:
        row = np.array([c.row])
        assert arms[c.arm].mask(row).all()
        assert (arms[c.arm].repair(row) == row).all()


@pytest.mark.parametrize("kind", ["evolutionary", "random"])
def test_seed_and_times_decide_everything(kind: str) -> None:
    seen = []
    for seed in (3, 3, 4):
        arms = [Toy(), Toy(flavour=1)]
        bench = Bench(arms)
        run(evolution(arms, seed) if kind == "evolutionary" else RandomSearch(Toys(arms), seed), bench, 3)
        seen.append(bench.seen)
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]


def test_proposing_twice_gives_the_same() -> None:
    strategy = evolution([Toy()])
    assert strategy.propose(8) == strategy.propose(8)


def test_a_search_that_is_taken_up_again_goes_on_the_same() -> None:
    arms = [Toy(), Toy(flavour=1)]
    whole, bench = evolution(arms), Bench(arms)
    run(whole, bench, 3)
    again = evolution(arms)
    again.observe([Observation(c, t) for c, t in zip(bench.seen, bench.times, strict=True)])
    assert again.propose(8) == whole.propose(8)


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


def test_an_arm_without_a_legal_row_is_left_alone() -> None:
    arms = [Toy(most=0), Toy()]
    bench = Bench(arms)
    run(evolution(arms), bench, 3)
    assert {c.arm for c in bench.seen} == {1}


def test_a_space_without_a_legal_row_proposes_nothing() -> None:
    assert evolution([Toy(most=0)]).propose(8) == []
    assert RandomSearch(Toys([Toy(most=0)]), 0).propose(8) == []


def test_a_space_without_free_numbers_proposes_its_one_candidate() -> None:
    strategy = evolution([_Fixed()])
    first = strategy.propose(8)
    assert first == [Candidate(0, ())]
    strategy.observe([Observation(first[0], 1.0)])
    assert strategy.propose(8) == []


class _Fixed(Toy):
    def __init__(self) -> None:
        super().__init__(width=0)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return ()

    def mutate(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        return rows


def test_a_small_space_is_exhausted_and_not_repeated() -> None:
    arms = [Toy(width=2, most=6)]
    legal = sum(a * b <= 6 for a in range(1, 65) for b in range(1, 65))
    bench = Bench(arms)
    strategy = evolution(arms, config=EvolutionConfig(population=2048, generations=2))
    for _ in range(6):
        strategy.observe(bench.measure(strategy.propose(8)))
    assert len(bench.seen) == len(set(bench.seen)) == legal


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


def test_failures_are_remembered_and_do_not_stop_the_search() -> None:
    strategy = evolution([Toy()])
    first = strategy.propose(8)
    strategy.observe([Observation(c, None) for c in first])
    second = strategy.propose(8)
    assert len(second) == 8
    assert not set(first) & set(second)


def test_no_arm_is_an_error() -> None:
    with pytest.raises(ValueError, match="no sketch"):
        evolution([])
    with pytest.raises(ValueError, match="no sketch"):
        RandomSearch(Toys(), 0)


@pytest.mark.parametrize("wrong", [{"population": 0}, {"mutate": 1.5}, {"explore": -0.1}, {"generations": -1}])
def test_configurations_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="population"):
        EvolutionConfig(**wrong)  # type: ignore[arg-type]
