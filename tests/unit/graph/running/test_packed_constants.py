"""Constants of a compiled network: let go of, and made again where somebody asks."""

from __future__ import annotations

import gc
import weakref

import numpy as np

import metasched as ms
from metasched.graph.code.choices import Choice, ScheduleOrigin
from tests.support.onnx_models import model, node, random, value

X, W = random(4, 96), random(96, 176, seed=1)


def test_what_passes_computed_is_let_go_and_made_again() -> None:
    nodes = [node("Exp", "W", "E"), node("MatMul", "X E"), node("Add", "Y B", "Z")]
    net = ms.load_onnx(model(nodes, [value("X", X)], ("Z",), {"W": W, "B": random(176)}))
    net.choices = {key: Choice(None, ScheduleOrigin.AS_WRITTEN) for key in net.optimised.tasks}
    before = {name: array.copy() for name, array in net.optimised.constants.items()}
    (large,) = (name for name, array in before.items() if array.nbytes == W.nbytes)
    computed = weakref.ref(net.optimised.constants[large])
    assert large not in net.graph.constants
    result = net(X)
    np.testing.assert_allclose(result, X @ np.exp(W) + random(176), rtol=1e-4, atol=1e-4)
    gc.collect()
    assert computed() is None
    after = net.optimised.constants
    assert list(after) == list(before)
    assert len(after) == len(before)
    assert net.optimised.weight_bytes == sum(array.nbytes for array in before.values())
    assert "nowhere" not in after
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    assert [array.nbytes for array in after.values()] == [array.nbytes for array in before.values()]
    assert dict(after.items()).keys() == before.keys()
    np.testing.assert_array_equal(net(X), result)
