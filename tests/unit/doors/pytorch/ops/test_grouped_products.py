"""Products of rows in groups. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


def experts(name: str) -> Any:
    """The operator of `transformers`, as it declares it."""

    def multiply(input: Any, weight: Any, offs: Any) -> Any:  # noqa: A002 -- its name there
        made = torch.zeros(input.size(0), weight.size(2), dtype=input.dtype)
        start = 0
        for i, end in enumerate(offs.tolist()):
            made[start:end] = input[start:end] @ weight[i]
            start = end
        return made

    schema = "(Tensor input, Tensor weight, Tensor offs) -> Tensor"
    declared = torch.library.custom_op(name, multiply, mutates_args=(), schema=schema)
    declared.register_fake(lambda input, weight, offs: input.new_empty(input.size(0), weight.size(2)))  # noqa: A006
    return declared


@pytest.fixture(scope="module")
def grouped() -> Any:
    known = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    return experts("transformers::grouped_mm_fallback") if known is None else known


# Groups of a few rows are blocks of rows; a row each; none, and rows behind the last group.
@pytest.mark.parametrize("counts", [[9, 0, 22, 17], [1, 0, 0, 2], [0, 0, 0, 0], [3, 5, 0, 1, 0, 30]])
@pytest.mark.parametrize("rest", [0, 4])
def test_each_group_has_a_matrix(grouped: Any, counts: list[int], rest: int) -> None:
    weight, ends = torch.randn(len(counts), 6, 5), torch.tensor(counts).cumsum(0).to(torch.int32)
    rows = torch.randn(max(sum(counts) + rest, 1), 6)
    run_whole(lambda x, w, e: grouped(x, w, e) + 1, rows, weight, ends)


def test_halves_are_added_up_in_f32(grouped: Any) -> None:
    weight, ends = torch.randint(-9, 10, (3, 6, 5)).bfloat16(), torch.tensor([8, 9, 30])
    run_whole(grouped, torch.randint(-9, 10, (30, 6)).bfloat16(), weight, ends)


def test_pytorchs_own_operator() -> None:
    weight, ends = torch.randint(-9, 10, (2, 16, 8)).bfloat16(), torch.tensor([8, 24], dtype=torch.int32)
    rows = torch.randint(-9, 10, (24, 16)).bfloat16()
    run_whole(lambda x, w, e: torch._grouped_mm(x, w, offs=e), rows, weight, ends)
