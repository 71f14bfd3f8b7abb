"""A calibration as a value and as text."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from metasched.calibration.calibration import CalibrationError, MachineCalibration, OldCalibration
from metasched.cost.core import DEFAULT_CORE
from tests.support.calibrations import made_up


def test_its_text_is_read_back() -> None:
    calibration = made_up(l3_bytes=3.0)
    assert MachineCalibration.loads(calibration.dumps()) == calibration
    assert MachineCalibration.loads(calibration.dumps()).core(2) == calibration.core(2) != DEFAULT_CORE


def test_constants_are_by_the_nearest_number_of_threads() -> None:
    calibration = made_up()
    by_threads = {1: 96.0, 2: 16.0, 4: 8.0}
    calibration = replace(calibration, measured={**calibration.measured, "l3_bytes": by_threads})
    found = [calibration.nearest("l3_bytes", n).value for n in (1, 2, 3, 4, 64)]
    assert found == [96.0, 16.0, 8.0, 8.0, 8.0]
    assert calibration.core(1).l3_bytes > calibration.core(2).l3_bytes > calibration.core(4).l3_bytes


def test_a_calibration_of_one_thread_says_nothing_against_the_defaults_of_more() -> None:
    calibration = made_up()
    alone = {name: {1: found[1]} for name, found in calibration.measured.items()}
    assert replace(calibration, measured=alone).core(8) == DEFAULT_CORE


def test_the_rows_of_its_table() -> None:
    rows = {probe.constant: numbers for probe, *numbers in made_up(loads=0.5).rows()}
    assert rows["loads"] == [2.0, 1.0, 1.95, 0.975]
    assert rows["stores"][0] == rows["stores"][1] == DEFAULT_CORE.stores


def test_tensor_intrinsics_are_kept_and_used() -> None:
    calibration = made_up()
    slow = {"dot_u8i8_vnni": {1: 1.0}, "tile_bf16_amx": {1: 17.0}}
    calibration = MachineCalibration.loads(
        replace(calibration, measured={**calibration.measured, **slow, "of another package": {1: 1.0}}).dumps()
    )
    assert set(calibration.measured) == {*made_up().measured, *slow}
    assert calibration.core(2) == replace(DEFAULT_CORE, throughputs=(("dot_u8i8_vnni", 1.0),))
    (*_, (probe, *numbers)) = calibration.rows()
    assert (probe.constant, numbers) == ("tile_bf16_amx", [16.0, 16.0, 16.0, 17.0])


def changed(**fields: Any) -> str:
    return json.dumps({**json.loads(made_up().dumps()), **fields})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        "not JSON",
        made_up().dumps()[:-40],
        changed(target="a machine"),
        changed(clock_hz=-1),
        changed(clock_hz="fast"),
        changed(measured={}),
        changed(measured={**json.loads(made_up().dumps())["measured"], "loads": {"1": float("nan")}}),
        changed(measured={**json.loads(made_up().dumps())["measured"], "loads": {"0": 1.0}}),
        changed(measured={**json.loads(made_up().dumps())["measured"], "loads": {}}),
        changed(measured={**json.loads(made_up().dumps())["measured"], "loads": 2}),
    ],
)
def test_a_damaged_text_is_an_error(text: str) -> None:
    with pytest.raises(CalibrationError, match="it is no calibration") as caught:
        MachineCalibration.loads(text)
    assert not isinstance(caught.value, OldCalibration)


def test_the_text_of_another_version_is_told_apart() -> None:
    with pytest.raises(OldCalibration, match="another version of metasched"):
        MachineCalibration.loads(changed(format=0))
