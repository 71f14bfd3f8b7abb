"""The pictures of a report as figures, in a notebook and elsewhere."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from metasched.report.analysis import analysis_of
from metasched.report.figures import figures_of, show_in_notebook
from metasched.report.page import ReportError
from metasched.report.pictures import pictures_of
from tests.support.measured import records

ANALYSIS = analysis_of("add", records())


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a notebook's `display` was given."""
    found: list[Any] = []
    interactive, shows = ModuleType("IPython"), ModuleType("IPython.display")
    interactive.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    shows.display = lambda value, raw=False: found.append(value)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", interactive)
    monkeypatch.setitem(sys.modules, "IPython.display", shows)
    return found


def test_they_are_the_pages_pictures_with_colours() -> None:
    figures = figures_of(ANALYSIS)
    assert list(figures) == list(pictures_of(ANALYSIS))
    for title, figure in figures.items():
        assert figure.layout.title.text == title
        assert "$" not in figure.to_json()
        assert "#0969da" in figure.to_json() or "#1a7f37" in figure.to_json() or title != "Tuning curve"


def test_a_notebook_shows_the_text_and_below_it_the_figures(shown: list[Any]) -> None:
    show_in_notebook("text", "<p>", ANALYSIS)
    texts, *figures = shown
    assert texts == {"text/plain": "text", "text/html": "<p>"}
    assert [figure.layout.title.text for figure in figures] == list(pictures_of(ANALYSIS))


def test_without_records_or_plotly_a_report_is_its_text(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    show_in_notebook("text", "<p>", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    show_in_notebook("text", "<p>", ANALYSIS)
    assert [*map(type, shown)] == [dict, dict]
    with pytest.raises(ReportError, match=r"metasched\[report\]"):
        figures_of(ANALYSIS)


def test_a_terminal_shows_its_own_text() -> None:
    with pytest.raises(NotImplementedError):
        show_in_notebook("text", "<p>", ANALYSIS)
