"""Networks with states: a decoder that is run token by token gives what the whole sequence at once does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.graph.errors import NetworkError
from metasched.graph.ir import InPlace
from metasched.graph.network import Network
from metasched.graph.running.state import with_states
from metasched.runtime.export.network_loader import ExportedNetwork
from tests.support.decoders import Decoder
from tests.support.graphs import network as network_of
from tests.support.graphs import parsed

DECODER = Decoder()
IDS = np.random.default_rng(3).integers(0, DECODER.words, DECODER.room)


@pytest.fixture(scope="module")
def step() -> ms.Network:
    """The decoder of one token, with its caches as states."""
    return ms.load_onnx(DECODER.model(1), states=DECODER.states)


def at(position: int) -> np.ndarray:
    return np.array([position], np.int64)


def updated_in_place(network: ms.Network) -> set[str]:
    """The states of which only a part is written."""
    graph = network.optimised
    return {node.inputs[0] for node in graph.nodes if isinstance(node, InPlace)} & graph.states.keys()


def decoded(network: ms.Network, ids: np.ndarray, start: int = 0) -> np.ndarray:
    return np.concatenate([network(ids[n : n + 1], at(start + n)) for n in range(len(ids))])


def test_token_by_token_is_the_whole_sequence_at_once(step: ms.Network) -> None:
    assert list(step.inputs) == ["ids", "pos"]
    assert list(step.outputs) == ["logits"]
    step.state.reset()
    np.testing.assert_allclose(decoded(step, IDS), DECODER.whole(IDS), rtol=2e-4, atol=2e-4)


def test_caches_are_updated_where_they_lie(step: ms.Network) -> None:
    assert updated_in_place(step) == set(DECODER.states)
    step.state.reset()
    step(IDS[:1], at(5))
    for cache in step.state.values():
        assert cache[:, :, 5].all()
        assert not np.delete(cache, 5, axis=2).any()


def test_caches_of_a_network_in_bf16_are_updated_where_they_lie() -> None:
    narrow = ms.load_onnx(DECODER.model(1), states=DECODER.states, precision="bf16")
    assert updated_in_place(narrow) == set(DECODER.states)
    whole = DECODER.whole(IDS[:4])
    np.testing.assert_allclose(decoded(narrow, IDS[:4]), whole, atol=0.03 * np.abs(whole).max())


def test_a_prompt_at_once_and_then_token_by_token(step: ms.Network) -> None:
    prompt = ms.load_onnx(DECODER.model(7), states=DECODER.states)
    assert updated_in_place(prompt) == set(DECODER.states)
    first = prompt(IDS[:7], at(0))
    session = step.session()
    for name, cache in prompt.state.items():
        session.state[name][...] = cache
    rest = decoded(session, IDS[7:], 7)
    np.testing.assert_allclose(np.concatenate([first, rest]), DECODER.whole(IDS), rtol=2e-4, atol=2e-4)


def test_states_that_change_everywhere_are_copied() -> None:
    graph = network_of("m (float[3] x, float[3] s) => (y, n) { n = Add(s, x)  y = Neg(n) }").graph
    summed = Network(with_states(graph, {"s": "n"}))
    x = np.array([1, 2, 3], np.float32)
    for times in (1, 2, 3):
        np.testing.assert_array_equal(summed(x), -times * x)
    np.testing.assert_array_equal(summed.state["s"], 3 * x)
    assert not updated_in_place(summed)


def test_what_a_state_was_may_be_read() -> None:
    graph = network_of(
        """m (float[1, 3, 2] u, int64[1] p, float[1, 4, 2] s) => (y, n) {
            n = TensorScatter<axis=1>(s, u, p)  d = Sub(n, s)  y = Neg(d) }""",
        opset=24,
    ).graph
    held = Network(with_states(graph, {"s": "n"}))
    u = np.ones((1, 3, 2), np.float32)
    expected = np.zeros((1, 4, 2), np.float32)
    expected[:, 1:] = -1
    np.testing.assert_array_equal(held(u, at(1)), expected)
    np.testing.assert_array_equal(held(u, at(1)), np.zeros((1, 4, 2)))
    assert not updated_in_place(held), "its new elements would be read for the old"


SHIFTED = [
    # The result is what a state was before the call.
    ("y = Identity(a)  a2 = Add(a, x)  b2 = Add(b, a)", lambda x, a, b: (a, a + x, b + a)),
    # A line of delays: each state is next what the one before it was.
    ("y = Add(a, b)  a2 = Identity(x)  b2 = Identity(a)", lambda x, a, b: (a + b, x, a)),
    ("y = Add(a, x)  a2 = Identity(b)  b2 = Identity(a)", lambda x, a, b: (a + x, b, a)),
]


@pytest.mark.parametrize("exported", [False, True], ids=["in process", "exported"])
@pytest.mark.parametrize(("body", "step"), SHIFTED)
def test_states_and_results_are_of_what_states_were_before_the_call(
    body: str, step: Callable[..., Any], exported: bool, tmp_path: Path
) -> None:
    given = parsed(f"m (float[3] x, float[3] a, float[3] b) => (y, a2, b2) {{ {body} }}")
    net: Any = ms.load_onnx(given, states={"a": "a2", "b": "b2"}, target=ms.Target.detect(threads=1))
    net = ExportedNetwork(net.export(tmp_path / "net")) if exported else net
    a, b = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    net.state["a"][...], net.state["b"][...] = a, b
    for x in np.float32([[1, 0, 2], [3, 5, 0], [7, 7, 7]]):
        expected, a, b = step(x, a, b)
        np.testing.assert_array_equal(net(x), expected)
        np.testing.assert_array_equal(net.state["a"], a)
        np.testing.assert_array_equal(net.state["b"], b)


def test_sessions_have_states_of_their_own(step: ms.Network) -> None:
    one, other = step.session(), step.session()
    other_ids = IDS[::-1].copy()
    found = [(one(IDS[n : n + 1], at(n)), other(other_ids[n : n + 1], at(n))) for n in range(4)]
    np.testing.assert_allclose(np.concatenate([a for a, _ in found]), DECODER.whole(IDS[:4]), rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(
        np.concatenate([b for _, b in found]), DECODER.whole(other_ids[:4]), rtol=2e-4, atol=2e-4
    )


@pytest.mark.parametrize("position", [-1, DECODER.room])
def test_positions_without_room_are_refused(step: ms.Network, position: int) -> None:
    with pytest.raises(ms.KernelError, match=rf"`pos` is {position}; the state `k0` has room for 0 to 11"):
        step(IDS[:1], at(position))


def test_a_profile_leaves_the_state_alone(step: ms.Network) -> None:
    step.state.reset()
    step(IDS[:1], at(0))
    before = {name: cache.copy() for name, cache in step.state.items()}
    step.profile(IDS[:1], at(3), runs=1)
    for name, cache in step.state.items():
        np.testing.assert_array_equal(cache, before[name])


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"k9": "k0_next"}, "the state `k9` is no input"),
        ({"k0": "k9_next"}, "to be next `k9_next`; the outputs are"),
        ({"pos": "logits"}, "a state keeps its type"),
        ({"k0": "k0_next", "k1": "k0_next"}, "the same output"),
    ],
)
def test_states_that_cannot_be_are_said(states: dict[str, str], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        ms.load_onnx(DECODER.model(1), states=states)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it has threads
def test_a_child_that_is_forked_beside_a_call_has_a_state_of_its_own(step: ms.Network) -> None:
    net = step.session()
    net(IDS[:1], at(0))
    before = {name: array.copy() for name, array in net.state.items()}
    with net.state.lock:  # as a call of another thread has it
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            net(IDS[1:2], at(1))
            os._exit(all((net.state[name] == array).all() for name, array in before.items()))
        assert os.waitpid(child, 0)[1] == 0
    for name, array in before.items():
        np.testing.assert_array_equal(net.state[name], array)
