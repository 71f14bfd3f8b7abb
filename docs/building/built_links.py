"""Whether what the pages of the built site name is there: `python -m docs.building.built_links FOLDER`.

Sphinx checks links in Markdown. Pictures and links that are written as HTML, or that a theme makes, are checked here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NAMING = {"href", "src"}
_TEMPLATES = "_static"  # where themes keep pages that are none yet


class _Names(HTMLParser):
    """What a page names, and the places in it that others may."""

    def __init__(self) -> None:
        super().__init__()
        self.named: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in _NAMING:
                self.named.append(value)
            elif value and name == "id":
                self.anchors.add(value)


def broken(folder: Path) -> Iterator[str]:
    """Each name in a page of a folder that leads nowhere in it, after the page's path."""
    pages = {path.resolve(): _names(path) for path in sorted(folder.rglob("*.html")) if _TEMPLATES not in path.parts}
    for path, page in pages.items():
        for name in page.named:
            parts = urlsplit(name)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = target not in pages or not parts.fragment or unquote(parts.fragment) in pages[target].anchors
            if not target.exists() or not known:
                yield f"{path.relative_to(folder.resolve())}: {name}"


def _names(path: Path) -> _Names:
    found = _Names()
    found.feed(path.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    sys.exit("\n".join(f"{one} leads nowhere" for one in broken(Path(sys.argv[1]))) or None)
