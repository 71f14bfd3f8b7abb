"""Recurrent layers, which PyTorch traces where it is told to. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.torch_models import run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
nn = torch.nn

LAYERS: dict[str, Any] = {
    "lstm": lambda: nn.LSTM(4, 5, batch_first=True),
    "both ways": lambda: nn.LSTM(4, 5, 2, bidirectional=True),
    "without biases": lambda: nn.LSTM(4, 5, bias=False),
    "gru": lambda: nn.GRU(4, 5),
    "rnn": lambda: nn.RNN(4, 5),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_pytorchs(name: str) -> None:
    with torch._dynamo.config.patch(allow_rnn=True):
        run_whole(LAYERS[name]().eval(), torch.randn(3, 2, 4))
