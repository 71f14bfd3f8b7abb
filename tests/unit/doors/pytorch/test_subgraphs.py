"""Parts of graphs that run as networks. Skipped without PyTorch."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from metasched.doors.pytorch import backend, compiled, subgraphs
from metasched.doors.pytorch.backend import TorchBackend
from metasched.support.imports import imports
from tests.support.torch_models import ReferenceNetwork

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(backend, "Network", ReferenceNetwork)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def picked(x: Any) -> Any:
    return torch.multinomial(x.softmax(1), 1), torch.rand(3) * 2


def in_a_branch(x: Any) -> Any:
    chosen = torch.cond(x.sum() > 0, lambda x: x + torch.rand(4), lambda x: x - torch.rand(4), (x * 2,))
    return chosen, torch.rand(4) * 2


def several_results(x: Any) -> Any:
    values, places = torch.mode((x * 2).round() + torch.randint(3, (4,)))
    return values + 1, places * 2, torch.rand(3) * 2, torch.randperm(4) + torch.bernoulli(x.sigmoid()).sum()


@pytest.mark.parametrize("model", [picked, in_a_branch, several_results])
def test_random_numbers_are_drawn_in_the_order_of_the_model(model: Any) -> None:
    x, made = torch.randn(3, 4), TorchBackend()
    with torch.no_grad():
        torch.manual_seed(7)
        want = model(x)
        torch.manual_seed(7)
        torch.testing.assert_close(torch.compile(model, backend=made, dynamic=False)(x), want)
    assert made.networks


def all_supported(x: Any) -> Any:
    largest, places = (x * 2).max(-1)
    return largest.exp() + 1, places, x.sum()


def refused_before(x: Any) -> Any:
    return torch.i0(x)[:, 0].exp() + x[:, 0], x.sin()


@pytest.mark.parametrize("model", [all_supported, refused_before])
def test_a_graph_is_one_part_where_pytorch_runs_nothing_after_it(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    partitioner = imports.module("torch.fx.passes.infra.partitioner")
    monkeypatch.delattr(partitioner, "CapabilityBasedPartitioner")  # it takes time by the square of the graph's length
    x, made = torch.randn(3, 4), TorchBackend()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=made, dynamic=False)(x), model(x))
    assert len(made.networks) == 1


def test_parts_are_made_without_a_search_for_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    class Watching(ReferenceNetwork):
        def __init__(self, *given: Any) -> None:
            searched.append(gc.isenabled())
            super().__init__(*given)

    monkeypatch.setattr(backend, "Network", Watching)
    with torch.no_grad():
        torch.compile(all_supported, backend=TorchBackend(), dynamic=False)(torch.randn(3, 4))
    assert searched == [False]
    assert gc.isenabled()


def test_parts_are_called_with_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    real = subgraphs.partition_graph
    monkeypatch.setattr(compiled, "partition_graph", lambda *given: made.append(real(*given)) or made[-1])
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=TorchBackend(), dynamic=False)(x), model(x))
    (graph,) = (each.run.__self__.graph for each in made)
    (call,) = (node for node in graph.nodes if node.op == "call_module")
    assert len(call.args) == 1  # weights are constants of the network
    assert not [node for node in graph.nodes if node.op == "get_attr"]
