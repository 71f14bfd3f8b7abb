"""What is kept of features is given back exactly, and nothing that was not written whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metasched.cache_folder import NoCacheFolder
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.features import NAMES
from metasched.database.record import TaskKey
from metasched.errors import CacheWarning
from metasched.schedule.trace_outline import Outline
from metasched.search.records.feature_cache import FeatureCache, made_by

TASK = TaskKey("hash", "target", 2)
ROW = np.linspace(0, 1, len(NAMES)).astype(np.float32)
OUTLINES = [Outline("a" * 32, '[[null,4],"with spaces"]'), Outline("b" * 32, "[]")]


def test_what_is_kept_is_given_back(tmp_path: Path) -> None:
    cache = FeatureCache(DEFAULT_CORE, tmp_path)
    assert cache.read(TASK) == {}
    cache.add(TASK, {OUTLINES[0]: ROW})
    cache.add(TASK, {OUTLINES[1]: ROW * 2})
    found = FeatureCache(DEFAULT_CORE, tmp_path).read(TASK)
    assert list(found) == OUTLINES
    assert np.array_equal(found[OUTLINES[1]], ROW * 2)
    assert cache.read(replace(TASK, threads=1)) == {}
    assert FeatureCache(replace(DEFAULT_CORE, last_cache_bytes=1.0), tmp_path).read(TASK) == {}
    assert FeatureCache(DEFAULT_CORE, None).read(TASK) == {}


def test_what_was_not_written_whole_is_left_out(tmp_path: Path) -> None:
    cache = FeatureCache(DEFAULT_CORE, tmp_path)
    cache.add(TASK, dict.fromkeys(OUTLINES, ROW))
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    whole = file.read_bytes()
    file.write_bytes(b"nonsense\n" + whole[:-5])
    assert list(cache.read(TASK)) == OUTLINES[:1]


def test_what_other_versions_kept_is_removed(tmp_path: Path) -> None:
    (tmp_path / "older").mkdir()
    FeatureCache(DEFAULT_CORE, tmp_path).add(TASK, {OUTLINES[0]: ROW})
    assert [path.name for path in tmp_path.iterdir()] == [made_by()]


def test_where_nothing_can_be_kept_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = FeatureCache(DEFAULT_CORE, tmp_path / "file")
    with pytest.warns(CacheWarning, match=r"features of measured candidates are not kept: (.*\n)*.*METASCHED_CACHE"):
        cache.add(TASK, {OUTLINES[0]: ROW})
    assert cache.read(TASK) == {}


def test_what_cannot_be_read_is_worked_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FeatureCache(DEFAULT_CORE, tmp_path)
    cache.add(TASK, {OUTLINES[0]: ROW})

    def refused(path: Path) -> bytes:
        raise PermissionError(f"not {path.name}")

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.warns(CacheWarning, match="features of measured candidates are not kept: not "):
        assert cache.read(TASK) == {}


def test_without_a_users_folder_it_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise NoCacheFolder("nothing says which")

    monkeypatch.setattr("metasched.search.records.feature_cache.cache_folder", none)
    with pytest.warns(CacheWarning, match="nothing says which"):
        assert FeatureCache.of_user(DEFAULT_CORE).read(TASK) == {}
