"""A decoder whose caches grow: each call runs on kernels that go through little more of them than they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import metasched as ms
from metasched.graph.errors import NetworkError
from metasched.graph.growing_network import GrowingNetwork
from metasched.graph.tuning.networks import settle_networks
from tests.support.decoders import Decoder

DECODER = Decoder(layers=1)
IDS = np.random.default_rng(3).integers(0, DECODER.words, DECODER.room)


@pytest.fixture(scope="module")
def grown() -> GrowingNetwork:
    net = ms.load_onnx(DECODER.growing_model(), seq=1, past=ms.GrowingSize(DECODER.room, buckets=(4, 8)))
    assert isinstance(net, GrowingNetwork)
    return net


def decoded(network: Any) -> np.ndarray:
    return np.concatenate([network(IDS[n : n + 1], past=n) for n in range(DECODER.room)])


def test_a_text_is_what_it_is_at_once_whatever_it_runs_on(grown: GrowingNetwork) -> None:
    np.testing.assert_allclose(decoded(grown), DECODER.whole(IDS), rtol=2e-4, atol=2e-4)
    assert grown.lengths == (3, 7, 11)
    assert grown.for_length(3) is not grown.for_length(4)
    assert grown.for_length(8) is grown
    np.testing.assert_array_equal(grown.for_length(0)(IDS[2:3], past=2), grown(IDS[2:3], past=2))


def test_a_session_has_a_state_of_its_own(grown: GrowingNetwork) -> None:
    first = decoded(grown)
    other = grown.session()
    np.testing.assert_array_equal(decoded(other), first)
    other.state.reset()
    assert all(cache.any() for cache in grown.state.values())


def test_only_what_goes_along_the_caches_is_made_again(grown: GrowingNetwork) -> None:
    whole, *shorter = [network.optimised.tasks.keys() for network in grown.members]
    grown.compile()
    for tasks in shorter:
        assert 0 < len(tasks - whole) < len(whole) / 2
    types = [network.signature.held for network in grown.members]
    assert types[0] == types[1] == types[2]
    alone = ms.load_onnx(DECODER.growing_model(), seq=1, past=ms.GrowingSize(DECODER.room)).compile()
    held = sum(network.compiled().weights.nbytes for network in grown.members)
    assert held < 1.2 * alone.compiled().weights.nbytes


def test_less_is_computed_where_less_is_held(grown: GrowingNetwork) -> None:
    whole, *shorter = [
        sum(node.program.work.operations for node in network.optimised.computes) for network in grown.members
    ]
    assert shorter[0] < shorter[1] < whole


def test_buckets_halve_the_capacity_unless_they_are_given() -> None:
    assert ms.GrowingSize(512).rooms == (64, 128, 256, 512)
    assert ms.GrowingSize(1000).rooms == (125, 250, 500, 1000)
    assert ms.GrowingSize(100).rooms == (100,)
    assert ms.GrowingSize(100, buckets=(30, 10, 30)).rooms == (10, 30, 100)
    with pytest.raises(NetworkError, match="a bucket up to 101 is not from 1 to 100"):
        ms.GrowingSize(100, buckets=(101,))


def test_inputs_with_room_for_all_are_taken_on_every_bucket() -> None:
    body = """m (float[1, 2] x, float[1, past, 2] c, float[1, total] mask) => (y, next, seen)
    <int64[1] one = {1}, int64[1] two = {2}> {
        u = Unsqueeze(x, one)  next = Concat<axis=1>(c, u)
        m = Unsqueeze(mask, two)  seen = Mul(next, m)
        y = ReduceSum<keepdims=0>(seen, one) }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 22]>\n{body}')
    net = ms.load_onnx(model, past=ms.GrowingSize(5, buckets=(2,)), total="past + 1")
    rows = np.arange(1, 11, dtype=np.float32).reshape(5, 2)
    with_room = np.ones((1, 5), np.float32)
    for n in range(5):
        for mask in (with_room, with_room[:, : n + 1]):
            total, seen = net(rows[n : n + 1], mask, n)
            np.testing.assert_array_equal(seen[0], rows[: n + 1])
            np.testing.assert_array_equal(total, seen.sum(1))
    with pytest.raises(ms.KernelError, match=r"`mask` has the shape \(1, 3\), and at `past` 1 it is to have \(1, 2\)"):
        net(rows[:1], np.zeros((1, 3), np.float32), 1)
    with pytest.raises(ms.KernelError, match="`past` is 5, and there is room for a call at 0 to 4"):
        net(rows[:1], with_room, 5)


class Settling:
    """A network whose own call decides for some tuned kernels."""

    def __init__(self, weights: object, faster: set[str]) -> None:
        self.weights, self.faster = weights, faster
        self.choices: dict[str, str] = {}
        self.asked: set[str] = set()

    def schedule_by(self, choices: dict[str, str]) -> None:
        self.choices |= choices

    def settle(self, choices: dict[str, str], db: str) -> None:
        self.asked = set(choices)
        self.choices |= {key: choice for key, choice in choices.items() if key in self.faster}


def test_networks_on_the_same_weights_run_the_same_kernel_for_a_task() -> None:
    store = object()
    whole, shorter, other = Settling(store, {"a"}), Settling(store, {"b", "c"}), Settling(None, {"b"})
    tuned = [{"a": "A", "b": "B"}, {"a": "A", "b": "B", "c": "C"}, {"a": "A", "b": "B"}]
    settle_networks([whole, shorter, other], tuned, "db")  # type: ignore[list-item, arg-type]
    assert [network.asked for network in (whole, shorter, other)] == [{"a", "b"}, {"c"}, {"a", "b"}]
    assert [network.choices for network in (whole, shorter, other)] == [{"a": "A"}, {"a": "A", "c": "C"}, {"b": "B"}]
