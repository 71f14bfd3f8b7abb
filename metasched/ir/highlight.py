"""Colour for printed programs and traces: in a terminal, and in a notebook."""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TextIO


class Part(Enum):
    """The kind of a piece of text."""

    KEYWORD = "keyword"
    KIND = "kind"  # how a loop runs
    NAME = "name"  # of a block
    NUMBER = "number"
    TEXT = "text"
    NOTE = "note"  # an annotation, or an address
    COMMENT = "comment"


_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<note>@\w*)
      | (?P<name>^[ ]*[\w.]+(?=:[ ]))
      | (?P<kind>\b(?:parallel|vectorized|unrolled)\b)
      | (?P<keyword>\b(?:func|program|trace|temp|const|for|in|grid|with|if|else|init|and|or|not|of|let)\b)
      | (?P<number>(?<![\w.])\d+(?:\.\d*)?(?:e[+-]?\d+)?\b)""",
    re.VERBOSE | re.MULTILINE,
)
_ANSI: Mapping[Part, str] = {
    Part.KEYWORD: "34",
    Part.KIND: "1;35",
    Part.NAME: "1",
    Part.NUMBER: "36",
    Part.TEXT: "32",
    Part.NOTE: "33",
    Part.COMMENT: "2",
}
_CSS: Mapping[Part, str] = {
    Part.KEYWORD: "color:#0550ae",
    Part.KIND: "color:#8250df;font-weight:bold",
    Part.NAME: "font-weight:bold",
    Part.NUMBER: "color:#0a7ea4",
    Part.TEXT: "color:#116329",
    Part.NOTE: "color:#953800",
    Part.COMMENT: "color:#6e7781",
}


def ansi_text(text: str) -> str:
    """A text with the escape codes of a terminal."""
    return _colour_tokens(text, lambda part, piece: f"\x1b[{_ANSI[part]}m{piece}\x1b[0m", lambda plain: plain)


def html_text(text: str) -> str:
    """A text as a `<pre>` element."""

    def paint(part: Part, piece: str) -> str:
        return f'<span style="{_CSS[part]}">{html.escape(piece)}</span>'

    return f"<pre>{_colour_tokens(text, paint, html.escape)}</pre>"


def show(text: str, out: TextIO | None = None) -> None:
    """Print a text: in colour where that is a terminal and the environment does not say NO_COLOR (no-color.org)."""
    stream = out if out is not None else sys.stdout
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()
    stream.write(f"{ansi_text(text) if wanted else text}\n")


def _colour_tokens(text: str, paint: Callable[[Part, str], str], plain: Callable[[str], str]) -> str:
    out: list[str] = []
    position = 0
    for match in _TOKEN.finditer(text):
        piece = match.group()
        indent = len(piece) - len(piece.lstrip())
        out.append(plain(text[position : match.start()] + piece[:indent]))
        out.append(paint(Part(match.lastgroup), piece[indent:]))
        position = match.end()
    return "".join([*out, plain(text[position:])])
