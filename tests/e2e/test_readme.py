"""What the documentation shows, works when pasted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


BLOCKS = python_blocks(ROOT / "README.md")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = [
    pytest.param(text, id=f"{page.name}: {text.split('[')[0]}")
    for page in PAGES
    for text in re.findall(r"^```\n(program .*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
]
MODULES = [
    text
    for page in PAGES
    for text in re.findall(r"^```\n(module .*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
]


def run(code: str, folder: Path) -> str:
    """What a script prints, run in a folder with the examples, as a user would."""
    script = folder / "pasted.py"
    script.write_text(code, encoding="utf-8")
    shutil.copytree(ROOT / "examples", folder / "examples")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env={**os.environ, "METASCHED_CACHE": str(folder / "cache")},  # not the user's own
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_is_short() -> None:
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 12


@pytest.mark.slow
def test_every_example_runs_in_order(tmp_path: Path) -> None:
    out = run(re.sub(r"trials=\d+", "trials=4", "\n".join(BLOCKS)), tmp_path)  # a few do, to see that it works
    assert "trace 1 of kernel[" in out
    assert "trace 1 of dense_relu" in out
    assert (tmp_path / "metasched.db").exists()


# The page of sessions is run in `test_sessions_page.py`.
SHOWN = [page for page in PAGES if page.parent.name == "docs" and page.name != "sessions.md"]


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.name)
def test_the_examples_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    blocks = python_blocks(page)
    said = run("\n".join(blocks), tmp_path) if blocks else ""
    if page.name == "schedule.md":
        promised = re.findall(r"print\(.*?# (.*?)(?:\.\.\.\))?$", "\n".join(blocks), re.MULTILINE)
        assert promised
        assert not [text for text in promised if text not in said]


@pytest.mark.parametrize("text", PROGRAMS)
def test_every_program_parses(text: str) -> None:
    from metasched.lang import parse_program

    assert parse_program(text).name in text


@pytest.mark.parametrize("text", MODULES)
def test_every_module_parses(text: str) -> None:
    from metasched.space.text.rules import parse_module

    assert parse_module(text).name in text


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```$|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them: words in lower case, joined by hyphens."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def test_every_link_leads_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page))
        if "://" not in target and not leads(page, *target.partition("#")[::2])
    ]
    assert not broken


def leads(page: Path, file: str, anchor: str) -> bool:
    there = page.parent / file if file else page
    return there.exists() and (not anchor or anchor in headings(there))


def test_every_page_is_found_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/\w+\.md)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert linked == {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}


def test_every_path_that_is_named_exists() -> None:
    """`metasched/operators/traces/` and the like, in prose and in commands; what has a placeholder is left out."""
    top = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."))
    missing = [
        f"{page.name}: {path}"
        for page in PAGES
        for path in re.findall(rf"(?<![\w/.])((?:{top})/[\w./]*\w)", page.read_text(encoding="utf-8"))
        if not re.search(r"[A-Z]{2}", path) and not (ROOT / path).exists()
    ]
    assert not missing


COMMANDS = sorted(
    {
        line.removeprefix("$ ").partition("  #")[0]
        for page in PAGES
        for block in re.findall(r"^```\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
        if re.match(r"(\$ )?metasched (?!\w+:)", line)
    }
    | {
        command
        for page in PAGES
        for command in re.findall(r"`(metasched \w+ [^`|]+)`", page.read_text(encoding="utf-8"))
        if "FILE.ms" in command or "examples/" in command or "op:" in command
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_one(command: str) -> None:
    from metasched.cli.main import build_parser

    arguments = build_parser().parse_args(shlex.split(command)[1:])
    given = [getattr(arguments, name, None) for name in ("program", "rule")]
    assert all((ROOT / path).exists() for path in given if path and path.startswith("examples/"))
