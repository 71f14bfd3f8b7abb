"""A model is data: what is damaged is said, and nothing outside of its folder is read."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, value

X, W = random(3), random(3, seed=1)


def small() -> Any:
    return model([node("Add", "X W")], [value("X", X)], constants={"W": W})


def with_external(location: str, **more: int) -> Any:
    whole = small()
    tensor = whole.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, said in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(said))
    return whole


def saved(folder: Path, whole: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "m.onnx"
    path.write_bytes(whole.SerializeToString())
    return path


def test_a_model_is_a_path_or_bytes_or_a_message(tmp_path: Path) -> None:
    path = saved(tmp_path, small())
    for given in (path, str(path), path.read_bytes(), small()):
        np.testing.assert_array_equal(ms.load_onnx(given)(X), X + W)


def test_a_model_is_a_binary_file_that_is_open(tmp_path: Path) -> None:
    path = saved(tmp_path, small())
    np.testing.assert_array_equal(ms.load_onnx(io.BytesIO(path.read_bytes()))(X), X + W)
    with path.open("rb") as file:
        net = ms.load_onnx(file)
    np.testing.assert_array_equal(net(X), X + W)
    with pytest.raises(ms.NetworkError, match=r"gives str, and not bytes: open it as binary, open\(path, 'rb'\)"):
        ms.load_onnx(io.StringIO("model"))
    path = saved(tmp_path, with_external("w.bin"))
    with path.open("rb") as file, pytest.raises(ms.NetworkError, match="of no folder: load it by its path"):
        ms.load_onnx(file)


def test_external_data_is_read_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 8 + W.tobytes())
    path = saved(tmp_path, with_external("w.bin", offset=8, length=12))
    np.testing.assert_array_equal(ms.load_onnx(path)(X), X + W)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "", "link.bin", "sub/../../w.bin", "folder", "a\\b"])
def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    folder = tmp_path / "model"
    path = saved(folder, with_external(location))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "sub").mkdir()
    (folder / "folder").mkdir()
    (folder / "a\\b").write_bytes(W.tobytes())
    with pytest.raises(ms.NetworkError, match="from the model's folder only"):
        ms.load_onnx(path)


def test_external_data_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ms.NetworkError, match="cannot be read"):
        ms.load_onnx(saved(tmp_path, with_external("w.bin")))
    with pytest.raises(ms.NetworkError, match="the model is of no folder"):
        ms.load_onnx(with_external("w.bin"))


@pytest.mark.parametrize("more", [{"offset": 4}, {"length": 400}, {"offset": -4}, {"length": 8}])
def test_sizes_of_external_data_are_checked(tmp_path: Path, more: dict[str, int]) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    with pytest.raises(ms.NetworkError, match=r"w\.bin, which has 12"):
        ms.load_onnx(saved(tmp_path, with_external("w.bin", **more)))


def test_sizes_are_checked_before_memory_is_taken() -> None:
    whole = small()
    whole.graph.initializer[0].dims[:] = [1 << 40, 1 << 20]
    with pytest.raises(ms.NetworkError, match="has 12 bytes, and f32"):
        ms.load_onnx(whole)
    tensor = whole.graph.initializer[0]
    tensor.ClearField("raw_data")
    with pytest.raises(ms.NetworkError, match="has 0 elements, and f32"):
        ms.load_onnx(whole)


def test_buffers_that_no_machine_has_are_refused() -> None:
    huge = np.broadcast_to(np.float32(0), (1 << 18, 1 << 18))
    column = np.broadcast_to(np.float32(0), (1 << 18, 1))
    whole = model([node("Add", "X Z")], [value("X", huge), value("Z", column)])
    with pytest.raises(ms.NetworkError, match="this machine has"):
        ms.load_onnx(whole)(huge, column)


@pytest.mark.parametrize("size", [10, 40, 60])
def test_files_that_end_too_early_are_damaged(size: int) -> None:
    with pytest.raises(ms.NetworkError):
        ms.load_onnx(small().SerializeToString()[:size])


@pytest.mark.parametrize("data", [b"", b"hello", b"\xff" * 100])
def test_files_of_something_else_are_no_models(data: bytes) -> None:
    with pytest.raises(ms.NetworkError, match="no ONNX model"):
        ms.load_onnx(data)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ms.NetworkError, match="No such file"):
        ms.load_onnx(tmp_path / "m.onnx")
    with pytest.raises(ms.NetworkError, match="and not int"):
        ms.load_onnx(3)


def test_hundreds_of_damaged_files_are_errors_and_nothing_else() -> None:
    """Bytes changed at random: the file is read, refused or wrong, and never another exception."""
    data, generator = small().SerializeToString(), np.random.default_rng(0)
    read = 0
    for _ in range(400):
        changed = bytearray(data)
        for place in generator.integers(0, len(data), 2):
            changed[place] = generator.integers(0, 256)
        try:
            ms.load_onnx(bytes(changed))
            read += 1
        except ms.NetworkError:
            pass
    assert 0 < read < 400


def test_without_the_package_onnx_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path))  # a network that is kept there needs no model
    data = small().SerializeToString()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ms.NetworkError, match=r"pip install 'metasched\[onnx\]'"):
        ms.load_onnx(data)
