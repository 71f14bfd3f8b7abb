"""What the site is made of, and the folder that Sphinx reads.

The pages lie where people look for them in the repository: `docs/`, `tutorials/`, `CONTRIBUTING.md`. For Sphinx they
have to be in one folder, with what is generated beside them; only files that changed are written, so that a second
build is short.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from docs.building.commands import command_pages
from docs.building.links import relinked
from docs.building.notebooks import notebook

ROOT = Path(__file__).parents[2]
# Files of the repository that are pages of the site, besides those of docs/ and the tutorials.
_ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tutorials/README.md": "tutorials/index.md",
}
_COMMANDS = "reference/command_line"
_RULES = "reference/rules.md"
_KEPT = (".svg", ".css", ".png", ".html")


def places(root: Path = ROOT) -> dict[str, str]:
    """The path on the site of every file of the repository that is part of it, by its path there."""
    found = {str(path.relative_to(root)): str(path.relative_to(root / "docs")) for path in written_pages(root)}
    found |= {name: f"tutorials/{Path(name).stem}.ipynb" for name in tutorials(root)}
    found |= {f"docs/{_COMMANDS}/{name}.md": f"{_COMMANDS}/{name}.md" for name in command_pages()}
    return {**found, **_ELSEWHERE, f"docs/{_RULES}": _RULES}


def written_pages(root: Path = ROOT) -> list[Path]:
    """The pages of docs/, in order."""
    return sorted((root / "docs").rglob("*.md"))


def tutorials(root: Path = ROOT) -> list[str]:
    """The tutorials' paths, in the order of their numbers."""
    return sorted(str(path.relative_to(root)) for path in (root / "tutorials").glob("[0-9]*.py"))


def sources(rules: str, root: Path = ROOT) -> dict[str, str | bytes]:
    """What Sphinx reads: the content of every file, by its path on the site. `rules` is the page of the rules."""
    to = places(root)
    made: dict[str, str | bytes] = {}
    for name, place in to.items():
        if (root / name).suffix == ".py":
            linked = partial(relinked, page=name, places=to)
            made[place] = notebook((root / name).read_text(encoding="utf-8"), linked)
        elif (root / name).exists():
            made[place] = relinked((root / name).read_text(encoding="utf-8"), name, to)
    made |= {f"{_COMMANDS}/{name}.md": text for name, text in command_pages().items()}
    made[_RULES] = rules
    for path in sorted((root / "docs").rglob("*")):
        if path.suffix in _KEPT:
            made[str(path.relative_to(root / "docs"))] = path.read_bytes()
    return made


def write(made: Mapping[str, str | bytes], folder: Path) -> None:
    """Write files into a folder, and remove others; a file that says the same already is left as it is."""
    wanted = {folder / name: text.encode() if isinstance(text, str) else text for name, text in made.items()}
    for path in [path for path in folder.rglob("*") if path.is_file() and path not in wanted]:
        path.unlink()
    for path, content in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
