"""Integers that models are called with. Skipped without PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from metasched.doors.pytorch import backend
from metasched.doors.pytorch.backend import TorchBackend
from tests.support.torch_models import ReferenceNetwork, leaves

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(backend, "Network", ReferenceNetwork)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def networks(model: Callable[..., Any], x: Any, numbers: tuple[int, ...] = (3, -4, 7, 300)) -> int:
    """How many networks a model has that is called with each of some numbers, and gives what PyTorch does."""
    made = TorchBackend()
    fast = torch.compile(model, backend=made, dynamic=True)
    with torch.no_grad():
        for k in numbers:
            for have, want in zip(leaves(fast(x, k)), leaves(model(x, k)), strict=True):
                torch.testing.assert_close(have, want)
    return len(made.networks)


def computed(x: Any, k: int) -> Any:
    y = x.mul(k) + (k + 1) - k * 2
    y *= k
    return y, torch.add(x, k, alpha=2), k - x, -k * x, x > k, x // k, x % k, x / k


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.uint8, torch.bool])
def test_an_integer_that_is_an_operand_makes_no_networks_of_its_own(dtype: Any) -> None:
    if dtype is torch.bool:
        assert networks(lambda x, k: (x * k, x > k), torch.tensor([True, False])) == 1
    else:
        assert networks(computed, torch.arange(1, 7).to(dtype)) == 1
    assert networks(lambda x, k: x * k, torch.tensor(2.5).to(dtype)) == (1 if dtype.is_floating_point else 4)


def test_an_integer_that_decides_more_has_a_network_for_each_value() -> None:
    x = torch.randn(9, 3)
    assert networks(lambda x, k: x[:k] * k, x, (3, 4, 5)) == 3
    assert networks(lambda x, k: (x * k, k * 2), x, (3, 4, 5)) == 3
    assert networks(lambda x, k: torch.add(x, x, alpha=k), x, (3, 4, 5)) == 3
