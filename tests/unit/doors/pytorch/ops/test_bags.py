"""Bags of embeddings. Skipped without PyTorch."""

from __future__ import annotations

import pytest

from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 0])
def test_bags_of_one_size_and_of_several(mode: str, padding: int | None) -> None:
    bag = torch.nn.EmbeddingBag(5, 4, mode=mode, padding_idx=padding)
    run_whole(bag, torch.tensor([[0, 3, 4], [0, 0, 0]]))
    run_whole(lambda i: bag(i, torch.tensor([0, 2, 2, 5])), torch.tensor([1, 2, 0, 3, 0, 4]))
    run_whole(bag, torch.tensor([1, 2, 0, 3]), torch.tensor([0, 1]))


def test_weighted_bags() -> None:
    bag = torch.nn.EmbeddingBag(5, 4, mode="sum", include_last_offset=True)
    index, weights = torch.tensor([1, 2, 0, 3]), torch.randn(4)
    run_whole(lambda i, w: bag(i, torch.tensor([0, 3, 4]), per_sample_weights=w), index, weights)
