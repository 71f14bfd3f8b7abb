"""Each check, on machines that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from metasched.doctor.checks import (
    cache,
    calibration,
    clock,
    instruction_sets,
    neighbours,
    packages,
    processor,
    threads,
)
from metasched.doctor.examination import CHECKS, examine
from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing
from metasched.support import other_work
from metasched.target import Target
from tests.support.targets import AVX512

HERE = Target.detect(threads=1)


def machine(root: Path, files: Mapping[str, str], target: Target = HERE) -> Examined:
    """One of which Linux says these things."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Examined(target, root)


def test_every_check_finds_something_here() -> None:
    found = dict(examine(Examined(HERE)))
    assert {name.replace(" ", "_") for name in found} == set(CHECKS.names())
    assert all(finding.found and finding.to_json()["state"] == finding.state.value for finding in found.values())
    assert all(finding.remedy for finding in found.values() if finding.state is Standing.PROBLEM)


def test_parts_of_packages_in_groups_that_nothing_reads_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = packages.check(Examined(HERE)).facts["parts"]
    assert isinstance(before, list)
    installed = tmp_path / "toy-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[console_scripts]\ntoy = toy:main\n[metasched.rules]\nlanes = toy:a\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = packages.check(Examined(HERE))
    assert found.state is Standing.GOOD
    assert found.facts["parts"] == sorted([*before, "metasched.rules: lanes (toy)"])
    (installed / "entry_points.txt").write_text("[metasched.rule]\nrows = toy:b\n")
    found = packages.check(Examined(HERE))
    assert found.state is Standing.NOTE
    assert found.found == "`rows` of toy is in the group `metasched.rule`, which nothing reads"
    assert "`metasched.rules`" in found.remedy


def test_the_processor_has_its_name(tmp_path: Path) -> None:
    found = processor.check(machine(tmp_path, {"proc/cpuinfo": "processor: 0\nmodel name\t: Fast One\n"}))
    assert found.found.startswith("Fast One (LLVM's name: ")


def test_a_quota_below_the_threads_is_a_problem(tmp_path: Path) -> None:
    found = threads.check(machine(tmp_path, {"sys/fs/cgroup/cpu.max": "50000 100000\n"}))
    assert found.state is Standing.PROBLEM
    assert "the time of 0.5 cores" in found.found


@pytest.mark.parametrize("limit", ["max 100000", "400000 100000", "", "7"])
def test_a_quota_that_is_large_enough_or_none(tmp_path: Path, limit: str) -> None:
    assert threads.check(machine(tmp_path, {"sys/fs/cgroup/cpu.max": limit})).state is not Standing.PROBLEM


def test_the_quota_of_older_containers(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/cpu/cpu.cfs_"
    found = threads.check(machine(tmp_path, {f"{folder}quota_us": "20000", f"{folder}period_us": "100000"}))
    assert found.facts["quota_cores"] == 0.2


def test_more_threads_than_cores_is_a_problem(tmp_path: Path) -> None:
    found = threads.check(Examined(HERE.with_threads(10_000), tmp_path))
    assert found.state is Standing.PROBLEM
    assert "NUMBA_NUM_THREADS=" in found.remedy


def test_amx_that_the_system_refuses_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for refused, state in ((True, Standing.PROBLEM), (False, Standing.GOOD)):
        monkeypatch.setattr(instruction_sets, "tiles_are_refused", lambda refused=refused: refused)
        assert instruction_sets.check(Examined(AVX512, tmp_path)).state is state


def test_a_machine_that_has_not_measured_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path))
    found = calibration.check(Examined(HERE))
    assert found.state is Standing.NOTE
    assert "metasched calibrate" in found.remedy


def test_a_cache_folder_that_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    assert cache.check(Examined(HERE)).state is Standing.GOOD
    tmp_path.chmod(0o777)
    assert cache.check(Examined(HERE)).remedy == f"chmod go-w {tmp_path}"


def watched(monkeypatch: pytest.MonkeyPatch, *, stolen: float = 0.0) -> Finding:
    """What is said of a second in which a process ran for .9 of it, another began, and the host took so much."""
    used = iter([{7: ("python", 1.0)}, {7: ("python", 1.9), 8: ("make", 0.05)}])
    times = iter([Times(1.0, 0.0), Times(2.0 - stolen, stolen)])
    clock = iter([5.0, 6.0])
    monkeypatch.setattr(other_work, "_used_seconds", lambda: next(used))
    monkeypatch.setattr(other_work, "psutil", SimpleNamespace(cpu_times=lambda: next(times)))
    monkeypatch.setattr(other_work, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(neighbours, "time", SimpleNamespace(sleep=lambda _: None))
    return neighbours.check(Examined(HERE))


class Times(NamedTuple):
    user: float
    steal: float


def test_a_busy_neighbour_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watched(monkeypatch)
    assert found.state is Standing.PROBLEM
    assert found.found == "others use 0.95 cores (python 90%, make 5%)"


def test_a_host_that_takes_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watched(monkeypatch, stolen=0.25)
    assert found.state is Standing.PROBLEM
    assert found.found == (
        "the host gave 25% of this machine's time to others; others use 0.95 cores (python 90%, make 5%)"
    )


class Unsteady:
    """A clock that is at its speed at one moment, and at half of it at the next."""

    def __init__(self, target: Target) -> None:
        self.count = 0

    def clock_hz(self) -> float:
        self.count += 1
        return 3e9 if self.count % 2 else 1.5e9


def test_an_unsteady_clock_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "CycleCounter", Unsteady)
    monkeypatch.setattr(clock, "_APART_S", 0.0)
    found = clock.check(machine(tmp_path, {clock._GOVERNOR: "powersave"}))
    assert found.state is Standing.PROBLEM
    assert "`powersave`" in found.found
