"""The loops run, and see what they are for; how fast they are is not asserted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import metasched as ms
from metasched.calibration import measuring, store
from metasched.calibration.calibration import CalibrationError
from metasched.calibration.core_loops import CoreLoops
from metasched.calibration.cycles import CycleCounter, Scratch
from metasched.calibration.memory_loops import MemoryLoops, memory_bytes
from metasched.calibration.probes import PROBES
from metasched.calibration.regions import Regions
from metasched.calibration.tensor_loops import TensorLoops, intrinsics_of
from metasched.cli.command import Console
from metasched.cli.main import main
from metasched.support.other_work import OtherWork

HERE = ms.Target.detect(threads=2)
SMALL = replace(HERE, l2=64 << 10, l3=2 << 20)


@pytest.fixture(scope="module")
def bench() -> measuring._Bench:
    """The loops of this machine, over little memory."""
    made = object.__new__(measuring._Bench)
    made.counter = CycleCounter(SMALL)
    made.regions = Regions(made.counter)
    scratch = Scratch(memory_bytes(SMALL.l3))
    made.core = CoreLoops(made.counter, scratch)
    made.memory = MemoryLoops(made.counter, made.regions, scratch)
    made.tensor = TensorLoops(made.counter)
    return made


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.constant)
def test_a_probe_gives_a_number(bench: measuring._Bench, probe: object) -> None:
    name = probe.constant  # type: ignore[attr-defined]
    found = measuring._MEASURE[name](bench, 2)
    assert math.isfinite(found)
    # A difference of two times may come to nothing; without that, nothing is no measurement.
    assert found >= 0 if probe.blur else found > 0  # type: ignore[attr-defined]


def test_there_is_a_loop_for_each_probe() -> None:
    assert set(measuring._MEASURE) == {probe.constant for probe in PROBES}


@pytest.mark.parametrize(("most", "counts"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (8, (1, 2, 4, 8))])
def test_the_numbers_of_threads_that_are_measured(most: int, counts: tuple[int, ...]) -> None:
    assert measuring.thread_counts(most) == counts


def test_only_this_machine_is_measured() -> None:
    with pytest.raises(CalibrationError, match="this machine can measure itself only"):
        measuring.measure(replace(HERE, name="another"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that is four times as slow to load, and measures itself at once."""
    measured = {probe.constant: probe.reference / (4 if probe.constant == "loads" else 1) for probe in PROBES}
    monkeypatch.setattr(measuring, "Scratch", lambda size: Scratch(4096))
    monkeypatch.setattr(
        measuring, "_MEASURE", {name: lambda bench, threads, value=value: value for name, value in measured.items()}
    )
    monkeypatch.setattr(measuring, "Watch", lambda: Beside(()))
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path))


class Beside:
    """Sees each of some numbers of cores in use in turn, and then none."""

    def __init__(self, cores: Iterable[float]) -> None:
        self._cores = iter(cores)

    def work_seen(self) -> OtherWork:
        used = next(self._cores, 0.0)
        return OtherWork(used, 0.0, (("cc1plus", used),))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("stolen", "repeated"), [(0.05, 0), (0.2, 1)])
def test_what_a_host_takes_all_the_time_is_no_reason(
    monkeypatch: pytest.MonkeyPatch, stolen: float, repeated: int
) -> None:
    """One that takes much for a while is waited for."""
    first = iter([OtherWork(0.0, stolen)])
    always = OtherWork(0.0, min(stolen, 0.05))
    watch = Mock(return_value=SimpleNamespace(work_seen=lambda: next(first, always)))
    monkeypatch.setattr(measuring, "Watch", watch)
    ms.calibrate(2)
    assert watch.call_count == measuring._ROUNDS + repeated


@pytest.mark.usefixtures("quick")
def test_rounds_beside_other_work_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Mock(return_value=Beside((1.9, 0.2, 0.6, 0.0)))
    monkeypatch.setattr(measuring, "Watch", watch)
    ms.calibrate(2)
    assert watch.call_count == measuring._ROUNDS + 2


@pytest.mark.usefixtures("quick")
def test_a_machine_that_is_busy_all_the_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside([0.1, 0.1, 0.1, *[1.9] * 50])
    monkeypatch.setattr(measuring, "Watch", lambda: beside)
    err = StringIO()
    assert main(["calibrate", "--threads", "2"], Console(StringIO(), err)) != 0
    assert "busy: in 21 of 24 rounds something else ran (others use 1.90 cores (cc1plus 190%))" in err.getvalue()
    assert "`metasched doctor`" in err.getvalue()
    assert store.load(HERE) is None


@pytest.mark.usefixtures("quick")
def test_what_was_measured_is_kept_and_used() -> None:
    found = ms.calibrate(2)
    assert found.target == HERE
    assert set(found.measured["l3_bytes"]) == {1, 2}
    assert found.clock_hz > 1e8
    assert store.load(HERE) == found
    assert ms.Task(ms.operator("matmul_nn", M=8, N=8, K=8), target=HERE).core.loads == 0.5


@pytest.mark.usefixtures("quick")
def test_it_need_not_be_kept() -> None:
    ms.calibrate(2, keep=False)
    assert store.load(HERE) is None


@pytest.mark.usefixtures("quick")
def test_the_command() -> None:
    out, err = StringIO(), StringIO()
    assert main(["calibrate", "--threads", "2"], Console(out, err)) == 0
    (loads,) = (line for line in out.getvalue().splitlines() if line.startswith("loads"))
    assert loads.split()[1:5] == ["2", "0.5", "0.487", "1.95"]
    assert f"kept in {store.calibration_file(HERE)}" in err.getvalue()


@pytest.mark.usefixtures("quick")
def test_the_command_for_machines() -> None:
    out = StringIO()
    assert main(["calibrate", "--threads", "2", "--json", "--dry-run"], Console(out, StringIO())) == 0
    *rows, last = (json.loads(line) for line in out.getvalue().splitlines())
    assert {row["constant"] for row in rows} == {probe.constant for probe in PROBES} | set(intrinsics_of(HERE))
    assert next(row for row in rows if row["constant"] == "loads")["here"] == 0.5
    assert last["file"] is None
    assert store.load(HERE) is None
