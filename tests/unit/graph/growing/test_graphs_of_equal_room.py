"""Graphs with the same room of a model whose caches grow, which threads ask for at once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import metasched as ms
from tests.support.decoders import Decoder


class LosingAll(OrderedDict[Any, Any]):
    """What is kept is let go of at once, as by a thread that keeps something else."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.clear()


def test_what_others_let_go_of_is_not_missed() -> None:
    decoder = Decoder(layers=1)
    net = ms.load_onnx(decoder.growing_model(), seq=(1, 5), past=ms.GrowingSize(decoder.room))
    assert isinstance(net, ms.NetworkOfSizes)
    assert net._grown is not None
    graphs = net._grown({"seq": 4})
    (longest,) = graphs.rooms
    graphs._kept = LosingAll()
    assert set(graphs.graph({"seq": 3}, longest).states) == set(decoder.states)
