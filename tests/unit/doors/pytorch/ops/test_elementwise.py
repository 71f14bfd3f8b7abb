"""Operators of elements that are more than an expression of NumPy's. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
ENDS = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -3.5, 1e-30, 3e38, torch.inf, -torch.inf, torch.nan])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("function", [torch.lgamma, torch.digamma, torch.erfinv])
def test_gamma_functions_and_the_inverse_of_erf(function: Any, dtype: Any) -> None:
    run_whole(function, torch.cat([ENDS, torch.linspace(-0.99, 0.99, 41), torch.linspace(-6, 12, 60)]).to(dtype))
    run_whole(function, torch.arange(-2, 3))
