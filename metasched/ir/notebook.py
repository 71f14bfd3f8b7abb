"""How values are shown in a notebook: as tables of texts, in which nothing is markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_LEFT = 'style="text-align:left"'
# A caption is as wide as its table, which may have no rows.
_CAPTION = 'style="text-align:left; white-space:nowrap"'


def table(caption: str, rows: Iterable[tuple[str, ...]], below: str = "") -> str:
    """An HTML table, a row for each tuple, whose first cell names what the others say. `below` is HTML."""
    lines = "".join(
        f"<tr><th {_LEFT}>{escape(first)}</th>{''.join(f'<td {_LEFT}>{_lines(cell)}</td>' for cell in cells)}</tr>"
        for first, *cells in rows
    )
    return f"<div><table><caption {_CAPTION}>{escape(caption)}</caption>{lines}</table>{below}</div>"


def _lines(text: str) -> str:
    return "<br/>".join(map(escape, text.splitlines()))


def collapsible_html(title: str, html: str) -> str:
    """HTML that is shown when its title is clicked on."""
    return f"<details><summary>{escape(title)}</summary>{html}</details>"


class TextReport:
    """A report that prints as lines for a person: its repr has the first `SHORT` of them, a notebook a row for each."""

    SHORT = 1

    def __repr__(self) -> str:
        return f"<report: {'; '.join(str(self).splitlines()[: self.SHORT])}>"

    def _repr_html_(self) -> str:
        lines = str(self).splitlines()
        parts = (line.partition(": ") for line in lines)
        return table("report", [(name, said) if colon else ("", name) for name, colon, said in parts])
