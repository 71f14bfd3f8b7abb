"""How many elements lie in bins. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
EDGES = torch.tensor([-1.0, 0.0, 0.25, 2.0])

CASES: dict[str, Any] = {
    "range": lambda x: x.histc(4, -1.5, 1),
    "data": lambda x: x.histc(5),
    "one": lambda x: ((x * 0).histc(4), x.histc(4, 0.5, 0.5)),
    "one of given ends": lambda x: (*torch.histogram(x, 3, range=(0.5, 0.5)), *torch.histogram(x * 0 + 0.25, 4)),
    "bins": lambda x: (*torch.histogram(x, 6), *torch.histogram(x, 5, range=(-1.0, 1.5))),
    "edges": lambda x: torch.histogram(x, EDGES),
    "density": lambda x: torch.histogram(x, 5, weight=x.abs(), density=True),
}


@pytest.mark.parametrize("name", CASES)
def test_counts_are_pytorchs(name: str) -> None:
    run_whole(CASES[name], torch.randn(4, 6))
    run_whole(CASES[name], torch.arange(-8, 16.0).view(4, 6) / 4)  # on the edges


@pytest.mark.parametrize(("low", "high"), [(0, torch.inf), (-torch.inf, 0)])
def test_infinite_ends_are_pytorchs_error(low: float, high: float) -> None:
    for count in (lambda x: x.histc(4, low, high), lambda x: torch.histogram(x, 4, range=(low, high)).hist):
        with pytest.raises(RuntimeError, match="not finite"), torch.no_grad():
            torch.compile(lambda x, count=count: count(x) * 2, backend="metasched")(torch.randn(6))
