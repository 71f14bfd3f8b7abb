"""Networks that the reference runs, for every test of an operator. Without PyTorch, they are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from metasched.doors.pytorch import backend
from tests.support.torch_models import ReferenceNetwork


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    monkeypatch.setattr(backend, "Network", ReferenceNetwork)
    yield
    torch._dynamo.reset()
