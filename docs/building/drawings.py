"""Drawings become part of the page that shows them, so that they follow its colours.

A drawing is an SVG file, written by hand. As an image it could follow what the system prefers, dark or light, and not
the page's own switch; its text could not be searched, nor read aloud.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from docutils import nodes

_FOLDER = "drawings/"


def inline_drawings(app: Any, doctree: nodes.document, _page: str) -> None:
    """Replace images of drawings by their SVG, where the output is HTML."""
    if app.builder.format != "html":
        return
    for image in list(doctree.findall(nodes.image)):
        uri = str(image["uri"])
        if uri.startswith(_FOLDER) and uri.endswith(".svg"):
            text = (Path(app.srcdir) / uri).read_text(encoding="utf-8")
            label = html.escape(str(image.get("alt", "")), quote=True)
            drawn = f'<figure class="drawing" role="img" aria-label="{label}">\n{text}</figure>'
            image.replace_self(nodes.raw("", drawn, format="html"))
