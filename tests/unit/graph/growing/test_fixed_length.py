"""Calls that leave room for a few lengths only, in models with tables of just that many rows."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.graph.growing.fixed_length import LabelledCache, graph_of_fixed_length
from metasched.graph.growing_network import GrowingNetwork
from metasched.graph.ir import Graph
from tests.support.decoders import Decoder
from tests.support.traced_functions import run_graph

DECODER = Decoder(layers=1)
IDS = np.random.default_rng(3).integers(0, DECODER.words, DECODER.room)
State = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def prompts() -> ms.NetworkOfSizes:
    """The decoder for prompts of all lengths: its table of positions has as many rows as its caches have room for."""
    net = ms.load_onnx(DECODER.growing_model(), seq=(1, DECODER.room), past=ms.GrowingSize(DECODER.room))
    assert isinstance(net, ms.NetworkOfSizes)
    return net


def called(graph: Graph, ids: np.ndarray, past: int, state: State) -> np.ndarray:
    """The logits of a call by the reference; the state is what it is next then."""
    given = {"ids": ids, "past": np.asarray(past, np.int64), **state}
    results = dict(zip(dict(graph.outputs), run_graph(graph, [given[name] for name in graph.inputs]), strict=True))
    state |= {name: np.asarray(results[label]) for name, label in graph.states.items()}
    return np.asarray(results["logits"])


def zeros(net: ms.NetworkOfSizes) -> State:
    return {name: np.zeros_like(array) for name, array in net.state.items()}


def test_a_prompt_may_fill_the_caches(prompts: ms.NetworkOfSizes) -> None:
    found = called(prompts.at(seq=DECODER.room).graph, IDS, 0, zeros(prompts))
    np.testing.assert_allclose(found, DECODER.whole(IDS), rtol=2e-4, atol=2e-4)


def test_lengths_that_are_left_have_networks_of_their_own(prompts: ms.NetworkOfSizes) -> None:
    net, state = prompts.at(seq=10), zeros(prompts)
    assert isinstance(net, GrowingNetwork)
    assert net.lengths == (0, 1, 2)
    called(prompts.at(seq=2).graph, IDS[:2], 0, state)
    found = called(net.for_length(2).graph, IDS[2:], 2, state)
    np.testing.assert_allclose(found, DECODER.whole(IDS)[2:], rtol=2e-4, atol=2e-4)
    with pytest.raises(ms.KernelError, match="there is room for a call at 0 to 2"):
        net(IDS[:10], past=3)


def test_what_has_no_room_is_said() -> None:
    graph = ms.load_onnx(DECODER.growing_model(), seq=3, past=2).graph
    caches = {"k0": LabelledCache("k0", "k0_next", 2)}
    with pytest.raises(ms.NetworkError, match="a call adds 3 elements to caches that have room for 4"):
        graph_of_fixed_length(graph, caches, "past", 2, 4)
