"""Attention, and PyTorch's layers that are one operator. Skipped without PyTorch."""

from __future__ import annotations

import pytest

from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
nn = torch.nn
PADDING = [[False, False, True], [False, True, True]]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layers(norm_first: bool, activation: str) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation=activation)
    run_whole(layer.eval(), torch.randn(2, 3, 8))


def test_masks_of_encoder_layers() -> None:
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(2, 3, 8)
    causal = torch.ones(3, 3).triu(1).bool()
    run_whole(lambda x, m: layer(x, src_key_padding_mask=m), x, torch.tensor(PADDING))
    run_whole(lambda x, m: layer(x, src_mask=m), x, causal)
    run_whole(lambda x, m, p: layer(x, src_mask=m, src_key_padding_mask=p), x, causal, torch.tensor(PADDING))


def test_layers_of_heads() -> None:
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(2, 3, 8)
    run_whole(lambda x: layer(x, x, x), x)
    run_whole(lambda x: layer(x, x, x, average_attn_weights=False), x)
    run_whole(lambda x, y: layer(x, y, y, need_weights=False)[0], x, torch.randn(2, 5, 8))


def test_fast_paths_are_one_operator() -> None:
    size, x = 8, torch.randn(2, 3, 8)
    weights = [torch.randn(*shape) for shape in ((24, size), (24,), (size, size), (size,))]

    def heads(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._native_multi_head_attention(x, x, x, size, 2, *weights)

    run_whole(heads, x, x)
