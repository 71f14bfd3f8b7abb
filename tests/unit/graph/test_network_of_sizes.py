"""Models whose sizes are ranges: results are exact at every size, and what is wrong is said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper

import metasched as ms
from metasched.graph.buckets.choices import choices_like
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.running.weights import WeightStore
from tests.support.onnx_models import even_sizes, model, node

TEXT = """<ir_version: 10, opset_import: ["": 22]>
m (float[batch, seq, 4] x, float[batch, seq] bias, float[4] kept) => (y, next)
<float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}> {
    k = MatMul(x, w)
    t = Transpose<perm=[0, 2, 1]>(k)
    s = MatMul(x, t)
    p = Softmax(s)
    z = MatMul(p, x)
    b = ReduceMean<keepdims=0>(bias)
    y = Add(z, b)
    next = Add(kept, b)
}"""
WIDE = onnx.parser.parse_model(
    """<ir_version: 10, opset_import: ["": 22]>
m (float[n, 128] x) => (y) { w = ConstantOfShape<value = float[1] {0.5}>(shape) y = MatMul(x, w) }""".replace(
        "(y) {", "(y) <int64[2] shape = {128, 128}> {"
    )
)
MODEL = onnx.parser.parse_model(TEXT)


def inputs(seq: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seq)
    return tuple((rng.random(shape) / 8).astype(np.float32) for shape in ((1, seq, 4), (1, seq)))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def ranged() -> ms.NetworkOfSizes:
    net = ms.load_onnx(MODEL, batch=1, seq=(1, 6), states={"kept": "next"})
    assert isinstance(net, ms.NetworkOfSizes)
    return net


def test_results_are_those_of_a_network_of_that_size(ranged: ms.NetworkOfSizes) -> None:
    for seq in (1, 3, 6, 3):
        x, bias = inputs(seq)
        exact = ms.load_onnx(MODEL, batch=1, seq=seq)(x, bias, np.zeros(4, np.float32))
        ranged.state.reset()
        np.testing.assert_array_equal(ranged(x, bias), exact[0])
        np.testing.assert_array_equal(ranged.state["kept"], exact[1])


def test_a_state_is_shared_by_all_sizes(ranged: ms.NetworkOfSizes) -> None:
    ranged.state.reset()
    total = 0.0
    for seq in (2, 1):
        x, bias = inputs(seq)
        ranged(bias=bias, x=x)
        total += float(bias.mean())
    np.testing.assert_allclose(ranged.state["kept"], total, rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "bias", "message"),
    [
        ((1, 7, 4), (1, 7), "`seq`, of the input `x`, is 7, and the network was loaded for 1 to 6"),
        ((1, 3, 4), (1, 2), "`seq` is 3 in the input `x`, and 2 in `bias`"),
        ((3, 4), (1, 2), "the input `x` has 3 dimensions"),
        ((2, 3, 4), (2, 3), "the input `x` is f32"),
    ],
)
def test_sizes_that_do_not_fit_are_said(
    ranged: ms.NetworkOfSizes, x: tuple[int, ...], bias: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ms.KernelError, match=message):
        ranged(np.zeros(x, np.float32), np.zeros(bias, np.float32))


def test_ranges_that_cannot_be_are_said() -> None:
    with pytest.raises(ms.NetworkError, match="not from 3 to 2"):
        ms.load_onnx(MODEL, batch=1, seq=(3, 2))
    with pytest.raises(ms.NetworkError, match="no input has the size sequence"):
        ms.load_onnx(MODEL, batch=1, seq=2, sequence=(1, 2))
    with pytest.raises(ms.NetworkError, match="`seq` is 9"):
        ms.load_onnx(MODEL, batch=1, seq=ms.SizeRange(1, 4)).at(seq=9)  # type: ignore[union-attr]


def test_a_database_that_is_not_there_is_said_and_forgotten(tmp_path: Path) -> None:
    ranged = ms.load_onnx(MODEL, batch=1, seq=ms.SizeRange(1, 6, buckets=(2, 6)), states={"kept": "next"})
    with pytest.raises(ms.NoRecord, match="there is no database"):
        ranged.use(f"sqlite:///{tmp_path}/none.db")
    x, bias = inputs(3)
    ranged(x, bias)


def test_few_networks_are_kept() -> None:
    ranged = ms.load_onnx(MODEL, batch=1, seq=(1, 20))
    assert isinstance(ranged, ms.NetworkOfSizes)
    made = {seq: ranged.at(seq=seq) for seq in range(1, 12)}
    assert ranged.at(seq=11) is made[11]
    assert ranged.at(seq=3) is not made[3]
    assert ranged.at(seq=1) is made[1]  # a bucket of one size


def test_sizes_of_one_bucket_run_on_one_network_and_a_size_of_one_on_its_own() -> None:
    ranged = ms.load_onnx(MODEL, batch=1, seq=ms.SizeRange(1, 6, buckets=(2, 6)), states={"kept": "next"})
    assert isinstance(ranged, ms.NetworkOfSizes)
    assert ranged.bucket(seq=3) is ranged.bucket(seq=6) is not None
    assert ranged.bucket(seq=3) is not ranged.bucket(seq=2)
    lone = ranged.bucket(seq=1)
    assert lone is None or lone.sizes({"seq": 1}) is None
    with pytest.raises(ms.NetworkError, match="a bucket up to 7 is not in the range of sizes from 1 to 6"):
        ms.SizeRange(1, 6, buckets=(7,))


def test_buckets_are_halves_unless_they_are_said() -> None:
    assert ms.SizeRange(3, 100).buckets == (3, 6, 12, 25, 50, 100)
    assert ms.SizeRange(1, 100, buckets=(10,)).buckets == (10, 100)


def test_weights_are_held_once_by_all_sizes() -> None:
    weights = WeightStore()
    first, second = (ms.Network(ms.load_onnx(WIDE, n=n).graph, weights=weights) for n in (8, 5))
    first.compile()
    held = weights.nbytes
    assert held >= 128 * 128 * 4
    second.schedule_by(choices_like(first, second))
    second.compile()
    assert weights.nbytes == held


def test_a_kernel_that_was_made_for_another_node_type_has_a_schedule_for_other_sizes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal programs are one kernel, kept with the trace of the one that it was made for."""
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path))
    other = onnx.ModelProto()
    other.CopyFrom(WIDE)
    other.graph.node[1].op_type = "Gemm"
    ms.Network(ms.load_onnx(WIDE, n=8).graph).compile()
    first, second = (ms.Network(ms.load_onnx(other, n=n).graph) for n in (8, 5))
    first.compile()
    assert choices_like(first, second)


def test_kernels_of_one_node_of_the_model_are_told_apart() -> None:
    """A layer is two products: those of inputs, and in a loop those of what the step before made."""
    weights = np.random.default_rng(0).random((1, 128, 128)).astype(np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("t", 1, 128))
    whole = model([node("RNN", "x w r", "y", hidden_size=128)], [x], ["y"], {"w": weights, "r": weights[:, ::-1]})
    net = ms.load_onnx(whole, t=ms.SizeRange(2, 16, buckets=(8, 16)))
    assert isinstance(net, ms.NetworkOfSizes)
    first, second = (net.bucket(t=t) for t in (16, 8))
    assert first is not None
    assert second is not None
    first.network.compile()
    products, _ = (step.task for step in second.network.steps if step.task)
    assert products in choices_like(first.network, second.network)


def test_how_many_inputs_are_given_is_said(ranged: ms.NetworkOfSizes) -> None:
    with pytest.raises(ms.KernelError, match=r"the network takes .*, and 1 input is given"):
        ranged(np.zeros((1, 3, 4), np.float32))
    with pytest.raises(ms.KernelError, match=r"the network takes .*, and 3 inputs are given"):
        ranged(*[np.zeros((1, 3, 4), np.float32)] * 3)


def test_models_that_have_only_some_sizes() -> None:
    net = ms.load_onnx(even_sizes(), h=ms.SizeRange(5, 16, buckets=(5, 6, 16)))
    assert isinstance(net, ms.NetworkOfSizes)
    x = np.random.default_rng(0).random((8, 6)).astype(np.float32)
    np.testing.assert_allclose(net(x), x + x.reshape(4, 2, 6).max(1).repeat(2, 0), rtol=1e-6)
    assert str(net.outputs["y"]) == "f32[h, 6]"
    assert [own.name for own in net.precision_error(x).outputs] == ["y"]
    assert net.names == ("h 6", "h 8")
    with pytest.raises(ms.NetworkError, match="has no shape"):
        net(x[:5])


def test_sizes_that_are_in_no_step_are_said() -> None:
    net = ms.load_onnx(even_sizes(), h=range(4, 17, 4))
    assert isinstance(net, ms.NetworkOfSizes)
    with pytest.raises(ms.KernelError, match=r"is 6, and .* for 4 to 16 in steps of 4; the nearest are 4 and 8$"):
        net(np.zeros((6, 6), np.float32))
    for method in (net.at, net.bucket):
        with pytest.raises(ms.NetworkError, match=r"`h` is 18, and .* in steps of 4; the nearest is 16$"):
            method(h=18)
    assert str(net.outputs["y"]) == "f32[h, 6]"
    assert "(h: 4 to 16 in steps of 4)" in repr(net)


def test_a_step_that_helps_is_said_and_no_other() -> None:
    """At load, where the model has not the largest size, and in a call."""
    with pytest.raises(ms.RefusedModel, match=r"in steps; load it with h=range\(6, 18, 2\)$") as refused:
        ms.load_onnx(even_sizes(), h=(5, 17))
    assert refused.value.refusals
    net = ms.load_onnx(even_sizes(), h=(5, 16))
    for bad in (lambda: net(np.zeros((7, 6), np.float32)), lambda: net.at(h=9)):
        with pytest.raises(ms.RefusedModel, match=r"has no shape[^$]*load it with h=range\(6, 17, 2\)$"):
            bad()
    text = """<ir_version: 10, opset_import: ["": 22]>
    m (float[n, 4] x) => (y) { y = NoSuchNode(x) }"""
    with pytest.raises(ms.RefusedModel) as refused:
        ms.load_onnx(onnx.parser.parse_model(text), n=(2, 65))
    assert not refused.value.hint


def test_a_model_that_was_exported_for_one_size_has_the_smallest_and_not_the_largest() -> None:
    text = """<ir_version: 10, opset_import: ["": 22]>
    m (float[n, 4] x) => (y) <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { y = Add(x, w) }"""
    with pytest.raises(ms.RefusedModel, match=r"has the sizes n=1, and not n=8: its exporter") as refused:
        ms.load_onnx(onnx.parser.parse_model(text), n=(1, 8))
    assert "do not broadcast" in str(refused.value)


def test_outputs_of_a_model_of_one_size_are_of_unknown_sizes() -> None:
    text = """<ir_version: 10, opset_import: ["": 22]>
    m (float[n, 4] x) => (y) <int64[2] s = {8, 2}> { y = Reshape(x, s) }"""
    net = ms.load_onnx(onnx.parser.parse_model(text), n=(2, 4))
    assert str(net.outputs["y"]) == "f32[?, ?]"


def test_a_size_may_have_any_name() -> None:
    text = '<ir_version: 10, opset_import: ["": 22]>\nm (float[self, 2] x) => (y) { y = Exp(x) }'
    net = ms.load_onnx(onnx.parser.parse_model(text), self=ms.SizeRange(2, 6, buckets=(2, 6)))
    assert isinstance(net, ms.NetworkOfSizes)
    for rows in (2, 4):
        np.testing.assert_array_equal(net(np.zeros((rows, 2), np.float32)), np.ones((rows, 2)))
    assert net.names == ("self up to 6", "self 2")
    assert net.bucket(self=2) is None


def test_what_schedules_all_sizes_reaches_a_bucket_that_is_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    net = ms.load_onnx(WIDE, n=(4, 8))
    assert isinstance(net, ms.NetworkOfSizes)
    choices = {"task": Choice(None, ScheduleOrigin.GIVEN)}
    keep_with = ms.Network.keep_with

    def meanwhile(self: ms.Network, note: Any) -> None:
        """The last that is done to a network before others find it."""
        net.schedule_by(choices)
        keep_with(self, note)

    monkeypatch.setattr(ms.Network, "keep_with", meanwhile)
    own = net.bucket(n=8)
    assert own is not None
    assert own.network.choices == choices
    assert net.at(n=5).choices == choices


def test_memory_is_told_while_other_sizes_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    net = ms.load_onnx(WIDE, n=(4, 8))
    assert isinstance(net, ms.NetworkOfSizes)
    find, others = net._find_alone, iter((5, 6))

    def meanwhile(sizes: Mapping[str, int]) -> ms.Network | None:
        net.at(n=next(others))
        return find(sizes)

    monkeypatch.setattr(net, "_find_alone", meanwhile)
    assert net.memory().waiting == 3
