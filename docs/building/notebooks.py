"""A tutorial, which is a Python file with cells, as a notebook.

The cells are those of the percent format, which editors and Jupytext know: `# %%` begins code and `# %% [markdown]`
begins text, as comments. The file's docstring is the first cell, and its first line the title.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

_MARK = re.compile(r"^# %%(?: \[(markdown)\])?$", re.MULTILINE)


class CellKind(StrEnum):
    """The kinds of cells that a notebook has, as its format names them."""

    CODE = "code"
    MARKDOWN = "markdown"


@dataclass(frozen=True)
class Cell:
    kind: CellKind
    text: str


def cells(source: str) -> tuple[Cell, ...]:
    """The cells of a tutorial, in order; empty ones are left out.

    Raises ValueError for a file without a docstring, and for text that is not in comments.
    """
    docstring = ast.get_docstring(ast.parse(source), clean=True)
    if docstring is None:
        raise ValueError("a tutorial begins with a docstring: its title and what it is about")
    title, _, about = docstring.partition("\n")
    found = [Cell(CellKind.MARKDOWN, f"# {title.rstrip('.')}\n{about}".strip())]
    marks = list(_MARK.finditer(source))
    first = source[: marks[0].start()] if marks else source
    found.append(Cell(CellKind.CODE, _without_docstring(first)))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        text = source[mark.end() : following.start() if following else len(source)].strip("\n")
        found.append(Cell(CellKind.MARKDOWN, _uncommented(text)) if mark[1] else Cell(CellKind.CODE, text))
    return tuple(cell for cell in found if cell.text.strip())


def _without_docstring(first: str) -> str:
    (docstring, *_) = ast.parse(first).body
    assert docstring.end_lineno is not None
    return "\n".join(first.splitlines()[docstring.end_lineno :]).strip("\n")


def _uncommented(text: str) -> str:
    lines = text.strip().splitlines()
    wrong = [line for line in lines if line != "#" and not line.startswith("# ")]
    if wrong:
        raise ValueError(f"text of a tutorial is comments, and this is none: {wrong[0]!r}")
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)


def notebook(source: str, linked: Callable[[str], str] = str) -> str:
    """The tutorial as a notebook without outputs, the text of an `.ipynb` file (format 4.5).

    `linked` makes the links of a text those of the site; code is as it was.
    """
    return json.dumps(
        {
            "cells": [_as_json(n, cell, linked) for n, cell in enumerate(cells(source))],
            "metadata": {
                "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                "language_info": {"name": "python"},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=1,
    )


def _as_json(n: int, cell: Cell, linked: Callable[[str], str]) -> dict[str, object]:
    common: dict[str, object] = {"cell_type": cell.kind.value, "id": f"cell-{n}", "metadata": {}}
    if cell.kind is CellKind.MARKDOWN:
        return {**common, "source": linked(cell.text)}
    return {**common, "source": cell.text, "execution_count": None, "outputs": []}
