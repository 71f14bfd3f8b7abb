"""How results of decompositions lie in memory. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from metasched.doors.pytorch import backend
from tests.support.torch_models import ReferenceNetwork, run, run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
F = torch.nn.functional
attention = F.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    torch.manual_seed(0)
    monkeypatch.setattr(backend, "Network", ReferenceNetwork)
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("moved", [(0, 1, 2, 3), (0, 2, 1, 3)])
@pytest.mark.parametrize("given", [{}, {"is_causal": True}, {"attn_mask": torch.ones(6, 6).tril().bool()}])
def test_attention_lies_in_memory_as_its_queries(given: dict[str, Any], moved: tuple[int, ...]) -> None:
    sizes = [(2, 4, 6, 8)[dim] for dim in moved]
    run_whole(lambda q: attention(q, q, q, **given), torch.randn(sizes).permute(moved))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: F.cross_entropy(x, torch.tensor([1, 0])),
        lambda x: (F.logsigmoid(x), F.binary_cross_entropy_with_logits(x, x.sigmoid())),
        lambda x: (*torch.std_mean(x, 1), *torch.aminmax(x)),
    ],
)
def test_results_that_are_named_tuples(model: Any) -> None:
    x = torch.randn(2, 5)
    run(model, x)
    with_gradient = x.clone().requires_grad_()
    torch.testing.assert_close(torch.compile(model, backend="metasched")(with_gradient), model(with_gradient))


def test_views_after_a_graph_break() -> None:
    def model(q: Any) -> Any:
        y = attention(q, q, q, is_causal=True)
        torch._dynamo.graph_break()
        return y.view(2, 4, 48) + 1

    assert len(run(model, torch.randn(2, 4, 6, 8)).networks) == 2
