"""Elements that go to places that are data. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.torch_models import run, run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


def assigned(x: Any) -> Any:
    """A cache with a row at a place that is data, and elements by masks and indices."""
    y, place = x.clone(), torch.tensor([2])
    y.index_copy_(1, place, x[:, :1])
    y[:, :, torch.tensor([0, 3])] = 0.5
    y[y < 0] = 0
    y[:, torch.tensor([1, 1]), torch.tensor([2, 2])] += 1
    y[1, 1:] *= 2
    return y


CASES: dict[str, Any] = {
    "scattered": lambda x: (
        torch.zeros_like(x).scatter(-1, x.topk(2)[1], x.topk(2)[0]),
        x.scatter(1, (x > 0).long(), 2.5),
        x.scatter_add(1, (x > 0).long()[:, :2], x),
        torch.zeros(3, 4).index_add(0, torch.tensor([2, 0, 2]), x[0]),
        x.index_put((torch.tensor([1, -2]), torch.tensor([0, 2])), x[0, 0]),
    ),
    "joined": lambda x: (
        x.scatter(1, (x > 0).long(), x, reduce="add"),
        x.scatter(1, (x > 0).long(), 2.5, reduce="multiply"),
        *(
            x.scatter_reduce(1, (x > 0).long(), x * 2, how, include_self=own)
            for how in REDUCED
            for own in (True, False)
        ),
        x[0].index_reduce(0, torch.tensor([2, 0, 2]), x[1], "amax"),
    ),
    "by masks": lambda x: (
        x.masked_scatter(x > 0, x * 2),
        x.masked_scatter(x[:, :1] > 0, x.flip(1)),
        torch.masked_scatter(x[0], x > 0, x * 2),
    ),
    "assigned": assigned,
    "added": lambda x: x.index_put((x > 0,), torch.tensor(3.0), accumulate=True),
}
REDUCED = ("sum", "prod", "mean", "amax", "amin")


@pytest.mark.parametrize("name", CASES)
def test_elements_go_where_pytorch_puts_them(name: str) -> None:
    run_whole(CASES[name], torch.randn(2, 3, 4))


@pytest.mark.parametrize(("dtype", "count"), [("int8", 128), ("uint8", 256), ("bfloat16", 300)])
def test_updates_are_counted_whatever_their_type_is(dtype: str, count: int) -> None:
    x, ones = (torch.full((n,), value, dtype=getattr(torch, dtype)) for n, value in ((2, 100), (count, 1)))
    place = torch.zeros(count, dtype=torch.int64)
    run_whole(lambda x: x.scatter_reduce(0, place, ones, "amax", include_self=False), x)
    run_whole(lambda x: x.index_reduce(0, place, ones, "amin", include_self=False), x)
    if x.is_floating_point():
        run_whole(lambda x: x.index_reduce(0, place, ones, "mean", include_self=False), x)


def test_as_many_values_as_a_mask_picks_are_pytorchs() -> None:
    refused = run(lambda x, v: x.index_put((x > 0,), v) * 2, torch.ones(3), torch.randn(3)).reports[0].refused
    assert ["a mask picks as many elements" in operator.reason for operator in refused] == [True]
