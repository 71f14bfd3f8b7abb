"""Results of compiled graphs that share memory: what is written into one is seen in the others. Skipped without
PyTorch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

from metasched.doors.pytorch import backend as backend_module
from metasched.doors.pytorch.backend import TorchBackend
from metasched.doors.pytorch.shared_results import share_results
from tests.support.torch_models import ReferenceNetwork, leaves

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(backend_module, "Network", ReferenceNetwork)
    yield
    torch._dynamo.reset()


def outcome(model: Callable[..., Any], *inputs: Any) -> list[Any]:
    """Types, strides and elements of results after each was written, and those of the inputs."""
    given = [x.clone() for x in inputs]
    with torch.no_grad():
        made = leaves(model(*given))
        for number, result in enumerate(made):
            if 0 not in result.stride():
                result.mul_(number + 2)
        return [(x.dtype, x.stride(), x.tolist()) for x in (*made, *given)]


def compiled(model: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> TorchBackend:
    """Compare a model with PyTorch, after its results were written, at two calls."""
    torch._dynamo.reset()
    backend = TorchBackend()
    fast = torch.compile(model, backend=backend, dynamic=dynamic)
    for _ in range(2):
        assert outcome(fast, *inputs) == outcome(model, *inputs)
    return backend


def of_sum(views: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: views(x + 1)


def in_channels_last(x: Any) -> Any:
    y = torch.nn.functional.avg_pool2d(x[None].to(memory_format=torch.channels_last), 1)
    return y, y[0], y.permute(0, 2, 3, 1)


VIEWS: dict[str, Callable[..., Any]] = {
    "a row": lambda y: (y, y[0]),
    "before its base": lambda y: (y[0], y),
    "transposed": lambda y: (y, y.transpose(0, 2), y.permute(1, 2, 0)),
    "reshaped": lambda y: (y, y.reshape(-1), y.view(6, 4), y.flatten(1)),
    "detached": lambda y: (y.detach(), y),
    "twice": lambda y: (y, y, y[1], y[1]),
    "expanded": lambda y: (y, y[:1].expand(5, 3, 4)),
    "expanded alone": lambda y: y[:, None].expand(2, 5, 3, 4),
    "a diagonal": lambda y: (y, y.diagonal(0, 1, 2)),
    "rows": lambda y: (y, *y.unbind(0)),
    "parts": lambda y: (*y.split(2, 1), *y.chunk(2, 2), y * 1),
    "overlapping views without their base": lambda y: (y[:, :2], y[:, 1:]),
    "views of views": lambda y: (y[0].T[1:], y[..., 1]),
    "added dimensions": lambda y: (y.clone(), y, y[..., None, -1]),
    "windows": lambda y: (y, y.unfold(1, 2, 1), y.as_strided((2, 3), (3, 2), 1)),
    "of another type": lambda y: (y, y.view(torch.int32)),
    "read by the network, too": lambda y: (y[0], y[0] @ y[1].T, y),
    "of an operator that is refused": lambda y: (torch.mode(y)[0], torch.mode(y)[0][1], y),
    "channels last": in_channels_last,
    "a product, reshaped": lambda y: (y @ y[0].T, y),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_what_is_computed(name: str) -> None:
    assert compiled(of_sum(VIEWS[name]), torch.randn(2, 3, 4)).networks


def test_sizes_that_are_open() -> None:
    compiled(of_sum(lambda y: (y, y[0], y.T)), torch.randn(3, 4), dynamic=True)


def test_views_after_a_graph_ended() -> None:
    def model(x: Any) -> Any:
        y = x + 1
        rows = y.unbind(0)
        torch._dynamo.graph_break()
        rows[0].zero_()
        y.mul_(10)
        return y, rows[1] + 0

    assert compiled(model, torch.randn(2, 3)).networks


def test_views_of_inputs_and_of_weights() -> None:
    layer = torch.nn.Linear(3, 2)
    compiled(lambda x: (x[0], x[0] + 1, x.T, layer(x)), torch.randn(4, 3))
    have, _ = torch.compile(lambda x: (layer.weight[0], layer(x)), backend=TorchBackend())(torch.randn(4, 3))
    assert have.untyped_storage().data_ptr() == layer.weight.untyped_storage().data_ptr()


def test_what_is_computed_of_weights_is_given_as_a_copy() -> None:
    layer = torch.nn.Linear(3, 2)
    compiled(lambda x: (layer.weight * 2, (layer.bias + 1)[0], torch.tensor([1.0, 2.0]), layer(x)), torch.randn(4, 3))

    def model(x: Any) -> Any:
        twice = layer.weight * 2
        return twice, twice[0], x @ twice

    compiled(model, torch.randn(4, 2))


def test_a_result_alone_is_all_that_a_network_gives() -> None:
    backend = compiled(lambda x: ((x + 1)[:, 1] * 2, (x - 1).reshape(-1)), torch.randn(2, 3))
    (network,) = backend.networks
    assert [network.graph.types[value].shape for _, value in network.graph.outputs] == [(2,), (6,)]
    assert not backend.reports[0].refused


def test_memory_with_gaps_is_made_by_pytorch() -> None:
    def model(x: Any) -> Any:
        y = torch.as_strided_copy(x, (2, 3), (3, 1)) + 1
        z = y.new_empty_strided((2, 3), (8, 2)).copy_(y)
        return z, z[0], y

    refused = [str(entry) for entry in compiled(model, torch.randn(2, 3)).reports[0].refused]
    assert "aten.copy: results share its memory, which has gaps" in refused


def test_an_operator_whose_outputs_share_memory_is_left_to_pytorch() -> None:
    graph, one = torch.fx.Graph(), torch.ones(2, 3)
    given = graph.placeholder("x")
    several = graph.call_function(torch.ops.aten.var_mean.default, (given,))
    outputs = [graph.call_function(operator.getitem, (several, n)) for n in range(2)]
    graph.output(tuple(outputs))
    for node, value in ((given, torch.ones(2)), (several, (one, one[0])), (outputs[0], one), (outputs[1], one[0])):
        node.meta["val"] = value
    assert share_results(graph).left == {several: "results share memory that several of its outputs have"}
