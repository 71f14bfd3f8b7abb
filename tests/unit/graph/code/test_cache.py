"""Machine code on disk: found again, and never trusted where it is damaged or another's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import metasched as ms
from metasched.errors import CacheWarning
from metasched.graph.code import cache as module
from metasched.graph.code.archive import from_bytes, to_bytes
from metasched.graph.code.cache import CodeCache
from metasched.graph.code.kernels import kernels
from metasched.graph.code.owned_files import code_key
from metasched.graph.code.step_code import StepArgument, StepArgumentKind, StepCode, TaskCode
from metasched.target import Target
from tests.support.onnx_models import model, node, random, value

INPUT, OUTPUT, PACKED = StepArgumentKind.INPUT, StepArgumentKind.OUTPUT, StepArgumentKind.PACKED
MAIN = StepCode((StepArgument(PACKED, 0, 64), StepArgument(OUTPUT, 0, 8)), b"main code", 128, parallel=True)
CODE = TaskCode(MAIN, StepCode((StepArgument(INPUT, 1, 4),), b"prologue", 0, parallel=False), "tuned", "trace of x:\n")
KEY = code_key("task", "trace")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CodeCache:
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path / "cache"))
    return CodeCache.open()


def file_of(cache: CodeCache) -> Path:
    assert cache.folder is not None
    (path,) = cache.folder.iterdir()
    return path


@pytest.mark.parametrize("code", [CODE, TaskCode(MAIN, None, "as written", None)])
def test_code_is_bytes_and_back(code: TaskCode) -> None:
    assert from_bytes(to_bytes(code)) == code


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 7, b"\5" + b"\0" * 7 + b"hello", to_bytes(CODE)[:-1], to_bytes(CODE) + b"x"]
)
def test_other_bytes_are_no_code(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no machine code|described|Expecting"):
        from_bytes(data)


def test_code_is_found_again_and_only_by_its_key(cache: CodeCache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    assert CodeCache.open().get(KEY) == CODE
    assert cache.get(code_key("task", "another trace")) is None
    assert file_of(cache).stat().st_mode & 0o077 == 0
    assert file_of(cache).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("at", [0, 40, -1])
def test_damaged_code_is_not_run_and_is_made_anew(cache: CodeCache, at: int) -> None:
    cache.put(KEY, CODE)
    data = bytearray(file_of(cache).read_bytes())
    data[at] ^= 1
    file_of(cache).write_bytes(data)
    assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE


def test_a_file_that_others_can_write_or_a_link_is_not_trusted(cache: CodeCache, tmp_path: Path) -> None:
    cache.put(KEY, CODE)
    path = file_of(cache)
    path.chmod(0o620)
    assert cache.get(KEY) is None
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE


def test_a_folder_that_others_can_write_is_not_used(cache: CodeCache) -> None:
    assert cache.folder is not None
    cache.folder.chmod(0o777)
    with pytest.warns(CacheWarning, match="others can write"):
        assert CodeCache.open().folder is None


def test_another_users_folder_is_not_used(cache: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, CODE)
    monkeypatch.setattr(module.os, "geteuid", lambda: os.getuid() + 1)
    assert cache.get(KEY) is None
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert CodeCache.open().get(KEY) is None


def test_what_was_used_least_recently_goes_first(cache: CodeCache) -> None:
    for number in range(3):
        cache.put(code_key(str(number)), CODE)
    assert cache.folder is not None
    for number, second in enumerate((10, 30, 20)):
        os.utime(cache.folder / f"{code_key(str(number))}.kernel", (second, second))
    cache.remove_oldest(2 * file_size(cache))
    assert [cache.get(code_key(str(number))) is None for number in range(3)] == [True, False, False]


def file_size(cache: CodeCache) -> int:
    assert cache.folder is not None
    return next(cache.folder.iterdir()).stat().st_size


def test_a_network_is_built_once(cache: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    x, target = random(4, 4), Target.detect(threads=1)
    graph = ms.load_onnx(model([node("Neg", "X")], [value("X", x)])).graph
    first = kernels(graph, {}, target, cache)
    monkeypatch.setattr("metasched.graph.code.kernels.compile_task", None)
    assert kernels(graph, {}, target, cache) == first
