"""Models' messages without their large weights: the same models as with them."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import metasched as ms
from metasched.graph.reading import weights_in_file
from metasched.graph.reading.mapped_files import message_of_file, pages_of
from metasched.graph.reading.weights_in_file import LEAST_BYTES, cut
from tests.support.onnx_models import model, node, random, value

X, LARGE, SMALL = random(4, 128), random(128, 256, seed=1), random(128, 16, seed=2)


def deep() -> Any:
    """Weights of the graph, of a node's attribute, and of a graph in a node."""
    inner = helper.make_graph([], "inner", [], [], [numpy_helper.from_array(LARGE, "V")])
    constant = helper.make_node("Constant", [], ["C"], value=numpy_helper.from_array(LARGE + 1, "C"))
    branch = helper.make_node("If", ["B"], ["D"], then_branch=inner, else_branch=inner)
    return model([node("MatMul", "X W"), constant, branch], [value("X", X)], constants={"W": LARGE, "S": SMALL})


def opened(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def whole(message: Any, places: Any, data: bytes) -> Any:
    """A message with its weights put back."""
    for field, held in message.ListFields():
        if field.name == "raw_data" and held in places:
            offset, length = places[held]
            message.raw_data = data[offset : offset + length]
        elif field.message_type is not None:
            for part in [held] if hasattr(held, "ListFields") else held:
                whole(part, places, data)
    return message


def test_a_model_is_what_it_was_once_its_weights_are_put_back(tmp_path: Path) -> None:
    data = deep().SerializeToString()
    found = cut(opened(written(tmp_path / "m.onnx", data)), onnx.ModelProto.DESCRIPTOR)
    assert len(found.places) == 4
    assert len(found.data) < LEAST_BYTES
    message = onnx.ModelProto.FromString(found.data)
    assert message != deep()
    assert whole(message, found.places, data) == deep()


@pytest.mark.parametrize("damage", ["cut", "no message", "a length beyond the end", "a group"])
def test_what_is_no_message_stays_as_it_is(tmp_path: Path, damage: str) -> None:
    data = deep().SerializeToString()
    changed = {
        "cut": data[:-3],
        "no message": b"\xff" * LEAST_BYTES,
        "a length beyond the end": data + b"\x3a\xff\xff\x7f",
        "a group": data + b"\x0b",
    }[damage]
    found = cut(opened(written(tmp_path / "m.onnx", changed)), onnx.ModelProto.DESCRIPTOR)
    assert found.data == changed
    assert not found.places


def test_messages_in_messages_without_end_are_left_to_protobuf(tmp_path: Path) -> None:
    """A graph in an attribute of a node of a graph, and so on: what is deeper than protobuf reads is no model."""
    inner = b"\x0a" + b"\x80\x80\x08" + b"x" * (1 << 17)
    for _ in range(300):
        for tag in (0x32, 0x2A, 0x0A):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            length = len(inner)
            inner = bytes([tag, length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) + inner
    path = written(
        tmp_path / "m.onnx",
        b"\x3a" + bytes([len(inner) & 127 | 128, len(inner) >> 7 & 127 | 128, len(inner) >> 14]) + inner,
    )
    with pytest.raises(ms.NetworkError, match="no ONNX model"):
        ms.load_onnx(path)


def test_keys_are_those_of_one_reading(tmp_path: Path) -> None:
    """A file cannot have a key, as these are drawn when it is read."""
    path = written(tmp_path / "m.onnx", deep().SerializeToString())
    (_, first), (_, second) = (message_of_file(path, onnx.ModelProto.DESCRIPTOR) for _ in range(2))
    assert not first.places.keys() & second.places.keys()
    key = next(iter(first.places))
    assert first.weights(key) is not None
    assert second.weights(key) is None


def test_weights_of_a_model_that_is_converted_are_pages_of_its_file(tmp_path: Path) -> None:
    old = model([node("MatMul", "X W")], [value("X", X)], constants={"W": LARGE})
    old.opset_import[0].version = 11
    net = ms.load_onnx(written(tmp_path / "m.onnx", old.SerializeToString()))
    assert pages_of(net.graph.constants["W"]) is not None
    np.testing.assert_allclose(net(X), X @ LARGE, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opset", [11, 21])
def test_weights_in_a_node_are_those_of_the_file(opset: int, tmp_path: Path) -> None:
    """As exporters write constants that code computes."""
    constant = helper.make_node("Constant", [], ["C"], value=numpy_helper.from_array(LARGE, "C"))
    made = model([constant, node("MatMul", "X C")], [value("X", X)])
    made.opset_import[0].version = opset
    net = ms.load_onnx(written(tmp_path / "m.onnx", made.SerializeToString()))
    np.testing.assert_allclose(net(X), X @ LARGE, rtol=1e-4, atol=1e-4)


def test_an_empty_file_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ms.NetworkError, match="no ONNX model"):
        ms.load_onnx(written(tmp_path / "m.onnx", b""))


def test_long_lists_of_numbers_are_not_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attribute may list a million numbers, a field each. Weights behind it are found."""
    read = []
    varint = weights_in_file._Cutting._varint
    monkeypatch.setattr(
        weights_in_file._Cutting, "_varint", lambda self, at, end: read.append(at) or varint(self, at, end)
    )
    listed = helper.make_node("Trees", ["X"], ["Z"], numbers=list(range(100_000)), names=["LEAF"] * 50_000)
    data = model([listed], [value("X", X)], constants={"W": LARGE}).SerializeToString()
    found = cut(opened(written(tmp_path / "m.onnx", data)), onnx.ModelProto.DESCRIPTOR)
    assert len(found.places) == 1
    assert len(read) < 50_000
    assert whole(onnx.ModelProto.FromString(found.data), found.places, data) == onnx.ModelProto.FromString(data)
