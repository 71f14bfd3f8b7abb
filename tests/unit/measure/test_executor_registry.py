"""Runners by name or URL: opened once, when they are wanted, and closed by who opened them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from metasched.errors import MetaschedError
from metasched.measure.executor_registry import EXECUTORS, GROUP, OpenedOnce
from tests.support.toy_search import ToyRunner, ToySpace

ELSEWHERE = """
class Elsewhere:
    def __init__(self, wanted): self.wanted, self.closed = wanted, False
    def close(self): self.closed = True
    lower = submit = prepare = close


def nothing(wanted): return None
"""


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that adds the executor `elsewhere`."""
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{GROUP}]\nelsewhere = executor_of_others:Elsewhere\nnowhere = executor_of_others:nothing\n"
    )
    (tmp_path / "executor_of_others.py").write_text(ELSEWHERE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "executor_of_others", raising=False)


def test_ours() -> None:
    assert "local" in EXECUTORS.names()


@pytest.mark.usefixtures("_elsewhere")
def test_one_of_another_package_is_named_by_its_scheme() -> None:
    held = OpenedOnce("elsewhere://host:8786", 3)
    assert not held.is_open
    runner = held.open_runner()
    assert (runner.wanted.address, runner.wanted.threads) == ("host:8786", 3)  # type: ignore[attr-defined]
    assert held.open_runner() is runner
    held.close()
    assert runner.closed  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_elsewhere")
def test_one_that_makes_no_runner() -> None:
    with pytest.raises(
        MetaschedError, match=re.escape("the executor `nowhere` of others 1.0 made None, which is no runner")
    ):
        OpenedOnce("nowhere", 1).open_runner()


def test_a_runner_that_is_given_stays_open() -> None:
    runner = ToyRunner(ToySpace())
    held = OpenedOnce(runner, 1)
    assert held.open_runner() is runner
    held.close()
    assert not runner.closed


def test_mistakes() -> None:
    with pytest.raises(
        MetaschedError, match=re.escape("there is no executor `spark`\n  hint: installed are `dask` and `local`")
    ):
        OpenedOnce("spark://host:8786", 1)
    with pytest.raises(MetaschedError, match="measuring on this machine takes no address"):
        OpenedOnce("local://host", 1)


@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ("dask", "`` is no address of a dask scheduler\n  hint: write HOST:PORT, such as 127.0.0.1:8786"),
        ("dask://host", "`host` is no address of a dask scheduler"),
        ("dask://host:8786", "the scheduler `host:8786` is not this machine, and no files for TLS are given"),
    ],
)
def test_an_address_is_looked_at_before_anything_is_measured(runner: str, message: str) -> None:
    with pytest.raises(MetaschedError, match=re.escape(message)):
        OpenedOnce(runner, 1)
