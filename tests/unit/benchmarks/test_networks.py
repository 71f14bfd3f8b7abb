"""Networks are compared on the same inputs, and what is asked for is there."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.__main__ import _sizes
from benchmarks.networks import difference, network_cases, write_tiny
from benchmarks.registry import OptionError, Options
from benchmarks.sides import SideProcess
from tests.support.onnx_models import model, node, random, value


def test_differences_are_told_beside_the_largest_element() -> None:
    expected = np.float32([[1, -4]])
    assert difference(np.float32([[1.5, -4]]), expected) == {
        "largest_difference": 0.5,
        "largest_expected": 4.0,
        "relative": 0.125,
    }
    assert difference(np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32))["relative"] == 0
    with pytest.raises(AssertionError, match="shapes"):
        difference(expected[0], expected)


def test_a_model_of_a_file_has_the_inputs_beside_it_or_random_ones(tmp_path: Path) -> None:
    file = tmp_path / "small.onnx"
    onnx.save(model([node("Relu", "A", "Y")], [value("A", random(2, 3))]), file)
    (case,) = network_cases(Options(model=(file,)), tmp_path)
    assert (case.name, case.in_torch) == ("small", False)
    with np.load(case.inputs) as made:
        assert made["A"].shape == (2, 3)
    np.savez(file.with_suffix(".npz"), A=random(2, 3))
    (again,) = network_cases(Options(model=(file,)), tmp_path)
    assert again.inputs == file.with_suffix(".npz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(model=(Path("none.onnx"),)), "there is no file none.onnx"),
        (Options(networks=("resnet5",), torch_python="python"), "no network `resnet5`: there are mobilenet_v2"),
        (Options(), "made with PyTorch: give --torch-python PATH"),
    ],
)
def test_options_that_cannot_be_used_are_said(options: Options, message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=message):
        list(network_cases(options, tmp_path))


def test_sizes_are_read() -> None:
    assert _sizes("batch=1, seq=128") == {"batch": 1, "seq": 128}
    for wrong in ("batch", "batch=x", "=1"):
        with pytest.raises(argparse.ArgumentTypeError, match="does not say sizes"):
            _sizes(wrong)


def test_our_side_says_what_its_start_took_and_answers(tmp_path: Path) -> None:
    model_file, inputs, result = tmp_path / "tiny.onnx", tmp_path / "tiny.npz", tmp_path / "result.npz"
    write_tiny(model_file, inputs)
    spec = {"model": str(model_file), "inputs": str(inputs), "result": str(result), "cache": str(tmp_path / "cache")}
    spec |= {"threads": 1, "sizes": {}, "precision": "f32", "db": None}
    command = [sys.executable, "-m", "benchmarks.network_side", json.dumps(spec)]
    with SideProcess("tiny", command, threads=1) as side:
        facts = side.answer()
        assert facts["kernels"] == facts["tasks"] == 1
        assert facts["resident_bytes"] > facts["file_bytes"] > 0
        assert all(seconds > 0 for seconds in side.measure())
        assert side.ask("profile")["kernels"][0]["ms"] > 0
    with np.load(result) as made:
        np.testing.assert_array_equal(made["arr_0"], np.zeros(4, np.float32))
