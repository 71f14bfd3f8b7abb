from __future__ import annotations

import io
import json

import pytest

from metasched.cli.command import Console
from metasched.cli.progress_view import JsonLines, Lines, LiveLine, choose_view
from metasched.cli.render import clock, duration, failures, progress_line, table
from metasched.search.progress import Progress

RUNNING = Progress(
    task="dense_relu[N=512]",
    trials=37,
    total=64,
    best_s=2.134e-3,
    gflops=125.84,
    failures={"wrong-result": 1, "run-timeout": 2},
    elapsed_s=12.4,
    left_s=67.0,
)
STARTING = Progress("dense", 1, 64, None, None, {}, 0.4, None)


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
    assert progress_line(STARTING) == "dense  1/64 trials  no valid candidate yet  0:00 gone"


def test_table_aligns_columns() -> None:
    assert table([["a", "time"], ["long", "1"]], "<>") == "a     time\nlong     1"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_live_line_rewrites_itself_and_never_wraps() -> None:
    err = Terminal()
    view = LiveLine(Console(io.StringIO(), err), width=lambda: 40)
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
    LiveLine(Console(io.StringIO(), err), width=lambda: 80)(RUNNING)
    assert err.getvalue().startswith("\rdense_relu  37/64 trials  best 2.13 ms  125.8 GFLOP/s  0:12 gone, 1:07 left  ")


def test_lines_come_now_and_then_and_at_the_end() -> None:
    err, times = io.StringIO(), iter([0.0, 1.0, 6.0, 7.0])
    view = Lines(Console(io.StringIO(), err), every_s=5.0, now=lambda: next(times))
    for trials in (1, 2, 3, 64):
        view(Progress("dense", trials, 64, None, None, {}, 0.0, None))
    assert [line.split()[1] for line in err.getvalue().splitlines()] == ["1/64", "3/64", "64/64"]


def test_json_lines_are_one_object_a_line() -> None:
    out = io.StringIO()
    JsonLines(Console(out, io.StringIO()))(RUNNING)
    JsonLines(Console(out, io.StringIO()))(STARTING)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["event"] == "progress"
    assert first["best_ms"] == pytest.approx(2.134)
    assert first["failures"] == {"wrong-result": 1, "run-timeout": 2}
    assert second["best_ms"] is None


def test_the_view_fits_where_it_is_shown() -> None:
    assert isinstance(choose_view(Console(io.StringIO(), Terminal()), as_json=False), LiveLine)
    assert isinstance(choose_view(Console(io.StringIO(), io.StringIO()), as_json=False), Lines)
    assert isinstance(choose_view(Console(io.StringIO(), Terminal()), as_json=True), JsonLines)
