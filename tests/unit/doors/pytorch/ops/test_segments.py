"""Reductions of segments. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.torch_models import run, run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
LENGTHS = torch.tensor([2, 0, 3, 1])


@pytest.mark.parametrize("reduce", ["max", "mean", "min", "prod", "sum"])
def test_segments_by_lengths_and_offsets(reduce: Any) -> None:
    def model(x: Any, lengths: Any) -> Any:
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return (
            torch.segment_reduce(x, reduce, lengths=lengths, unsafe=True),
            torch.segment_reduce(x[:, 0], reduce, offsets=offsets, unsafe=True),
        )

    run_whole(model, torch.randn(6, 3), LENGTHS)


@pytest.mark.parametrize("reduce", ["max", "mean", "sum"])
def test_rows_outside_of_all_segments_count_nowhere(reduce: Any) -> None:
    def model(x: Any, offsets: Any, lengths: Any) -> Any:
        return (
            torch.segment_reduce(x, reduce, offsets=offsets, unsafe=True),
            torch.segment_reduce(x, reduce, lengths=lengths, unsafe=True),
        )

    run_whole(model, torch.randn(8, 3), torch.tensor([2, 2, 5, 6]), torch.tensor([1, 0, 3]))


def test_a_value_that_segments_begin_with() -> None:
    run_whole(lambda x: torch.segment_reduce(x, "sum", lengths=LENGTHS, initial=2.0), torch.randn(6))
    refused = run(lambda x: torch.segment_reduce(x, "mean", lengths=LENGTHS, initial=2.0) * 2, torch.randn(6)).reports[
        0
    ]
    assert [operator.reason for operator in refused.refused] == ["a mean with an initial value has no form here"]
