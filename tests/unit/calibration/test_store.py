"""Calibrations are kept by machine, whole or not at all, and used from then on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import metasched as ms
from metasched import operators
from metasched.calibration import store
from metasched.calibration.calibration import FORMAT, CalibrationError
from metasched.cost.core import DEFAULT_CORE
from metasched.search.task import Task
from tests.support.calibrations import TARGET, made_up


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_without_a_calibration_the_constants_are_the_defaults() -> None:
    assert store.load(TARGET) is None
    assert store.core_of(TARGET) is DEFAULT_CORE


def test_it_is_kept_by_machine_for_any_number_of_threads(folder: Path) -> None:
    calibration = made_up(l3_bytes=4.0)
    path = store.save(calibration)
    assert [path] == list(folder.iterdir())
    assert store.load(TARGET.with_threads(2)) == calibration
    assert store.core_of(TARGET.with_threads(1)).l3_bytes == 4 * DEFAULT_CORE.l3_bytes
    for other in (replace(TARGET, name="another"), TARGET.without({"fma"}), replace(TARGET, l3=1 << 20)):
        assert store.core_of(other) is DEFAULT_CORE


def test_a_newer_one_takes_its_place(folder: Path) -> None:
    store.save(made_up())
    store.save(made_up(loads=0.5))
    assert store.core_of(TARGET).loads == DEFAULT_CORE.loads / 2
    assert len(list(folder.iterdir())) == 1


def test_a_write_that_fails_leaves_the_old_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(made_up(loads=0.5))

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(CalibrationError, match=r"No space left on device\n  hint: set METASCHED_CACHE"):
        store.save(made_up(loads=2.0))
    monkeypatch.undo()
    monkeypatch.setenv("METASCHED_CACHE", str(folder))
    assert store.core_of(TARGET).loads == DEFAULT_CORE.loads / 2
    assert len(list(folder.iterdir())) == 1


def test_a_damaged_file_is_an_error_that_says_what_to_do() -> None:
    path = store.save(made_up())
    path.write_text(path.read_text()[:100])
    with pytest.raises(CalibrationError, match=r"(?s)calibration-.*it is no calibration.*`metasched calibrate`"):
        store.core_of(TARGET)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CalibrationError, match="cannot be read"):
        store.core_of(TARGET)


def test_a_file_of_another_machine_is_an_error() -> None:
    path = store.save(made_up())
    path.write_text(replace(made_up(), target=replace(TARGET, l2=1)).dumps())
    with pytest.raises(CalibrationError, match="it is of another machine"):
        store.core_of(TARGET)


def test_one_of_an_older_version_is_not_used_and_said_so() -> None:
    path = store.save(made_up(loads=0.5))
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', '"format": 0'))
    with pytest.warns(ms.CacheWarning, match="another version of metasched.*\n  hint: `metasched calibrate`"):
        assert store.core_of(TARGET) is DEFAULT_CORE
    with pytest.warns(ms.CacheWarning, match="another version of metasched"):
        assert store.usable_calibration(TARGET) is None
    with pytest.warns(ms.CacheWarning) as warned:
        Task(operators.load("matmul_nn"), target=TARGET)
    assert {warning.filename for warning in warned} == {__file__}, "who called, however deep it was met"


def test_a_folder_that_cannot_be(folder: Path) -> None:
    folder.write_text("a file")
    assert store.core_of(TARGET) is DEFAULT_CORE
    with pytest.raises(CalibrationError, match="there can be no"):
        store.save(made_up())


def test_a_task_and_a_guess_are_by_the_calibration() -> None:
    program = operators.load("matmul_nn", M=64, N=64, K=64)
    before = Task(program, target=TARGET)
    store.save(made_up(parallel_launch=8.0))
    after = Task(program, target=TARGET)
    assert after.core == store.core_of(TARGET) != before.core == DEFAULT_CORE


def test_a_search_belongs_to_the_constants_that_it_began_with() -> None:
    program = operators.load("matmul_nn", M=64, N=64, K=64)
    before = Task(program, target=TARGET).fingerprint
    store.save(made_up(loads=1.05))
    assert Task(program, target=TARGET).fingerprint == before
    store.save(made_up(loads=0.5))
    assert Task(program, target=TARGET).fingerprint != before
    assert Task(program, target=TARGET, core=DEFAULT_CORE).fingerprint == before
