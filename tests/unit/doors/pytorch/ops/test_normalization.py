"""Normalisation by the statistics of a batch. Skipped without PyTorch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from metasched.doors.pytorch.backend import TorchBackend
from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


@pytest.mark.parametrize("affine", [False, True])
def test_by_the_statistics_of_each_channel(affine: bool) -> None:
    run_whole(torch.nn.InstanceNorm2d(3, affine=affine), torch.randn(2, 3, 4, 5))


def test_running_statistics_go_on() -> None:
    x, mine = torch.randn(4, 3, 2), torch.nn.BatchNorm1d(3)
    theirs, backend = copy.deepcopy(mine), TorchBackend()
    fast = torch.compile(mine, backend=backend, dynamic=False)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), theirs(x))
    torch.testing.assert_close(mine.running_mean, theirs.running_mean)
    torch.testing.assert_close(mine.running_var, theirs.running_var)
    assert [len(report.refused) for report in backend.reports] == [0]  # and they are inputs of one network


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [300, 1e-3])
def test_statistics_of_halves_are_added_up_in_single(dtype: Any, scale: float) -> None:
    x = (torch.randn(4, 3, 40) * scale + scale).to(dtype)
    for model in (torch.nn.functional.instance_norm, torch.nn.BatchNorm1d(3).to(dtype), torch.nn.BatchNorm1d(3)):
        theirs, backend = copy.deepcopy(model), TorchBackend()
        with torch.no_grad():
            have, want = torch.compile(model, backend=backend, dynamic=False)(x), theirs(x)
        torch.testing.assert_close(have, want, rtol=2e-2, atol=2e-2)
        if isinstance(model, torch.nn.Module):
            torch.testing.assert_close(list(model.buffers()), list(theirs.buffers()))
        assert [report.refused for report in backend.reports] == [()]
