"""How a tuning run is watched: what is said, and where."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.report.progress import Progress
from metasched.report.progress_text import clock, duration, failures, progress_line
from metasched.report.progress_view import Lines, LiveLine, NotebookView, Unseen, progress_view, view_of
from tests.support.fake_runner import FakeRunner
from tests.support.progress import RUNNING, STARTING


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.50 s"), (0.1234, "123.4 ms"), (3.07e-3, "3.07 ms"), (18.2e-6, "18.20 us"), (2e-9, "0.00 us")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (7.4, "0:07"), (750, "12:30"), (3723, "1:02:03")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_failures_put_the_most_frequent_first() -> None:
    assert failures(RUNNING.failures) == "3 failed (2 run-timeout, 1 wrong-result)"
    assert failures({}) == ""


def test_progress_line() -> None:
    assert progress_line(RUNNING) == (
        "dense_relu[N=512]  37/64 trials  best 2.13 ms  125.8 GFLOP/s  "
        "0:12 gone, 1:07 left  3 failed (2 run-timeout, 1 wrong-result)"
    )
    assert "  80.1 GOP/s  " in progress_line(replace(RUNNING, gflops=None, gops=80.1))
    assert progress_line(STARTING) == "dense  1/64 trials  no valid candidate yet  0:00 gone"


def test_live_line_rewrites_itself_and_never_wraps() -> None:
    err = Terminal()
    view = LiveLine(err, width=lambda: 40)
    view.begin("dense")
    view(STARTING)
    view(RUNNING)
    view.close()
    begun, first, second = err.getvalue().removesuffix("\n").split("\r")[1:]
    assert begun.startswith("dense  making its space")
    assert len(begun.removesuffix("\x1b[K")) <= 39
    assert first.startswith("dense  1/64")
    assert len(second.removesuffix("\x1b[K")) <= 39


def test_a_narrow_terminal_drops_the_sizes_before_the_time_left() -> None:
    err = io.StringIO()
    LiveLine(err, width=lambda: 80)(RUNNING)
    assert err.getvalue().startswith("\rdense_relu  37/64 trials  best 2.13 ms  125.8 GFLOP/s  0:12 gone, 1:07 left  ")


def test_lines_come_now_and_then_and_at_the_end() -> None:
    err, times = io.StringIO(), iter([0.0, 1.0, 6.0, 7.0])
    view = Lines(err, progress_line, every_s=5.0, now=lambda: next(times))
    for trials in (1, 2, 3, 64):
        view(Progress("dense", trials, 64, None, None, {}, 0.0, None))
    assert [line.split()[1] for line in err.getvalue().splitlines()] == ["1/64", "3/64", "64/64"]


class Display:
    """As IPython's `display`."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def __call__(self, value: Any, *, display_id: bool) -> Display:
        assert display_id
        self.shown.append([value])
        return self

    def update(self, value: Any) -> None:
        self.shown[-1].append(value)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Display:
    display = Display()
    interactive, shows = ModuleType("IPython"), ModuleType("IPython.display")
    interactive.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    shows.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", interactive)
    monkeypatch.setitem(sys.modules, "IPython.display", shows)
    return display


def test_a_notebook_has_one_line_that_changes(notebook: Display) -> None:
    view = progress_view()
    view.begin("a<b")
    view(RUNNING)
    view.close()
    ((first, second),) = notebook.shown
    assert first._repr_html_().startswith("<code>a&lt;b  making its space")
    assert repr(second) == progress_line(RUNNING)


def test_the_view_fits_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(progress_view(), Lines)
    assert isinstance(view_of(None), Unseen)
    assert isinstance(view_of(True), Lines)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(progress_view(), LiveLine)
    assert isinstance(view_of(None), LiveLine)
    assert isinstance(view_of(False), Unseen)
    view = Lines(io.StringIO(), progress_line)
    assert view_of(view) is view


def test_in_a_notebook_the_terminal_is_not_asked(notebook: Display) -> None:
    assert isinstance(view_of(None), NotebookView)
    assert isinstance(progress_view(io.StringIO()), Lines)


def test_tuning_shows_a_line_and_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metasched.measure.executors.local.LocalRunner", lambda _: FakeRunner())
    monkeypatch.setenv("COLUMNS", "80")
    a = np.ones((4, 5), np.float32)
    f = ms.kernel("Y[i, k] = X[i, k] + 1.0", db=f"sqlite:///{tmp_path}/t.db")
    for shown, expected in ((None, "1/1 trials"), (False, "")):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        f.tune(a[: 2 + (shown is None)].copy(), trials=1, progress=shown)
        assert expected in terminal.getvalue()
        assert terminal.getvalue().endswith("\n") == bool(expected)
    told: list[Progress] = []
    f.tune(a, trials=1, progress=told.append, rules="cpu,-inline")
    assert [p.trials for p in told] == [1]
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    f.tune(a, trials=1, rules="cpu,-inline")
    assert terminal.getvalue() == "", "nothing was left to do"
