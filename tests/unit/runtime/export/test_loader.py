"""What the loader of exports finds out about the CPU."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

from metasched.runtime.export import loader
from metasched.runtime.export.instruction_sets import cpu_flags
from metasched.target import Target

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64", reason="exports are for Linux on x86-64"
)


def told_by_the_kernel() -> list[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line for line in lines if line.startswith("flags")).split(":")[1].split()


def test_what_was_made_here_is_loaded_here() -> None:
    loader._require("x86_64", cpu_flags(Target.detect()))


def test_the_cpu_tells_what_the_kernel_tells() -> None:
    told = told_by_the_kernel()
    assert [flag for flag in loader._UNTOLD if flag in told and not loader._cpu_tells(flag)] == []
    assert not loader._cpu_tells("time_travel")


def test_where_the_kernel_does_not_name_a_set_the_cpu_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a version before the set, or any of one that is never told."""
    monkeypatch.setattr(loader.Path, "read_text", lambda _: "flags\t\t: avx avx2\n")
    answers: dict[tuple[int, int], tuple[int, ...]] = {(0, 0): (7, 0, 0, 0), (7, 0): (1, 0, 1 << 8, 0)}
    answers[7, 1] = (1 << 23, 0, 0, 0)
    monkeypatch.setattr(loader, "_cpuid", lambda *asked: answers[asked])
    loader._require("x86_64", ["avx2", "avx_ifma", "gfni"])
    with pytest.raises(ImportError, match="this CPU lacks avx_vnni, avx512f"):
        loader._require("x86_64", ["avx2", "avx_vnni", "gfni", "avx512f"])


@pytest.mark.parametrize("answers", [{(0, 0): (6, 0, 0, 0)}, {(0, 0): (7, 0, 0, 0), (7, 0): (0, 0, 0, 0)}])
def test_an_old_cpu_is_not_asked_for_what_it_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, answers: dict[Any, Any]
) -> None:
    monkeypatch.setattr(loader, "_cpuid", lambda *asked: answers[asked])
    assert not loader._cpu_tells("avx_vnni")
