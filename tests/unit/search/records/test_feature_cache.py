"""What is kept of features is given back exactly, and nothing that was not written whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from metasched.cost.core import DEFAULT_CORE
from metasched.cost.features import NAMES
from metasched.database.record import TaskKey
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
    cache.add(TASK, {OUTLINES[0]: ROW})
    assert cache.read(TASK) == {}
