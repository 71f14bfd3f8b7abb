"""A folder with an exported network as its loader sees it: what it refuses, and what it says of calls."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import metasched as ms
from metasched.runtime.export.network_loader import ExportedNetwork, NumberKind, without_padding

MODEL = onnx.parser.parse_model(
    """<ir_version: 10, opset_import: ["": 22]>
    m (float[seq, 4] x, float[seq] bias, float[4] kept) => (y, next)
    <float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}> {
        z = MatMul(x, w)
        axis = Constant <value_ints = [1]> ()
        column = Unsqueeze(bias, axis)
        y = Add(z, column)
        first = Constant <value_ints = [0]> ()
        sums = ReduceSum <keepdims = 0> (x, first)
        next = Add(kept, sums)
    }"""
)


def inputs(seq: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seq)
    return rng.random((seq, 4), np.float32), rng.random(seq, np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = ms.load_onnx(MODEL, seq=(1, 6), states={"kept": "next"}, target=ms.Target.detect(threads=1))
    return net.export(tmp_path_factory.mktemp("exported") / "net")


@pytest.fixture
def run(folder: Path) -> ExportedNetwork:
    return ExportedNetwork(folder)


def test_what_is_open_of_a_type_is_a_text(run: ExportedNetwork) -> None:
    floats = np.dtype(np.float32)
    assert run.inputs == [("x", floats, ("seq", 4)), ("bias", floats, ("seq",))]
    assert run.outputs == [("y", floats, ("seq", 3))]
    assert {name: array.shape for name, array in run.state.items()} == {"kept": (4,)}


def test_a_session_and_a_reset_begin_with_zeros(run: ExportedNetwork) -> None:
    x, bias = inputs(3)
    run(x, bias)
    other = run.session()
    assert not other.state["kept"].any()
    other(bias=bias, x=x)
    other(x, bias=bias)
    np.testing.assert_allclose(other.state["kept"], 2 * x.sum(0), rtol=1e-6)
    np.testing.assert_allclose(run.state["kept"], x.sum(0), rtol=1e-6)
    run.reset()
    assert not run.state["kept"].any()
    assert other.state["kept"].any()


X, BIAS = inputs(3)


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((), {}, r"m takes \(x, bias\), and 0 inputs are given"),
        ((X,), {}, r"m takes \(x, bias\), and 1 input is given"),
        ((X, BIAS, BIAS), {}, r"and 3 inputs are given"),
        ((X,), {"x": X}, r"`x` is no input, or is given twice"),
        ((X, BIAS), {"mask": X}, r"`mask` is no input, or is given twice"),
    ],
)
def test_as_many_inputs_as_there_are(
    run: ExportedNetwork, given: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        run(*given, **named)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((X, BIAS[:2]), "`seq` is 3 in one input, and 2 in `bias`"),
        ((X[None], BIAS), r"`x` has 3 dimensions; m takes \['seq', 4\]"),
        (inputs(7), "m was not exported for these sizes: {'seq': 7}; it takes `seq` from 1 to 6"),
        ((X.astype(np.float64), BIAS), r"`x` is float64\(3, 4\); m takes float32\(3, 4\)"),
        ((X[:, :3], BIAS), r"`x` is float32\(3, 3\); m takes float32\(3, 4\)"),
    ],
)
def test_what_inputs_are_not(run: ExportedNetwork, given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(*given)
    assert not run.state["kept"].any(), "a call that is refused leaves the state as it is"


@pytest.mark.parametrize(
    ("file", "message"),
    [("code.bin", "damaged"), ("weights.bin", "has not the"), ("network.json", "network.json is damaged: ")],
)
def test_damaged_and_missing_files_are_not_run(folder: Path, tmp_path: Path, file: str, message: str) -> None:
    copied = shutil.copytree(folder, tmp_path / "net")
    (copied / file).write_bytes((copied / file).read_bytes()[:-1])
    with pytest.raises(ImportError, match=message):
        ExportedNetwork(copied)
    (copied / file).unlink()
    with pytest.raises(ImportError, match=f"net has no `{file}`; network.py reads network.json, code.bin, weights.bin"):
        ExportedNetwork(copied)


def test_a_machine_that_cannot_run_it_is_told(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "net")
    said = json.loads((copied / "network.json").read_text())
    (copied / "network.json").write_text(json.dumps({**said, "features": ["avx2", "avx9000"]}))
    with pytest.raises(ImportError, match="this CPU lacks avx9000"):
        ExportedNetwork(copied)
    (copied / "network.json").write_text(json.dumps({**said, "machine": "riscv64"}))
    with pytest.raises(ImportError, match="this code is for Linux on riscv64"):
        ExportedNetwork(copied)


def test_a_result_keeps_the_elements_of_a_calls_sizes() -> None:
    """A dimension that joins several is cut in each of them."""
    array = np.arange(4 * 6).reshape(4, 6)
    assert (without_padding(array, [[(4, 2)], [(6, 5)]]) == array[:2, :5]).all()
    joined = without_padding(array, [[(4, 3)], [(2, 1), (3, 2)]])
    assert joined.tolist() == array[:3, :2].tolist()
    assert joined.flags.c_contiguous


def test_a_result_without_padding_is_itself() -> None:
    array = np.zeros((2, 3))
    assert without_padding(array, [[(2, 2)], [(3, 3)]]) is array


@pytest.mark.parametrize(
    ("kind", "number", "dtype"),
    [
        (NumberKind.WHOLE, 3, np.int64),
        (NumberKind.FLOAT, 3.0, np.float64),
        (NumberKind.INVERSE, 1 / 3, np.float64),
        (NumberKind.INVERSE32, float(np.float32(1 / 3)), np.float64),
    ],
)
def test_what_a_number_is_of_a_sum_of_sizes(kind: NumberKind, number: float, dtype: type) -> None:
    assert (kind.convert(Fraction(3)), type(kind.convert(Fraction(3))), kind.dtype) == (number, type(number), dtype)
