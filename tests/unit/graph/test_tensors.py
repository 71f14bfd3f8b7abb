"""Arrays of a model's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import metasched as ms
from metasched.dtypes import DType
from metasched.graph.errors import NetworkError
from metasched.graph.tensors import array_of, small_bits, small_integers
from tests.support.onnx_models import model, node, value

SMALL = {"INT4": (-8, 8), "UINT4": (0, 16), "INT2": (-2, 2), "UINT2": (0, 4)}
ROWS, COLUMNS, BLOCK = 8, 3, 4


def drawn(kind: str, *shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """The first elements are the ends of the type's range."""
    low, end = SMALL[kind]
    made = np.random.default_rng(seed).integers(low, end, shape)
    made.reshape(-1)[:2] = low, end - 1
    return made


def tensor(kind: str, values: np.ndarray[Any, Any], name: str = "W") -> Any:
    if not hasattr(TensorProto, kind):
        pytest.skip(f"the installed onnx does not know {kind}")
    return helper.make_tensor(name, getattr(TensorProto, kind), values.shape, values.reshape(-1))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int64])
@pytest.mark.parametrize("raw", [False, True])
def test_integers_are_read_from_the_field_of_their_type(dtype: Any, raw: bool) -> None:
    values = np.array([[0, 1, np.iinfo(dtype).max]], dtype)
    made = numpy_helper.from_array(values, "W")
    if not raw:
        made = helper.make_tensor("W", made.data_type, values.shape, values.reshape(-1).tolist())
        assert not made.HasField("raw_data")
    type_, found = array_of(made, None)
    assert type_.dtype.numpy == dtype
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("where", ["field", "raw", "file"])
def test_integers_of_a_part_of_a_byte(kind: str, where: str, tmp_path: Path) -> None:
    values = drawn(kind, 3, 7)
    made = tensor(kind, values)
    packed = bytes(made.int32_data)
    if where != "field":
        del made.int32_data[:]
    if where == "raw":
        made.raw_data = packed
    if where == "file":
        (tmp_path / "weights").write_bytes(b"xy" + packed)
        made.data_location = TensorProto.EXTERNAL
        for key, said in {"location": "weights", "offset": "2", "length": str(len(packed))}.items():
            made.external_data.add(key=key, value=said)
    assert small_bits(made) == int(kind[-1])
    type_, found = small_integers(made, tmp_path)
    assert type_.dtype is (DType.U8 if kind.startswith("U") else DType.I8)
    np.testing.assert_array_equal(found, values)
    assert found.dtype == type_.dtype.numpy


def test_packed_bytes_that_are_too_few_are_refused() -> None:
    made = tensor("INT4", drawn("INT4", 3, 7))
    made.dims[0] = 4
    with pytest.raises(NetworkError, match="`W` has 11 elements"):
        small_integers(made, None)


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_weights_of_four_bits_are_read_where_they_are_quantised(kind: str) -> None:
    w, zeros = drawn(kind, ROWS, COLUMNS), drawn(kind, ROWS // BLOCK, COLUMNS, seed=1)
    scales = np.random.default_rng(2).random(zeros.shape).astype(np.float32)
    x = np.random.default_rng(3).standard_normal((2, ROWS)).astype(np.float32)
    nodes = [node("DequantizeLinear", "W S Z", "D", axis=0, block_size=BLOCK), node("MatMul", "X D")]
    whole = model(nodes, [value("X", x)], constants={"S": scales}, opset=21)
    whole.graph.initializer.extend([tensor(kind, w), tensor(kind, zeros, "Z")])
    wanted = x @ ((w - zeros.repeat(BLOCK, 0)) * scales.repeat(BLOCK, 0))
    np.testing.assert_allclose(ms.load_onnx(whole)(X=x), wanted, rtol=1e-5, atol=1e-4)


def test_weights_of_four_bits_are_nothing_else() -> None:
    whole = model([node("Transpose", "W")], [], opset=21)
    whole.graph.initializer.append(tensor("INT4", drawn("INT4", 2, 4)))
    with pytest.raises(ms.RefusedModel, match="integers of 4 bits are read by DequantizeLinear alone, as weights"):
        ms.load_onnx(whole)
    shown = onnx.helper.make_model(
        helper.make_graph([], "g", [], [onnx.ValueInfoProto(name="W")], [tensor("INT4", drawn("INT4", 2))])
    )
    with pytest.raises(ms.NetworkError, match="the output W is of parts of bytes"):
        ms.load_onnx(shown)
