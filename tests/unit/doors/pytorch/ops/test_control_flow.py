"""Operators that run graphs. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.torch_models import run, run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own


@pytest.mark.parametrize("sign", [1, -1])
def test_a_condition_of_data_chooses_one_graph(sign: int) -> None:
    weight = torch.ones(3, 3)

    def model(x: Any, y: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: (x @ weight, y.sum(0)), lambda x: (x - 1, (x * y).sum(0)), (x,))

    run_whole(model, torch.full((2, 3), float(sign)), torch.ones(2, 3))


def test_a_loop_ends_where_data_say() -> None:
    from torch._higher_order_ops import while_loop

    def roots(x: Any) -> Any:
        def better(y: Any, change: Any) -> Any:
            new = 0.5 * (y + x / y)
            return new, (new - y).abs().amax()

        return while_loop(lambda y, change: change > 1e-6, better, (x.clone(), x.sum()))

    run_whole(roots, torch.tensor([0.5, 2.0, 9.0]))
    run_whole(roots, torch.zeros(3))  # no step


def test_a_loop_counts() -> None:
    from torch._higher_order_ops import while_loop

    def powers(x: Any) -> Any:
        return while_loop(lambda n, y: n < 4, lambda n, y: (n + 1, y * x), (torch.tensor(0), torch.ones_like(x)))

    run_whole(powers, torch.tensor([0.5, 2.0, 3.0]))


def test_a_scan_takes_a_step_for_each_element() -> None:
    from torch._higher_order_ops.map import map as mapped
    from torch._higher_order_ops.scan import scan

    def model(x: Any, weight: Any, start: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = torch.tanh(x + h @ weight)
            return h, h * 2

        return *scan(step, start, x, dim=0), mapped(lambda row, w: (row @ w).sum(-1), x, weight)

    run_whole(model, torch.rand(5, 2, 3), torch.rand(3, 3), torch.rand(2, 3))


def test_what_a_graph_lacks_is_told() -> None:
    def model(x: Any) -> Any:
        return torch.cond(x.sum() > 0, torch.matrix_exp, lambda x: x + 1, (x,))

    ((refused,),) = (report.refused for report in run(model, torch.eye(3)).reports)
    assert str(refused).startswith("cond: aten.linalg_matrix_exp, which it runs: no program")
