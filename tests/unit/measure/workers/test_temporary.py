"""Temporary folders go, at once or with the next process that looks; folders of killed owners are in e2e/test_lacks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from metasched.measure.workers.temporary import LOCK, TemporaryFolder, remove_abandoned


def test_a_folder_goes_with_all_that_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = TemporaryFolder()
    (folder.path / "inside").mkdir()
    folder.close()
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_what_is_made_while_a_folder_is_removed_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder, remove = TemporaryFolder(), shutil.rmtree

    def beside(path: Path, *, ignore_errors: bool) -> None:
        remove(path, ignore_errors=ignore_errors)
        (path / "late").mkdir(parents=True)

    monkeypatch.setattr(shutil, "rmtree", beside)
    folder.close()
    monkeypatch.setattr(shutil, "rmtree", remove)
    assert (folder.path / LOCK).exists()
    assert remove_abandoned(tmp_path) == [folder.path]
    assert list(tmp_path.iterdir()) == []
