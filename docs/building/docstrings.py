"""Docstrings as Sphinx wants them.

Ours are written to be read as they are, with `code` between single backticks and examples indented. Sphinx reads
reStructuredText, where other characters are markup: they are escaped, so that a docstring shows what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_CODE = re.compile(r"(?<!`)`((?:[^`\n]|\n(?!\s*\n))+)`(?!`)")
_MARKUP = re.compile(r"([*|\\]|(?<=\w)_(?=\W|$))")
_SECTION = re.compile(r"^[A-Z]\w+:$")


def as_restructured(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Rewrite a docstring's lines in place (a listener of `autodoc-process-docstring`)."""
    lines[:] = [line for part in _parts(lines) for line in part]


def _parts(lines: list[str]) -> Iterator[list[str]]:
    """The text as markup, and the examples in it as they are."""
    text: list[str] = []
    at = 0
    while at < len(lines):
        end = _end_of_example(lines, at)
        if end == at:
            text.append(lines[at])
            at += 1
        else:
            yield _escaped(text)
            yield ["::", "", *lines[at:end], ""]
            text, at = [], end
    yield _escaped(text)


def _end_of_example(lines: list[str], at: int) -> int:
    """Behind the example that begins at a line; that line itself where none does.

    An example is indented under a paragraph, after a blank line; what is indented under `Args:` is none.
    """
    above = next((line for line in reversed(lines[:at]) if line.strip()), "")
    begins = lines[at].startswith("    ") and at > 0 and not lines[at - 1].strip()
    if not begins or above.startswith(" ") or _SECTION.match(above):
        return at
    return next((n for n in range(at, len(lines)) if lines[n].strip() and not lines[n].startswith(" ")), len(lines))


def _escaped(lines: list[str]) -> list[str]:
    parts = _CODE.split("\n".join(lines))
    for at, part in enumerate(parts):
        parts[at] = f"``{part}``" if at % 2 else _MARKUP.sub(r"\\\1", part)
    return "".join(parts).split("\n") if lines else []
