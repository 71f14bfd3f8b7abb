"""What every strategy keeps to, whoever wrote it; and how they are found."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from metasched.cost.model import CostModel
from metasched.errors import MetaschedError
from metasched.search.space_protocol import Observation, Strategy
from metasched.search.strategy import GROUP, STRATEGIES, StrategyInputs, strategy_of
from tests.support.toys import Bench, Toy, Toys

ARMS = Toys([Toy(most=4000), Toy(width=3, flavour=1)])


def made(name: str, seed: int = 0) -> Strategy:
    return STRATEGIES.get(name)(StrategyInputs(ARMS, CostModel(seed), seed))


def test_ours() -> None:
    assert set(STRATEGIES.names()) >= {"evolutionary", "random"}


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_proposals_are_legal_new_and_as_many_as_asked_for(name: str) -> None:
    bench, strategy = Bench(list(ARMS)), made(name)
    for _ in range(2):
        strategy.observe(bench.measure(strategy.propose(8)))
    assert len(set(bench.seen)) == len(bench.seen) == 16
    for candidate in bench.seen:
        row = np.array([candidate.row])
        assert ARMS[candidate.arm].mask(row).all()
        assert (ARMS[candidate.arm].repair(row) == row).all()


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_proposals_depend_on_seed_and_observations_alone(name: str) -> None:
    bench = Bench(list(ARMS))
    first, second, other = made(name), made(name), made(name, seed=1)
    seen = bench.measure(first.propose(8))
    first.observe(seen)
    second.observe(seen)  # which did not propose them
    other.observe(seen)
    assert first.propose(8) == second.propose(8) != other.propose(8)


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_failures_and_bounds_are_observed(name: str) -> None:
    strategy = made(name)
    one, two, *_ = strategy.propose(8)
    strategy.observe([Observation(one, None), Observation(two, 1.0, bound=True)])
    assert not {one, two} & set(strategy.propose(8))


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_a_space_without_an_arm_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no sketch"):
        STRATEGIES.get(name)(StrategyInputs(Toys(), CostModel()))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(MetaschedError, match=re.escape("there is no strategy `evolutionnary`; did you mean evolution")):
        strategy_of("evolutionnary")
    assert strategy_of(made) is made  # type: ignore[arg-type]


def test_one_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded when it is named, and then is as ours are."""
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    lines = [f"[{GROUP}]", "first = strategy_of_others:make", "wrong = strategy_of_others:WRONG"]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "strategy_of_others.py").write_text(
        "from metasched.search.strategies.random import RandomSearch\n"
        "def make(given): return RandomSearch(given.arms, given.seed)\n"
        "WRONG = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "first" in STRATEGIES.names()
    assert "strategy_of_others" not in sys.modules
    assert made("first").propose(3) == made("random").propose(3)
    with pytest.raises(MetaschedError, match="is no strategy: it is 3, and not a function of StrategyInputs"):
        STRATEGIES.get("wrong")
    monkeypatch.delitem(sys.modules, "strategy_of_others")
