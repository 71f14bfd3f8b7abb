from __future__ import annotations

import io
import json

import pytest

from metasched.cli.command import Console
from metasched.cli.progress_view import JsonLines, choose_view
from metasched.cli.render import table
from metasched.report.progress_view import Lines, LiveLine
from tests.support.progress import RUNNING, STARTING


def test_table_aligns_columns() -> None:
    assert table([["a", "time"], ["long", "1"]], "<>") == "a     time\nlong     1"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
