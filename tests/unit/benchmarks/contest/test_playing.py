"""Searches that are played on a table, and what is kept of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.contest import tournament
from benchmarks.contest.described import Table
from benchmarks.contest.models import NONE, ROOFLINE, maker
from benchmarks.contest.playing import course_of, play
from benchmarks.contest.tournament import Contestant, Tournament, courses_of
from metasched.cost.model_registry import model_of
from metasched.search.strategy_registry import strategy_of


@pytest.mark.parametrize("name", ["evolutionary", "random"])
def test_a_search_is_the_same_for_its_seed_and_measures_nothing_twice(table: Table, name: str) -> None:
    first, again, other = (play(table, strategy_of(name), model_of("roofline"), seed, 24) for seed in (0, 0, 1))
    assert first.course == again.course
    assert first.codes == other.codes == 24
    assert list(first.course) == sorted(first.course, reverse=True)
    assert first.course[-1] >= 1.0


def test_a_strategy_that_finds_no_more_ends(table: Table) -> None:
    one = table.structures[0]
    small = replace(one, rows=one.rows[:4], seconds=one.seconds[:4], features=one.features[:4], drawn=one.drawn[:4])
    played = play(replace(table, structures=(small,)), strategy_of("random"), model_of("roofline"), 0, 16, 1e-3)
    assert played.codes == 4
    assert played.course[3] == played.course[-1] == pytest.approx(min(small.seconds) / 1e-3)


def test_a_model_finds_the_best_sooner_than_none(table: Table) -> None:
    """The roofline ranks this table almost right; without a model the bred rows are found by chance."""
    guided, blind = (
        play(table, strategy_of("evolutionary"), maker(name, "GMM", None), 0, 16).course for name in (ROOFLINE, NONE)
    )
    assert guided[7] == 1.0
    assert blind[7] > 1.0


def test_the_course_is_the_best_so_far_over_the_best_known() -> None:
    assert course_of([4.0, 6.0, 2.0], 2.0, 5) == (2.0, 2.0, 1.0, 1.0, 1.0)
    assert course_of([], 2.0, 1) == (float("inf"),)


def test_what_was_played_is_not_played_again(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "GMM.jsonl").write_text("the table\n")
    monkeypatch.setattr(tournament, "_table", lambda *where: table)
    contestants = (Contestant("by chance", strategy_of("random"), ROOFLINE),)

    def courses(seeds: tuple[int, ...]) -> list[list[float]]:
        wanted = Tournament(contestants, ("GMM",), seeds, 12, 1, tmp_path, tmp_path / "kept")
        found = courses_of(list(wanted.outcomes()))["by chance"]["GMM"]
        assert found.shape == (len(seeds), 12)
        return found.tolist()  # type: ignore[no-any-return]

    first = courses((0, 1))
    monkeypatch.setattr(tournament, "play", None)
    assert courses((1, 0)) == first[::-1]
    (tmp_path / "GMM.jsonl").write_text("another table\n")
    with pytest.raises(TypeError):
        courses((0,))
