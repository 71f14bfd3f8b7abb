"""Every tutorial runs as it stands, but for sizes that make the search in one of them shorter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.building.notebooks import CellKind, cells
from tests.support.pages import ROOT, TUTORIALS, kept_workers, run

# These change the process that they run in: a package of metasched's gets a folder more.
ALONE = [ROOT / "tutorials" / "04_instruction.py"]
# What makes a search shorter: two rounds with two candidates each have every step.
SHORTER = {
    "rounds: int = 4, batch: int = 4": "rounds: int = 2, batch: int = 2",
    "trials=4": "trials=2",
    "net.tune(trials=2": "net.tune(trials=1",
}


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    with kept_workers():
        yield


@pytest.mark.parametrize("path", [path for path in TUTORIALS if path not in ALONE], ids=lambda path: path.stem)
def test_tutorial_runs(path: Path, tmp_path: Path) -> None:
    code = "\n\n".join(cell.text for cell in cells(path.read_text(encoding="utf-8")) if cell.kind is CellKind.CODE)
    for usual, shorter in SHORTER.items():
        code = code.replace(usual, shorter)
    assert run(code, tmp_path)


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.stem)
def test_tutorial_runs_alone(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_there_are_tutorials() -> None:
    assert len(TUTORIALS) >= len(ALONE) + 1
