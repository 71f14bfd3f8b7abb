"""Running reductions of long rows, in blocks of them, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.graph.node_helpers import running_reductions
from tests.support.onnx_models import model, node, value
from tests.unit.graph.node_types.test_scans import by_numpy, summed


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("extent", [12, 13, 64])
def test_in_blocks_of_blocks(monkeypatch: pytest.MonkeyPatch, reverse: int, exclusive: int, extent: int) -> None:
    monkeypatch.setattr(running_reductions, "_AT_ONCE", 4)
    monkeypatch.setattr(running_reductions, "_BLOCK", 3)
    monkeypatch.setattr(running_reductions, "_LONG_BLOCK", 5)
    monkeypatch.setattr(running_reductions, "_TERMS", 200)
    x = np.random.default_rng(0).integers(-9, 9, (2, extent, 2))
    np.testing.assert_array_equal(summed(x, 1, reverse, exclusive), by_numpy(x, 1, reverse, exclusive))
    half = x.astype(np.float16)
    np.testing.assert_array_equal(summed(half, -2, reverse, exclusive), by_numpy(half, 1, reverse, exclusive))


def test_long_rows_are_not_quadratic() -> None:
    x = np.ones(100_000, np.float32)
    net = ms.load_onnx(model([node("CumSum", "X axis")], [value("X", x)], ["Y"], {"axis": np.array(0)}))
    np.testing.assert_array_equal(net(X=x), np.arange(1, x.size + 1))
    additions = sum(compute.program.work.operations for compute in net.graph.computes)
    assert x.size * 8 <= additions < x.size * 24


@pytest.mark.parametrize(("extent", "kernels"), [(17, 1), (50_000, 1), (100_000, 4)])
def test_whole_numbers_go_on_from_one_another(extent: int, kernels: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, extent)
    net = ms.load_onnx(model([node("CumSum", "X axis")], [value("X", x)], ["Y"], {"axis": np.array(0)}))
    np.testing.assert_array_equal(net(X=x), np.cumsum(x))
    assert len(net.tasks()) == kernels


@pytest.mark.parametrize("exclusive", [0, 1])
def test_rows_of_columns_go_on_from_one_another_in_one_kernel(exclusive: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (2, 70, 24)).astype(np.float32)
    np.testing.assert_array_equal(summed(x, 1, 0, exclusive), by_numpy(x, 1, 0, exclusive))
    made = model([node("CumSum", "X axis", exclusive=exclusive)], [value("X", x)], ["Y"], {"axis": np.array(1)})
    assert len(ms.load_onnx(made).tasks()) == 1
