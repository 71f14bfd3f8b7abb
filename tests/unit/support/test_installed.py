"""Packages are read once, and again when one comes or goes."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path

import pytest

from metasched.support.installed import entry_points

GROUP = "metasched.entry_points_of_test"


def install(folder: Path, package: str) -> Path:
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{package} = json:loads\n")
    return info


def found() -> list[str]:
    return sorted(point.name for point in entry_points(GROUP))


def test_they_are_those_of_the_standard_library() -> None:
    assert set(entry_points("metasched.rules")) == set(importlib.metadata.entry_points(group="metasched.rules"))


def test_files_are_read_once_until_a_package_comes_or_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    read = importlib.metadata.entry_points

    def counted(group: str) -> importlib.metadata.EntryPoints:
        reads.append(group)
        return read(group=group)

    monkeypatch.setattr("importlib.metadata.entry_points", counted)
    first = install(tmp_path, "first")
    assert found() == []
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (found(), found()) == (["first"], ["first"])
    install(tmp_path, "second")
    assert found() == found() == ["first", "second"]
    shutil.rmtree(first)
    assert found() == ["second"]
    assert len(reads) == 4
