"""Searches of two checkouts: each runs its own packages, and times are compared by pairs of the same seed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from benchmarks import against
from benchmarks.against import HERE, THERE, _pairs
from benchmarks.contest.checkouts import Checkout
from benchmarks.contest.figures import paired_ratio
from benchmarks.contest.live import Search
from benchmarks.contest.playing import Played
from benchmarks.registry import OptionError, Options, Result
from metasched.measure.runner import LocalRunner

# A package of the same name, as another commit may have it: its search made three trials, the first of them last.
_PACKAGE = """
from types import SimpleNamespace as Some

def parse_program(text, **params):
    return params["L"] if "conv" in text else text
Target = Some(detect=lambda threads: threads)

def tune(program, trials, db, seed, target, progress):
    if seed == 9:
        raise ValueError("no such seed")
    print("what others print")
    return Some(report=Some(best=Some(task=f"{str(program)[:9]}: {trials} trials, seed {seed}, {target} threads")))
"""
_DATABASE = """
import contextlib, time
from types import SimpleNamespace as Some

@contextlib.contextmanager
def open_database(url):
    made = [(2, "c", None, 3), (0, "a", 2e-3, 9), (1, None, 1e-3, 5), (-1, "guess", 1e-3, 1)]
    yield Some(records=lambda task: [Some(trial=n, trace=t or task, seconds=s, timestamp=time.time() + at)
                                     for n, t, s, at in made])
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    for name, text in (("metasched/__init__.py", _PACKAGE), ("metasched/database/__init__.py", _DATABASE)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return Checkout.at(tmp_path)


def _searched(checkout: Checkout, seed: int, name: str = "NRM") -> Search:
    runner: LocalRunner = None  # type: ignore[assignment] # nothing is measured here
    return checkout.search(name, ms.Target.detect(threads=1), runner, seed, 16)


def test_a_checkout_searches_by_its_own_package(checkout: Checkout) -> None:
    found = _searched(checkout, 3)
    assert [(trial.trace, trial.seconds) for trial in found.trials] == [
        ("a", 2e-3),
        ("program n: 16 trials, seed 3, 1 threads", 1e-3),
        ("c", None),
    ]
    assert [trial.at for trial in found.trials] == pytest.approx([9.0] * 3, abs=1.0), "a trial is not before the last"
    assert found.seconds < 1
    assert str(_searched(checkout, 3, "C1D").trials[1].trace).startswith("256: "), "of the sizes that are asked for"
    with pytest.raises(RuntimeError, match="ended with status 1; its error is above"):
        _searched(checkout, 9)


def test_what_is_kept_is_of_its_sources(checkout: Checkout) -> None:
    before = Checkout(checkout.folder, checkout.python).key
    assert before == checkout.key
    (checkout.folder / "metasched/__init__.py").write_text("")
    assert Checkout(checkout.folder, checkout.python).key != before


def test_a_checkout_has_a_package_and_an_environment(tmp_path: Path) -> None:
    (nothing,) = against.run(Options())
    assert nothing["notes"] == ["nothing to compare with: no folder with another commit was named (--checkout)"]
    with pytest.raises(OptionError, match="is no checkout of metasched"):
        Checkout.at(tmp_path)
    (tmp_path / "metasched").mkdir()
    (tmp_path / "metasched/__init__.py").touch()
    with pytest.raises(OptionError, match="has no environment"):
        Checkout.at(tmp_path)


def test_tables_are_played_by_both_with_the_same_seeds(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bool, str, tuple[int, ...], int]] = []

    def play(
        self: Checkout, task: str, tables: Path, seeds: Sequence[int], trials: int, kept: Path | None
    ) -> list[Played]:
        there = self.folder == checkout.folder
        asked.append((there, task, tuple(seeds), trials))
        return [Played((2.0 if there else 1.5,) * trials, trials, 1.0) for _ in seeds]

    monkeypatch.setattr(Checkout, "play", play)
    *of_each, first, last = against.run(
        Options(checkout=checkout.folder, only=("NRM", "GMM"), seeds=(4, 5), quick=True)
    )
    assert asked == [(there, task, (4, 5), 32) for task in ("NRM", "GMM") for there in (False, True)]
    assert [line["case"] for line in of_each] == [HERE, THERE]
    assert (first["case"], last["case"]) == tuple(f"after {n} codes, {HERE} over {THERE}" for n in (16, 32))
    assert last["pairs"] == 4
    assert last["over_other"] == pytest.approx(0.75)


def test_pairs_without_a_time_are_left_out(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(task: str, mine: float, theirs: float) -> Result:
        return {"task": task, "over_best": {HERE: {"at_16": mine}, THERE: {"at_16": theirs}}}

    lines = [line("GMM", 1.0, 2.0), line("GMM", 2.0, 1.0), line("NRM", 1.0, inf), line("SFM", 1.0, 4.0)]
    mine, theirs = _pairs(lines, "at_16")
    assert {task: of_task.tolist() for task, of_task in theirs.items()} == {"GMM": [[2.0], [1.0]], "SFM": [[4.0]]}
    monkeypatch.setattr(against, "live", lambda checkouts, baseline, options: iter([*lines, {"case": "live, here"}]))
    last = list(against.run(Options(checkout=checkout.folder, live=True)))[-1]
    assert (last["case"], last["pairs"], last["left_out"]) == (f"at_16, {HERE} over {THERE}", 3, 1)
    assert last["over_other"] == pytest.approx(0.5), "the mean over operators of .25 and 1"
    assert last["over_other"] == paired_ratio(mine, theirs, 1)["over_other"]


def test_an_interval_over_seeds_is_of_pairs() -> None:
    mine, theirs = {"a": np.array([[1.0], [4.0]])}, {"a": np.array([[2.0], [8.0]])}
    found = paired_ratio(mine, theirs, 1)
    assert found["over_other"] == pytest.approx(0.5)
    assert found["interval_over_seeds"] == pytest.approx((0.5, 0.5)), "seeds differ, pairs do not"
