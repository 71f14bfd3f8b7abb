"""Operands of operators: without dimensions, and numbers beyond a type. Skipped without PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from metasched.doors.pytorch import backend
from tests.support.torch_models import ReferenceNetwork, run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(backend, "Network", ReferenceNetwork)
    yield
    torch._dynamo.reset()


ALONG_A_ROW: dict[str, Callable[..., Any]] = {
    "picked": lambda x, n: (x.gather(0, n), x.gather(-1, n[None]), x.index_select(0, n), x[None].gather(0, n)),
    "extrema": lambda x, n: (*x.max(0), *x.min(-1), x.argmax(0), x.argmin(), *x.cummax(0)),
    "ranked": lambda x, n: (*x.topk(1, 0), *x.kthvalue(1), *x.median(0), *x.sort()),
    "summed": lambda x, n: (x.sum(0), x.cumsum(0), x.logcumsumexp(0), x.var(0, correction=0), x.logsumexp(0)),
    "put": lambda x, n: (x.scatter(0, n, 2.0), x.scatter_add(0, n, x * 2), x.scatter_reduce(0, n, x + 1, "amax")),
}


@pytest.mark.parametrize("name", ALONG_A_ROW)
def test_what_has_no_dimension_is_a_row_of_one(name: str) -> None:
    run_whole(ALONG_A_ROW[name], torch.tensor(3.5), torch.tensor(0))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_whole_numbers_beyond_a_type_wrap(dtype: Any) -> None:
    x = torch.tensor([0, 1, 5, 7, 200, 255]).to(dtype)
    run_whole(lambda x: (x % -7, x.clamp(-3, 5), x // -7, torch.fmod(x, -7), x + 300, x * -2, -3 - x, x + 2**40), x)
    run_whole(lambda x: (x > -1, x < 300, x == 300, x != -5, x & -2, x | -256), x)
    run_whole(lambda x: (torch.add(x, x, alpha=-2), torch.where(x > 5, x, -1), torch.full_like(x, -1)), x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_integers_to_whole_powers(dtype: Any) -> None:
    run_whole(lambda x: (x**0, x**2, x**16, x**17, x**33, x**64), torch.tensor([-9, -1, 0, 1, 2, 9]).to(dtype))
