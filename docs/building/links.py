"""Links between files of the repository as links between pages of the site.

Pages are written to be read in the repository as well, so they link to files by relative paths. On the site a page may
have another place (`tutorials/05_network.py` is a notebook), and other files have none: such a link is its text alone.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

# Code, which is left as it is, or a link, whose text may have code in it: whichever begins first.
_LINK = re.compile(r"(`+)[^`]+?\1(?!`)|(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:]*?)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def relinked(text: str, page: str, places: Mapping[str, str]) -> str:
    """A page's text with its links made for the site.

    Args:
        text: the page, in Markdown.
        page: its path in the repository, such as "docs/rules.md".
        places: the path on the site of every file that has one, by its path in the repository.

    """

    def link(found: re.Match[str]) -> str:
        shown, file, anchor = found[2], found[3], found[4] or ""
        if not file:  # code, or a link inside of the page
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), file))
        if target not in places:
            return shown
        there = posixpath.relpath(places[target], posixpath.dirname(places[page]) or ".")
        return f"[{shown}]({there}{anchor})"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)
