"""What `torch.compile` gives for models whose networks the reference runs, against PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metasched.doors.pytorch.backend import TorchBackend
from metasched.doors.pytorch.tensors import torch_module
from metasched.graph.ir import Graph
from tests.support.graphs import by_reference


class ReferenceNetwork:
    """A network that the reference runs."""

    def __init__(self, graph: Graph, target: Any = None) -> None:
        self.graph = graph

    def __call__(self, *arrays: Any) -> Any:
        given = {name: np.require(a, requirements="C") for name, a in zip(self.graph.inputs, arrays, strict=True)}
        made = [np.array(array) for array in by_reference(self.graph, given)]
        return made[0] if len(made) == 1 else tuple(made)


def run(model: Callable[..., Any], *inputs: Any) -> TorchBackend:
    """Compare a model with PyTorch, strides and types included."""
    torch = torch_module()
    torch._dynamo.reset()
    backend = TorchBackend()
    with torch.no_grad():
        want = leaves(model(*inputs))
        have = leaves(torch.compile(model, backend=backend, dynamic=False)(*inputs))
    assert len(have) == len(want)
    for a, b in zip(have, want, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    return backend


def run_whole(model: Callable[..., Any], *inputs: Any) -> None:
    """Compare a model with PyTorch, and require that networks run all of it."""
    reports = run(model, *inputs).reports
    assert [report.refused for report in reports] == [()]


def leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple | list) else [value]
