"""What every strategy keeps to, whoever wrote it; and how they are found."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import CostModel, Model
from metasched.database.database_registry import open_database
from metasched.errors import MetaschedError
from metasched.lang.instructions import Decision
from metasched.search.space_protocol import Candidate, LooksAhead, Observation, ProposesInParts, Strategy
from metasched.search.strategy_registry import GROUP, STRATEGIES, MakeStrategy, StrategyInputs, strategy_of
from tests.support.pages import ROOT, fenced
from tests.support.toy_search import ToyRunner, ToySpace, tuned
from tests.support.toys import Bench, Fixed, Toy, Toys

ARMS = Toys([Toy(most=4000), Toy(width=3, flavour=1)])


# Stands for the strategy that this page shows how to write.
PAGE = "docs/how_to/write_a_strategy.md"


@cache
def maker(name: str) -> MakeStrategy:
    """What makes one of ours, or the one of the page."""
    if name != PAGE:
        return STRATEGIES.get(name)
    example = ast.parse("\n".join(fenced(ROOT / PAGE, "python")))
    example.body = [one for one in example.body if isinstance(one, ast.Import | ast.ImportFrom | ast.ClassDef)]
    (written,) = [one.name for one in example.body if isinstance(one, ast.ClassDef)]
    names: dict[str, Any] = {}
    exec(compile(example, PAGE, "exec"), names)
    return STRATEGIES.require_fit(PAGE, names[written])


def made(name: str, seed: int = 0, arms: Toys = ARMS, model: Model | None = None) -> Strategy:
    return maker(name)(StrategyInputs(arms, CostModel(seed) if model is None else model, seed))


def test_ours() -> None:
    ours = "annealing bandit beam droplet evolutionary evolutionary_no_crossover evolutionary_with_steps "
    ours += "mcts metropolis random"
    assert set(STRATEGIES.names()) >= set(ours.split())


every = pytest.mark.parametrize("name", [*STRATEGIES.names(), PAGE])
# What ours do beside what they have to.
ours = pytest.mark.parametrize("name", STRATEGIES.names())


@every
def test_proposals_are_legal_new_and_as_many_as_asked_for(name: str) -> None:
    bench, strategy = Bench(list(ARMS)), made(name)
    for count in (5, 8, 16):
        strategy.observe(bench.measure(strategy.propose(count)))
    assert len(set(bench.seen)) == len(bench.seen) == 29
    for candidate in bench.seen:
        row = np.array([candidate.row])
        assert ARMS[candidate.arm].mask(row).all()
        assert (ARMS[candidate.arm].repair(row) == row).all()


@every
def test_a_resumed_search_proposes_what_an_uninterrupted_one_would_have(name: str) -> None:
    """The new one was never asked before: whatever a strategy keeps, it works out from what it observed."""
    arms = Toys([Toy(width=3 + n % 2, flavour=n % 7) for n in range(40)])
    bench, whole, resumed = Bench(arms), made(name, arms=arms), made(name, arms=arms)
    batches = []
    for _ in range(6):  # more than an epoch of what is kept
        batches.append(bench.measure(whole.propose(4)))
        whole.observe(batches[-1])
    for batch in batches:
        resumed.observe(batch)
    proposed = whole.propose(4)
    assert resumed.propose(4) == proposed
    assert whole.propose(4) == proposed


@pytest.mark.parametrize("name", [name for name in STRATEGIES.names() if isinstance(made(name), LooksAhead)])
def test_looking_ahead_changes_nothing_that_is_proposed(name: str) -> None:
    """Whether there is time for it while a batch is built, is chance."""
    arms = Toys([Toy(width=3 + n % 2, flavour=n % 7) for n in range(40)])
    bench, one, other = Bench(arms), made(name, arms=arms), made(name, arms=arms)
    assert isinstance(one, LooksAhead)
    for _ in range(4):
        proposed = one.propose(8)
        assert other.propose(8) == proposed
        one.look_ahead()
        results = bench.measure(proposed)
        one.observe(results)
        other.observe(results)


@pytest.mark.parametrize("name", [name for name in STRATEGIES.names() if isinstance(made(name), ProposesInParts)])
def test_the_parts_of_a_batch_are_the_batch(name: str) -> None:
    arms = Toys([Toy(width=3 + n % 2, flavour=n % 7) for n in range(40)])
    bench, one, other = Bench(arms), made(name, arms=arms), made(name, arms=arms)
    assert isinstance(one, ProposesInParts)
    for _ in range(3):
        parts = list(one.propose_in_parts(8))
        assert [candidate for part in parts for candidate in part] == other.propose(8)
        assert all(parts)
        results = bench.measure([candidate for part in parts for candidate in part])
        one.observe(results)
        other.observe(results)


@every
def test_another_seed_begins_otherwise(name: str) -> None:
    assert made(name).propose(4) != made(name, seed=1).propose(4)


@every
def test_a_session_that_was_cut_short_goes_on_as_if_it_had_not_been(name: str, tmp_path: Path) -> None:
    """In the middle of a batch, with failures, and with traces that have the code of others."""
    runners = [ToyRunner(ToySpace(), fail=True) for _ in range(3)]
    for runner in runners:
        runner.codes = _coarse
    with open_database(f"sqlite:///{tmp_path}/one.db") as database:
        tuned(database, 18, runners[0], make=maker(name))
    with open_database(f"sqlite:///{tmp_path}/two.db") as database:
        tuned(database, 10, runners[1], make=maker(name))
        tuned(database, 18, runners[2], make=maker(name))
    assert len(runners[1].traces) == 10
    assert runners[0].traces == runners[1].traces + runners[2].traces


def _coarse(trace: str) -> str:
    """One code for what differs little in the last number."""
    *first, last = json.loads(trace)
    return json.dumps([*first, last // 8 * 8 + 1])


@every
def test_failures_and_bounds_are_observed(name: str) -> None:
    strategy = made(name)
    one, two, *others = strategy.propose(6)
    strategy.observe([Observation(one, None), Observation(two, 1.0, bound=True)])
    assert not {one, two} & set(strategy.propose(6))
    strategy.observe([Observation(other, None) for other in others])
    assert len(set(strategy.propose(6)) - {one, two, *others}) == 6


@ours
def test_a_small_space_is_measured_whole_and_then_exhausted(name: str) -> None:
    toy = Toy(width=2, most=6)
    arms = Toys([toy, Toy(most=0)])
    legal = sum(a * b <= 6 for a in range(1, 7) for b in range(1, 7))
    bench, strategy = Bench(arms), made(name, arms=arms)
    while found := strategy.propose(6):
        assert len(found) == min(6, legal - len(bench.seen))
        strategy.observe(bench.measure(found))
    assert len(set(bench.seen)) == len(bench.seen) == legal


@every
def test_a_space_without_a_legal_row_is_exhausted_at_once(name: str) -> None:
    assert made(name, arms=Toys([Toy(most=0)])).propose(8) == []


@every
def test_one_arm_without_a_free_number_is_one_candidate(name: str) -> None:
    strategy = made(name, arms=Toys([Fixed()]))
    assert strategy.propose(8) == [Candidate(0, ())]
    strategy.observe([Observation(Candidate(0, ()), 1.0)])
    assert strategy.propose(8) == []


@ours
def test_thousands_of_structures_without_a_number_fill_a_batch(name: str) -> None:
    arms = Toys([Fixed(flavour) for flavour in range(2000)])
    bench, strategy = Bench(arms), made(name, arms=arms)
    for _ in range(2):
        strategy.observe(bench.measure(strategy.propose(32)))
    assert len(set(bench.seen)) == len(bench.seen) == 64


class _OneMade(Toys):
    """A space of which no structure but the first can be made."""

    def draw(self, rng: np.random.Generator) -> None: ...

    def mutate(self, rng: np.random.Generator, arm: int) -> None: ...

    def cross(self, rng: np.random.Generator, mother: int, father: int) -> None: ...

    def of(self, rng: np.random.Generator, decisions: Mapping[str, Decision]) -> None: ...


@ours
def test_structures_that_cannot_be_made_are_done_without(name: str) -> None:
    found = made(name, arms=_OneMade([Toy(), Toy(flavour=1)])).propose(6)
    assert [candidate.arm for candidate in found] == [0] * 6


@ours
def test_a_space_without_an_arm_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no sketch"):
        STRATEGIES.get(name)(StrategyInputs(Toys(), CostModel()))


class Pupil:
    """A model that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[TaskTimes] = []

    def fit(self, own: TaskTimes) -> None:
        self.told.append(own)

    def predict(self, features: Features) -> Array:
        return np.zeros(len(features))


def test_the_strategy_of_the_page_has_its_model_learn_what_was_measured() -> None:
    bench, pupil = Bench(list(ARMS)), Pupil()
    strategy = made(PAGE, model=pupil)
    for _ in range(2):
        proposed = strategy.propose(6)
        failed, *results = bench.measure(proposed)
        strategy.observe([Observation(failed.candidate, None), *results])
    strategy.propose(6)
    last = pupil.told[-1]
    assert sorted(last.seconds.tolist()) == sorted([*bench.times[1:6], *bench.times[7:], np.inf, np.inf])


def test_a_name_that_is_not_there() -> None:
    message = re.escape("there is no strategy `evolutionnary`\n  hint: did you mean `evolutionary`")
    with pytest.raises(MetaschedError, match=message) as told:
        strategy_of("evolutionnary")
    assert all(f"`{name}`" in str(told.value) for name in STRATEGIES.names())
    make = maker("random")
    assert strategy_of(make) is make


def test_one_of_a_file(tmp_path: Path) -> None:
    """`FILE.py` is its `strategy`, `FILE.py:NAME` another; what is wrong with it is said with its path."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from metasched.search.strategies.random import RandomSearch\n"
        "def strategy(given): return RandomSearch(given.arms, given.seed)\n"
        "other = strategy\n"
        "WRONG = 3\n"
    )
    given = StrategyInputs(ARMS, CostModel())
    expected = made("random").propose(3)
    assert [strategy_of(f"{path}{name}")(given).propose(3) for name in ("", ":other")] == [expected, expected]
    for name, message in {
        f"{path}:mine": f"{path} has no `mine`\n  hint: of what it has, `RandomSearch`, `other` "
        "and `strategy` can be called",
        f"{path}:WRONG": f"`WRONG` of {path} is no strategy: it is 3, and not a function of StrategyInputs",
        str(tmp_path / "none.py"): f"there is no file {tmp_path / 'none.py'}",
    }.items():
        with pytest.raises(MetaschedError, match=re.escape(message)):
            strategy_of(name)


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
