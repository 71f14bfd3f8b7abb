"""The pictures of a report as Plotly's figures, for a notebook and for code that changes or saves them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from metasched.report.analysis import TuningAnalysis
from metasched.report.page import ReportError, page_needs
from metasched.report.page_style import STYLE
from metasched.report.pictures import Picture, pictures_of
from metasched.report.progress_view import notebook_display
from metasched.support.imports import imports

# The page's colours of its light theme, by name; a notebook's own theme has all the others.
_COLOURS = dict(re.findall(r"--(\w+):(#\w+)", STYLE.partition("@media")[0]))
_TRANSPARENT = "rgba(0,0,0,0)"
_GREY = "#808080"  # is seen on white and on black


def figures_of(analysis: TuningAnalysis) -> dict[str, Any]:
    """The pictures that there is something to see in, by title, as `plotly.graph_objects.Figure`.

    Raises ReportError where the extra `report` is not installed.
    """
    return {title: _figure(title, picture) for title, picture in pictures_of(analysis).items()}


def show_in_notebook(text: str, html: str, analysis: TuningAnalysis | None) -> None:
    """Show a report in a notebook, and below it its pictures, where Plotly is installed.

    Raises NotImplementedError elsewhere, as IPython wants it: a terminal shows the text.
    """
    display = notebook_display()
    if display is None:
        raise NotImplementedError
    display({"text/plain": text, "text/html": html}, raw=True)
    try:
        figures = {} if analysis is None else figures_of(analysis)
    except ReportError:  # without the extra, a report is its text
        return
    for figure in figures.values():
        display(figure)


def _figure(title: str, picture: Picture) -> Any:
    try:
        made = imports.module("plotly.graph_objects").Figure
    except ImportError as error:
        raise page_needs() from error
    lines = {"gridcolor": _GREY, "zerolinecolor": _GREY, "griddash": "dot"}
    layout = {
        **picture["layout"],
        "title": {"text": title},
        "paper_bgcolor": _TRANSPARENT,
        "plot_bgcolor": _TRANSPARENT,
        "font": {"color": _GREY},
        "xaxis": {**lines, **picture["layout"]["xaxis"]},
        "yaxis": {**lines, **picture["layout"]["yaxis"]},
    }
    return made(data=_with_colours(picture["data"]), layout=_with_colours(layout))


def _with_colours(value: Any) -> Any:
    """A picture's data with colours instead of their names."""
    if isinstance(value, str):
        return _COLOURS.get(value[1:], _GREY) if re.fullmatch(r"\$[a-z]+\d?", value) else value
    if isinstance(value, list):
        return [_with_colours(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _with_colours(each) for name, each in value.items()}
    return value
