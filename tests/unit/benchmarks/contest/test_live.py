"""What is kept of searches on the machine itself, and when a run ends."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.contest import live as module
from benchmarks.contest.live import Search, Trial, Way, live
from benchmarks.contest.models import PRETRAINED, SCRATCH, RandomModel
from benchmarks.pretraining import wins
from benchmarks.registry import Options, Result
from metasched.cost.model_registry import DEFAULT_MODEL, model_of

WAYS = {"quick": Way("evolutionary"), "slow": Way("random")}
QUICK = Search((Trial("a", None, 1.0), Trial("b", 4e-3, 2.0), Trial("c", 2e-3, 3.0)), 3.5)
SLOW = Search((Trial("b", 4e-3, 2.0), Trial("d", 3e-3, 4.0), Trial("e", 1e-3, 6.0)), 6.5)
TIMES = {"b": 4e-3, "c": 2e-3, "d": 3e-3, "e": 1e-3}


@dataclass
class _Made:
    searches: int = 0


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> _Made:
    """How many searches were made: each is one of two, and no time is measured."""
    count = _Made()

    def search(task: object, runner: object, way: Way, model: object, seed: int, trials: int) -> Search:
        count.searches += 1
        return QUICK if way is WAYS["quick"] else SLOW

    monkeypatch.setattr(module, "search", search)
    monkeypatch.setattr(module, "_time_traces", lambda runner, program, target, traces: {t: TIMES[t] for t in traces})
    return count


def test_what_was_found_is_told_after_equal_trials_and_after_equal_seconds(made: _Made) -> None:
    line, quick, slow = live(WAYS, "quick", Options(only=("GMM",), seeds=(0,), trials=3))
    assert line["over_best"] == {
        "quick": {"at_3": 2.0, "at_equal_seconds": 2.0},
        "slow": {"at_3": 1.0, "at_equal_seconds": 4.0},
    }
    assert line["trials_until_1.05"] == {"quick": float("inf"), "slow": 3}
    assert (slow["trials_until_1.05"], quick["trials_until_1.05"]) == (3, float("inf"))
    assert (quick["case"], slow["case"]) == ("live, quick", "live, slow")
    assert slow["at_3_over_quick"][0] == pytest.approx(0.5)  # type: ignore[index]
    assert slow["at_equal_seconds_over_quick"][0] == pytest.approx(2.0)  # type: ignore[index]


def test_trials_until_what_was_found_is_near_the_best_known() -> None:
    assert QUICK.trials_until(1.0) == 3
    assert QUICK.trials_until(0.52) == 2, "its second was within .04 of the best known"
    assert SLOW.trials_until(1.06) == float("inf")


def test_a_search_that_was_kept_is_not_made_again_and_one_more_way_searches_alone(made: _Made, tmp_path: Path) -> None:
    options = Options(only=("GMM", "SFM"), seeds=(0,), trials=3, kept=tmp_path)
    whole = [json.dumps(line) for line in live(WAYS, "quick", options)]
    assert made.searches == 4
    assert [json.dumps(line) for line in live(WAYS, "quick", options)] == whole
    assert made.searches == 4
    [*live({**WAYS, "third": WAYS["slow"]}, "quick", options)]
    assert made.searches == 6
    [*live({"quick": replace(WAYS["quick"], guess=False)}, "quick", options)]
    assert made.searches == 8, "a search without a guess is another one"


def test_nothing_is_begun_when_the_time_is_over(made: _Made, tmp_path: Path) -> None:
    options = Options(only=("GMM",), seeds=(0,), trials=3, kept=tmp_path, seconds=1e-9)
    assert list(live(WAYS, "quick", options)) == []
    assert made.searches == 0
    [*live(WAYS, "quick", replace(options, seconds=None))]
    assert len(list(live(WAYS, "quick", options))) == 3, "what was complete is told"


def test_each_way_searches_by_its_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[tuple[str, object]] = []

    def search(task: object, runner: object, way: Way, model: object, seed: int, trials: int) -> Search:
        models.append(("quick" if way is ways["quick"] else "slow", model))
        return QUICK

    ways = {"quick": replace(WAYS["quick"], model_of=lambda task: RandomModel), "slow": WAYS["slow"]}
    monkeypatch.setattr(module, "search", search)
    monkeypatch.setattr(module, "_time_traces", lambda runner, program, target, traces: {t: TIMES[t] for t in traces})
    [*live(ways, "quick", Options(only=("GMM",), seeds=(0,), trials=3))]
    assert models == [("quick", RandomModel), ("slow", model_of(DEFAULT_MODEL))]


def test_a_model_is_told_by_the_operators_on_which_its_searches_find_what_is_faster() -> None:
    def line(task: str, seed: int, installed: float) -> Result:
        looks = {"at_16": installed, "at_equal_seconds": 9.0}
        return {"task": task, "seed": seed, "over_best": {PRETRAINED: looks, SCRATCH: {"at_8": 5.0, "at_16": 2.0}}}

    told = wins(PRETRAINED, [line("GMM", 0, 1.0), line("GMM", 1, 3.0), line("SFM", 0, 2.2), line("DEP", 0, 2.0)])
    assert (told["operators"], told["better"], told["worse_by_half_a_percent"]) == (3, 1, 1)
    assert told["ratios"] == pytest.approx({"GMM": 0.75**0.5, "SFM": 1.1, "DEP": 1.0})
