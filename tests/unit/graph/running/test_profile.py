"""Profiles: every kernel in its place, with its share, its speed and where its schedule is from."""

from __future__ import annotations

import json

import pytest

import metasched as ms
from metasched.graph.running.profile import KernelProfile, NetworkProfile
from metasched.report.limits import Bound, Ceilings
from tests.support.onnx_models import model, node, random, value

X, W, V = random(16, 32), random(32, 4, seed=1), random(4, 32, seed=2)


def test_every_kernel_is_profiled() -> None:
    nodes = [node("MatMul", "X W", "H"), node("Softmax", "H", "S"), node("MatMul", "S V", "Y")]
    network = ms.load_onnx(model(nodes, [value("X", X)], constants={"W": W, "V": V}))
    found = network.profile(X, runs=3)
    kernels = list(network.optimised.computes)
    assert [kernel.node for kernel in found.kernels] == [kernel.name for kernel in kernels]
    assert found.runs == 3
    assert sum(kernel.share for kernel in found.kernels) == pytest.approx(1)
    assert found.kernels[0].flops >= 2 * 16 * 32 * 4
    assert found.kernels[0].weight_bytes == W.nbytes
    assert found.kernels[0].nbytes == 4 * (16 * 32 + 32 * 4 + 16 * 4)
    assert {kernel.origin.partition(":")[0] for kernel in found.kernels} == {"as written", "guess"}
    assert all(kernel.seconds > 0 and kernel.limit > 0 for kernel in found.kernels)
    assert json.loads(json.dumps(found.to_json()))["kernels"][0]["node"] == found.kernels[0].node
    assert network.profile(X=X, runs=1).network == found.network
    assert network.profile(runs=1).network == found.network  # on random inputs


def kernel(name: str, seconds: float, share: float, flops: int) -> KernelProfile:
    return KernelProfile(
        name, "Conv", "conv[]", "key", seconds, share, flops, flops, 4000, 1000, 0.5, "guess: the model"
    )


def test_the_slowest_come_first_and_the_rest_in_one_line() -> None:
    kernels = (kernel("fast", 1e-3, 0.01, 0), kernel("slow", 98e-3, 0.98, 10**9), kernel("other", 1e-3, 0.01, 0))
    usual = Ceilings(3e9, 384e9, dict.fromkeys(Bound, 1e9), 2, measured=False)
    assert str(NetworkProfile("net", kernels, 0.11, 0.1, 30, usual)).splitlines() == [
        "net: 110.000 ms a call, 100.000 ms of it in 3 kernels (medians of 30 runs)",
        "       ms  share            speed of limit  kernel, and where its schedule comes from",
        "   98.000  98.0%     10.2 GFLOP/s    50.0%  slow (Conv): guess: the model",
        "    2.000   2.0% in 2 others",
        "limits: of a usual CPU: `metasched calibrate` measures yours; 384 GFLOP/s of f32 in 2 threads",
    ]
    assert NetworkProfile("net", kernels, 0.125, 0.1, 30, usual).overhead == pytest.approx(0.2)
