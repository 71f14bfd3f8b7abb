"""Elements in order, places among them, running extrema. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
EDGES = torch.tensor([-1.0, 0.0, 0.0, 1.0])

CASES: dict[str, Any] = {
    "sort": lambda x: (
        *torch.sort(x, stable=True),
        *torch.sort(x, dim=0, descending=True, stable=True),
        torch.argsort(x, dim=1, stable=True),
    ),
    "ranks": lambda x: (x.median(), *x.median(1), *x.kthvalue(3, 0, keepdim=True)),
    "running": lambda x: (*x.cummax(1), *x.cummin(0), x[1:].logcumsumexp(1), x.cumsum(1), x.cumprod(0)),
    "search": lambda x: (
        torch.bucketize(x, EDGES, right=True),
        torch.searchsorted(EDGES, x, out_int32=True),
        torch.searchsorted(x[1:].sort(1)[0], x[1:, :2] * 1),
    ),
    "numbers": lambda x: (x.nanmedian(), *x.nanmedian(1), *x.nanmedian(0, keepdim=True)),
}


@pytest.mark.parametrize("name", CASES)
def test_order_is_pytorchs(name: str) -> None:
    x = torch.randn(4, 6)
    x[0, 2] = torch.nan
    x[2, 3] = x[2, 4]
    run_whole(CASES[name], x)


@pytest.mark.parametrize("dim", [0, 1])
def test_most_frequent_elements(dim: int) -> None:
    run_whole(lambda x: x.mode(dim), torch.randint(0, 3, (7, 9)))
    run_whole(lambda x: (x > 0).mode(dim, keepdim=True), torch.randn(5, 4))
    run_whole(lambda x: x.mode(1).values, torch.tensor([[1.0, torch.nan, torch.nan, 1, 2], [torch.nan] * 5]))


def test_medians_of_rows_without_numbers() -> None:
    run_whole(lambda x: x.nanmedian(1).values, torch.full((2, 3), torch.nan))
