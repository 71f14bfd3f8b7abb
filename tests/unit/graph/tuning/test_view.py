"""How networks that are tuned are shown: a table in place, lines for logs, a table in a notebook."""

from __future__ import annotations

import io
import os
from typing import Any

import pytest

from metasched.graph.tasks import TaskRow, TaskTable, tasks_of
from metasched.graph.tuning.view import (
    LiveTable,
    NetworkProgress,
    network_view,
    network_view_of,
)
from metasched.report.progress_view import Lines, NotebookView, Unseen
from tests.unit.graph.test_tasks import network


def progress(trials: int = 9, mark: str = "now") -> NetworkProgress:
    tasks = tasks_of(network().graph)
    rows = [TaskRow(tasks[0], 3e-6, trials, mark), TaskRow(tasks[1], 1e-6, 1), TaskRow(tasks[2])]
    return NetworkProgress(TaskTable(rows), trials + 1, 64, 12.0, None)


def test_a_line_says_how_far_it_is() -> None:
    assert progress().line == "10/64 trials  2/3 tasks measured  their kernels 7.00 us  0:12 gone  now MatMul 8x16"


def test_a_table_is_drawn_in_place_and_stays() -> None:
    stream = io.StringIO()
    view = LiveTable(stream, every_s=0.0, size=lambda: os.terminal_size((100, 24)))
    view(progress(9))
    first = stream.getvalue()
    assert first.count("\n") == 5, "heads, three tasks, and a line"
    assert "\x1b[5A" not in first
    view(progress(17))
    assert stream.getvalue()[len(first) :].startswith("\x1b[5A"), "it is drawn over"
    view.close()
    assert "18/64 trials" in stream.getvalue()


def test_it_is_cut_to_the_terminal() -> None:
    stream = io.StringIO()
    view = LiveTable(stream, every_s=0.0, size=lambda: os.terminal_size((30, 5)))
    view(progress(mark=""))
    lines = stream.getvalue().split("\n")
    assert all(len(line.replace("\x1b[2K", "").replace("\x1b[J", "")) <= 30 for line in lines)
    assert len(lines) - 1 <= 5


def test_tables_are_not_drawn_too_often() -> None:
    stream, times = io.StringIO(), iter([0.0, 0.1, 0.3, 0.3])
    view = LiveTable(stream, now=lambda: next(times), size=lambda: os.terminal_size((100, 24)))
    for trials in (1, 2, 3):
        view(progress(trials))
    assert ["2/64" in stream.getvalue(), "3/64" in stream.getvalue(), "4/64" in stream.getvalue()] == [
        True,
        False,
        True,
    ]


def test_logs_have_a_line_now_and_then() -> None:
    stream, times = io.StringIO(), iter([0.0, 1.0, 6.0])
    view = Lines(stream, lambda p: p.line, now=lambda: next(times))
    for trials in (1, 2, 3):
        view(progress(trials))
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["2/64", "4/64"]


def test_a_notebook_shows_a_table_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class Handle:
        def update(self, value: object) -> None:
            shown.append(value)

    def display(value: object, display_id: bool) -> Handle:
        shown.append(value)
        return Handle()

    monkeypatch.setattr("metasched.graph.tuning.view.notebook_display", lambda: display)
    monkeypatch.setattr("metasched.graph.tuning.view._NOTEBOOK_S", 0.0)
    view = network_view()
    assert isinstance(view, NotebookView)
    view(progress(1))
    view(progress(2))
    view.close()
    assert len(shown) == 2
    assert "<table>" in shown[1]._repr_html_()
    assert "3/64 trials" in repr(shown[1])


def test_what_a_caller_may_pass() -> None:
    seen: list[NetworkProgress] = []
    network_view_of(seen.append)(progress())
    assert len(seen) == 1
    assert network_view_of(False) == Unseen()
    lines = Lines(io.StringIO(), lambda p: p.line)
    assert network_view_of(lines) is lines
    assert isinstance(network_view(io.StringIO()), Lines)
    assert isinstance(network_view_of(True), Lines | LiveTable)


def test_nothing_is_shown_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    network_view_of(None)(progress())
    assert capsys.readouterr().err == ""
