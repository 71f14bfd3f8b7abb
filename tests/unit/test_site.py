"""The site is made of pages, tutorials and the code: what makes it, without Sphinx."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import metasched as ms
from docs.building.built_links import broken
from docs.building.commands import command_pages
from docs.building.docstrings import as_restructured
from docs.building.links import relinked
from docs.building.notebooks import Cell, CellKind, cells, notebook
from docs.building.pages import sources, write
from metasched.functions.registry import functions
from tests.support.pages import DOCS, PAGES, TUTORIALS

TUTORIAL = '''"""A title.

What it is about.
"""

import math

# %% [markdown]
# ## A part
#
# Text with `code`.

# %%
print(math.pi)
'''


def test_a_tutorial_has_cells() -> None:
    assert cells(TUTORIAL) == (
        Cell(CellKind.MARKDOWN, "# A title\n\nWhat it is about."),
        Cell(CellKind.CODE, "import math"),
        Cell(CellKind.MARKDOWN, "## A part\n\nText with `code`."),
        Cell(CellKind.CODE, "print(math.pi)"),
    )


def test_a_tutorial_without_a_title_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with a docstring"):
        cells("import math\n")


def test_text_that_is_no_comment_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("this is none: 'print(1)'")):
        cells('"""A title."""\n\n# %% [markdown]\n# Text.\nprint(1)\n')


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_a_notebook(path: Path) -> None:
    made = json.loads(notebook(path.read_text(encoding="utf-8")))
    kinds = [cell["cell_type"] for cell in made["cells"]]
    assert kinds.count("code") >= 3
    assert kinds.count("markdown") >= 3
    for cell in made["cells"]:
        if cell["cell_type"] == "code":
            compile(cell["source"], path.name, "exec")


def test_links_are_those_of_the_site() -> None:
    places = {"docs/a.md": "a.md", "docs/how_to/b.md": "how_to/b.md", "tutorials/05_x.py": "tutorials/05_x.ipynb"}
    text = (
        "[x](../../tutorials/05_x.py) [a](../a.md#part) [up](#here) [`f`](../../metasched/api.py) [out](https://x.org)"
    )
    assert relinked(text, "docs/how_to/b.md", places) == (
        "[x](../tutorials/05_x.ipynb) [a](../a.md#part) [up](#here) `f` [out](https://x.org)"
    )
    for code in ("```\n[x](../a.md)\n```", "`sum[k](A)` and ``[x](y)``"):
        assert relinked(code, "docs/how_to/b.md", places) == code


def test_what_the_built_pages_name_is_there(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "template.html").write_text('<a href="{{ page }}">')
    (tmp_path / "a b.html").write_text('<p id="part"><a href="#part"><a href="https://x.org/y"><img src="one.png">')
    (tmp_path / "b.html").write_text(
        '<a href="a%20b.html#part"><a href="a%20b.html#no"><a href="c.html"><a href="#no">'
    )
    assert list(broken(tmp_path)) == ["a b.html: one.png", "b.html: a%20b.html#no", "b.html: c.html", "b.html: #no"]


def test_every_command_has_a_page_with_its_arguments() -> None:
    pages = command_pages()
    assert {"tune", "replay", "show", "rules", "net", "db", "index"} <= pages.keys()
    assert "`--trials N`" in pages["tune"]
    assert "## `metasched net tune`" in pages["net"]
    assert "`--budget" in pages["net"]
    assert all(f"({name}.md)" in pages["index"] for name in pages if name != "index")


def test_docstrings_show_what_they_say() -> None:
    lines = ["Sum `a*b` of *x, y_.", "", "    f(*args)  # `code`", "", "Args:", "    x: a `long", "        name`."]
    as_restructured(None, "function", "f", None, None, lines)
    assert lines == [
        "Sum ``a*b`` of \\*x, y\\_.",
        "",
        "::",
        "",
        "    f(*args)  # `code`",
        "",
        "",
        "Args:",
        "    x: a ``long",
        "        name``.",
    ]


def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    there = set(re.findall(r"\.\. auto\w+:: (?:\w+\.)*(\w+)", text)) | set(re.findall(r"`ms\.(\w+)`", text))
    missing = set(ms.__all__) - there - functions().keys() - {"__version__", "operators", "operator"}
    assert not missing, "docs/reference/ lacks them"
    assert there - {"load"} <= set(dir(ms)), "there is no such name"


DRAWINGS = sorted((DOCS / "drawings").glob("*.svg"))


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_a_drawing_is_shown_and_described(path: Path) -> None:
    root = ET.parse(path).getroot()
    assert root.get("viewBox")
    assert root.findtext("{http://www.w3.org/2000/svg}title")
    shown = [page for page in PAGES if f"drawings/{path.name})" in page.read_text(encoding="utf-8")]
    assert shown
    assert all(
        len(alt) > 20
        for page in shown
        for alt in re.findall(rf"!\[([^\]]*)\]\([^)]*{path.name}\)", page.read_text(encoding="utf-8"))
    )


def test_the_site_is_written_once(tmp_path: Path) -> None:
    made = {"a.md": "one", "b/c.svg": b"two"}
    write(made, tmp_path)
    before = (tmp_path / "a.md").stat().st_mtime_ns
    (tmp_path / "old.md").write_text("gone")
    write({**made, "b/c.svg": b"three"}, tmp_path)
    assert (tmp_path / "a.md").stat().st_mtime_ns == before
    assert (tmp_path / "b/c.svg").read_bytes() == b"three"
    assert not (tmp_path / "old.md").exists()


def test_everything_is_part_of_the_site() -> None:
    made = sources("# Rules and presets\n")
    assert {"index.md", "contributing.md", "tutorials/index.md", "reference/rules.md"} <= made.keys()
    assert {f"tutorials/{path.stem}.ipynb" for path in TUTORIALS} <= made.keys()
    assert not [name for name in made if name.endswith(".py")]
    for path in TUTORIALS:
        shown = json.loads(made[f"tutorials/{path.stem}.ipynb"])["cells"]
        code = [cell["source"] for cell in shown if cell["cell_type"] == "code"]
        assert code == [cell.text for cell in cells(path.read_text(encoding="utf-8")) if cell.kind is CellKind.CODE], (
            "code is as it was"
        )
