"""Large weights are pages of their file, and the same numbers as when they are copied."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import metasched as ms
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.reading.mapped_files import let_pages_go, mapped_array, pages_of
from tests.support.onnx_models import model, node, random, value

X, W = random(4, 128), random(128, 256, seed=1)


def saved(path: Path, *, external: bool) -> ms.Network:
    nodes = [node("MatMul", "X W", "H"), node("MatMul", "X V", "G"), node("Add", "H G", "S"), node("Add", "S B")]
    constants = {"W": W, "V": W, "B": random(256)}
    onnx.save(model(nodes, [value("X", X)], ("Y",), constants), path, save_as_external_data=external, size_threshold=0)
    return as_written(ms.load_onnx(path))


def as_written(net: ms.Network) -> ms.Network:
    net.choices = {key: Choice(None, ScheduleOrigin.AS_WRITTEN) for key in net.optimised.tasks}
    return net


@pytest.mark.parametrize("external", [False, True])
def test_large_weights_are_pages_of_their_file_and_small_ones_are_not(tmp_path: Path, external: bool) -> None:
    net = saved(tmp_path / "m.onnx", external=external)
    constants = net.graph.constants
    assert {name for name, array in constants.items() if pages_of(array) is not None} == {"W", "V"}
    wanted = 2 * (X @ W) + random(256)
    for _ in range(2):
        for name in ("W", "V"):
            np.testing.assert_array_equal(constants[name], W)
        np.testing.assert_allclose(net(X), wanted, rtol=1e-4, atol=1e-4)
        let_pages_go(constants.values())


def test_a_model_of_bytes_has_copies() -> None:
    net = as_written(ms.load_onnx(model([node("MatMul", "X W")], [value("X", X)], constants={"W": W})))
    assert pages_of(net.graph.constants["W"]) is None
    np.testing.assert_allclose(net(X), X @ W, rtol=1e-4, atol=1e-4)


def test_a_part_of_a_file_at_any_offset(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"abc" + W.tobytes() + b"xyz")
    found = mapped_array(path, W.dtype, W.size, 3)
    np.testing.assert_array_equal(found, W.reshape(-1))
    assert not found.flags.writeable
    assert pages_of(found.reshape(256, 128)) is pages_of(found) is not None
