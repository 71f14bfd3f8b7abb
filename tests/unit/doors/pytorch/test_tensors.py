"""Tensors as arrays and arrays as tensors. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metasched.doors.pytorch.tensors import as_tensor, layout, memory_order
from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


@pytest.mark.parametrize(
    "like",
    [
        torch.empty(2, 3),
        torch.empty(2, 3, 4).permute(2, 0, 1),
        torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.empty(1, 3, 4).as_strided((1, 3, 4), (99, 4, 1)),
        torch.empty(0, 4),
        torch.empty(3, 0, 2).permute(2, 1, 0),
    ],
)
def test_arrays_have_the_strides_of_what_they_stand_for(like: Any) -> None:
    array = np.zeros([like.shape[dim] for dim in memory_order(like)], np.float32)
    made = as_tensor(array, layout(like))
    assert (made.shape, made.stride()) == (like.shape, like.stride())


def test_empty_results_of_kernels_have_strides() -> None:
    torch._dynamo.reset()
    run_whole(lambda x: torch.cat([x, x + 1]), torch.zeros(0, 4))
