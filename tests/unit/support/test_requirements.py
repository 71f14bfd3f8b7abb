"""What is allowed is what was tested: pyproject.toml, the oldest of everything, and the check at import agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from metasched.support.requirements import OLDEST, UnsupportedRelease, require

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def bounds(requirements: list[str]) -> dict[str, str]:
    """The lowest release of each package that requirements allow."""
    found = {}
    for text in requirements:
        match = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", text)
        assert match, f"{text}: write NAME>=RELEASE, the oldest release tested"
        found[match[1]] = match[2]
    return found


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_oldest_of_everything_is_what_is_tested() -> None:
    project = PROJECT["project"]
    allowed = bounds([*project["dependencies"], *project["optional-dependencies"]["test"]])
    assert allowed == pinned(), "pyproject.toml and constraints-oldest.txt"
    assert bounds(PROJECT["build-system"]["requires"])["setuptools"] == pinned()["setuptools"]


def test_the_check_at_import_is_of_the_same_releases() -> None:
    assert OLDEST.items() <= pinned().items()


@pytest.mark.parametrize("release", ["0.66", "0.66.0", "0.66.1", "0.67.0rc1", "0.100.0", "1.0"])
def test_newer_releases_are_taken(release: str) -> None:
    require(lambda name: release if name == "numba" else "0.48.0")


@pytest.mark.parametrize("release", ["0.65.2", "0.65", "0.9.5", "unknown"])
def test_older_releases_are_refused(release: str) -> None:
    with pytest.raises(
        UnsupportedRelease, match=rf"needs numba 0\.66\.0 or newer, and {release} is installed: its LLVM"
    ):
        require(lambda name: release if name == "numba" else "0.48.0")
    with pytest.raises(UnsupportedRelease, match=r"needs llvmlite 0\.48\.0 or newer, and 0\.47\.0"):
        require(lambda name: "0.47.0" if name == "llvmlite" else "0.66.0")


def test_a_package_without_metadata_is_left_to_its_import() -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    require(missing)


def test_importing_metasched_says_so(tmp_path: Path) -> None:
    info = tmp_path / "numba-0.65.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numba\nVersion: 0.65.0\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", "import metasched"], env=env, capture_output=True, text=True, check=False
    )
    assert "metasched needs numba 0.66.0 or newer, and 0.65.0 is installed" in done.stderr.splitlines()[-1]
