"""What is exported of a network whose sizes are ranges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.runtime.export.network_loader import ExportedNetwork
from tests.support.onnx_models import even_sizes


def test_sizes_that_the_model_has_not_are_left_out(tmp_path: Path) -> None:
    net = ms.load_onnx(even_sizes(), h=ms.SizeRange(5, 24, buckets=(5, 6, 24)), target=ms.Target.detect(threads=1))
    run = ExportedNetwork(net.export(tmp_path / "even"))
    x = np.random.default_rng(0).random((24, 6)).astype(np.float32)
    for size in (6, 14, 24):
        np.testing.assert_array_equal(run(x[:size]), net(x[:size]))
    with pytest.raises(
        ValueError, match=r"sizes: \{'h': 7\}; it takes `h` of 6, 8, 10, 12, 14, 16, 18, 20, 22, 24; the near"
    ):
        run(x[:7])
    many = ms.load_onnx(even_sizes(), h=ms.SizeRange(2, 80, buckets=(2, 80)))
    with pytest.raises(
        ms.NetworkError, match="calls of h 3 to 80 run on a network each, which are too many"
    ) as refused:
        many.export(tmp_path / "many")
    assert refused.value.hint == "the model has sizes in steps; load it with h=range(2, 81, 2)"
