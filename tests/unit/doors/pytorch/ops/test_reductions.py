"""Reductions along dimensions. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from metasched.doors.pytorch.backend import TorchBackend
from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [100, 1e-3])
def test_squares_and_powers_are_added_up_in_single(dtype: Any, scale: float) -> None:
    def model(x: Any) -> Any:
        return x.var(1), x.std(), *torch.var_mean(x, (0, 1)), torch.linalg.vector_norm(x, 3, 1)

    backend, x = TorchBackend(), (torch.randn(3, 40) * scale + scale).to(dtype)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=backend, dynamic=False)(x), model(x))
    assert [report.refused for report in backend.reports] == [()]


def test_extrema_of_bools_and_their_places() -> None:
    run_whole(lambda x: (*(x > 0).max(1), *(x > 0).min(0, keepdim=True)), torch.randn(3, 4))


@pytest.mark.parametrize("p", [0, 1, 2, 2.5, torch.inf])
def test_the_distance_of_two_tensors(p: float) -> None:
    run_whole(lambda x: torch.dist(x, x[:1] + 1, p), torch.randn(3, 4))
