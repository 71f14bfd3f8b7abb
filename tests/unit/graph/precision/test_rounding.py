"""Quantised networks without rounding."""

from __future__ import annotations

import numpy as np

import metasched as ms
from metasched.graph.precision.rounding import without_rounding
from tests.support.graphs import by_reference
from tests.support.onnx_models import model, node, value

X = np.array([[-1.0, 0.26, 0.74, 3.0]], np.float32)
SCALE = np.float32(0.5)


def network(scale: np.float32 = SCALE, zero: int = 2) -> ms.Network:
    constants = {"s": SCALE, "z": np.array(2, np.uint8), "t": scale, "u": np.array(zero, np.uint8)}
    nodes = [node("QuantizeLinear", "X s z", "q"), node("DequantizeLinear", "q t u", "d"), node("Neg", "d")]
    return ms.load_onnx(model(nodes, [value("X", X)], constants=constants))


def test_what_is_rounded_to_bytes_is_only_kept_in_their_range() -> None:
    net = network()
    (rounded,) = by_reference(net.graph, {"X": X * 100})
    (plain,) = by_reference(without_rounding(net.graph), {"X": X * 100})
    np.testing.assert_array_equal(rounded, -np.array([[-1.0, 26, 74, 126.5]], np.float32))
    np.testing.assert_array_equal(plain, -np.clip(X * 100, -1.0, 126.5))
    (small,) = by_reference(without_rounding(net.graph), {"X": X})
    np.testing.assert_array_equal(small, -X)


def test_another_scale_or_zero_point_is_no_round_trip() -> None:
    for net in (network(np.float32(0.25)), network(zero=3)):
        assert str(without_rounding(net.graph)) == str(net.graph)


def test_a_network_says_how_far_it_is_from_float32() -> None:
    net = network()
    error = net.precision_error(X)
    (found,) = error.outputs
    assert 0.2 < found.absolute <= 0.26
    assert f"{found.relative:.2g} of `Y`'s norm from float32" in repr(net)
    assert net.precision_error().outputs[0].absolute <= 0.26
