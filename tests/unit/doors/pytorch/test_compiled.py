"""Compiled graphs whose weights are constants: threads, weights that others follow, models that are gone.

Skipped without PyTorch.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from metasched.doors.pytorch import backend as backend_module
from metasched.doors.pytorch import compiled
from metasched.doors.pytorch.backend import TorchBackend
from tests.support.torch_models import ReferenceNetwork

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
THREADS = 4


class Scaled(torch.nn.Module):
    """A product by a weight of which nothing but what is computed of it is a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, 64))

    def forward(self, x: Any) -> Any:
        return x @ (self.weight * 2)


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    torch.manual_seed(0)
    monkeypatch.setattr(backend_module, "Network", ReferenceNetwork)
    yield
    torch._dynamo.reset()


def check(fast: Callable[..., Any], model: Callable[..., Any], rows: int = 4) -> None:
    x = torch.randn(rows, 64)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)


def inputs(backend: TorchBackend) -> list[int]:
    """How many inputs each network has."""
    return [len(network.graph.inputs) for network in backend.networks]


def collect() -> None:
    """Collect garbage, and what became garbage when weights were collected."""
    for _ in range(2):
        gc.collect()


def test_threads_that_find_a_weight_written_make_networks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, backend, start = Scaled(), TorchBackend(), Barrier(THREADS)
    fast = torch.compile(model, backend=backend, dynamic=False)
    check(fast, model)

    class Slow(ReferenceNetwork):
        def __init__(self, *given: Any, **options: Any) -> None:
            time.sleep(0.1)
            super().__init__(*given, **options)

    def call(_: int) -> None:
        start.wait()
        check(fast, model)

    monkeypatch.setattr(backend_module, "Network", Slow)
    with torch.no_grad():
        model.weight.add_(1)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(call, range(THREADS)))
    assert inputs(backend) == [1, 1]


def test_memory_that_constants_were_made_of_is_nobody_elses() -> None:
    model = Scaled()
    fast = torch.compile(model, backend="metasched", dynamic=False)
    check(fast, model)
    before = torch.multiprocessing.reductions.StorageWeakRef(model.weight.untyped_storage())
    model.weight.data = torch.randn(64, 64)
    assert not before.expired()  # so that no tensor is there that would look as if nothing had changed
    check(fast, model)
    assert before.expired()


@pytest.mark.parametrize("dynamic", [False, True])
def test_networks_go_with_the_model_and_the_next_one_has_constants(dynamic: bool) -> None:
    backend = TorchBackend()
    for _ in range(3):
        model = Scaled()
        fast = torch.compile(model, backend=backend, dynamic=dynamic)
        for _ in range(2):
            check(fast, model)
        (network,) = map(weakref.ref, backend.networks)
        assert inputs(backend) == [1]
        backend.reports.clear()
        del model, fast
        collect()
        assert network() is None


def test_reports_are_those_of_a_backend_that_somebody_has() -> None:
    made: list[weakref.ref[ReferenceNetwork]] = []

    class Counted(ReferenceNetwork):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            made.append(weakref.ref(self))

    model = Scaled()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_module, "Network", Counted)
        fast = torch.compile(model, backend="metasched", dynamic=False)
        check(fast, model)
    (network,) = made
    assert network() is not None
    del model, fast
    collect()
    assert network() is None


def test_a_parameter_that_is_replaced_is_a_constant_again_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_MOST_MODELS", 3)
    model, backend = Scaled(), TorchBackend()
    fast = torch.compile(model, backend=backend, dynamic=False)
    for _ in range(6):
        check(fast, model)
        collect()
        model.weight = torch.nn.Parameter(torch.randn(64, 64))
    assert inputs(backend) == [1, 1, 1, 2]


class Shared(torch.nn.Module):
    """Parameters that are parts of one memory, and one by two names."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.randn(64, 128)
        self.whole = torch.nn.Parameter(whole)
        self.odd, self.turned = torch.nn.Parameter(whole[:, 1::2]), torch.nn.Parameter(whole[:, :64].t())
        self.again = self.odd
        self.register_buffer("repeated", torch.randn(64).expand(4, 64))

    def forward(self, x: Any) -> Any:
        return (x @ self.odd) @ self.turned + (x @ self.whole)[:, :64] + self.repeated + x @ self.again


@pytest.mark.parametrize("name", ["whole", "odd", "turned", "again"])
def test_parameters_that_share_memory_are_read_where_they_lie(name: str) -> None:
    model = Shared()
    fast = torch.compile(model, backend="metasched", dynamic=False)
    for _ in range(3):
        check(fast, model)
        with torch.no_grad():
            getattr(model, name).mul_(0.5)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("fused", [False, True])
def test_steps_of_optimizers_are_seen(optimizer: str, fused: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 8))
    step = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1, fused=fused)
    fast = torch.compile(model.eval(), backend="metasched", dynamic=False)
    for _ in range(3):
        check(fast, model)
        model.train()(torch.randn(4, 64)).square().sum().backward()
        step.step()
        model.eval()
