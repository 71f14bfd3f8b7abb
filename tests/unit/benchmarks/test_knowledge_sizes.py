"""The sizes that knowledge is collected for: in an order whose beginnings are spread."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from benchmarks.knowledge import collect
from benchmarks.knowledge.first_layers import FIRST_LAYERS, FirstLayer
from benchmarks.knowledge.sizes import Sized, _spread
from benchmarks.network_shapes import LAYERS
from metasched.knowledge.anchor import anchor_of


def test_an_order_is_spread_over_a_list() -> None:
    assert _spread(10) == [0, 8, 4, 2, 6, 1, 9, 5, 3, 7]
    assert [sorted(_spread(n)) for n in range(40)] == [list(range(n)) for n in range(40)]


def test_sizes_with_enough_records_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(*_: object, **__: object) -> None:
        raise ms.NoRecord("nothing was valid")

    sizes = [Sized("transpose", (("M", m), ("N", 8))) for m in (4, 5)]
    monkeypatch.setattr(collect, "_records_of", lambda program, *_: dict(program.params)["M"])
    monkeypatch.setattr(ms, "tune", tune)
    (line,) = collect.collected(sizes, "sqlite:///:memory:", trials=5, until=float("inf"))
    assert line == {"case": "transpose M=4 N=8", "failure": "nothing was valid"}
    assert list(collect.collected(sizes, "sqlite:///:memory:", trials=5, until=0.0)) == []


@pytest.mark.parametrize("pad", [0, 2])
def test_a_first_layer_is_a_convolution_with_an_activation(pad: int) -> None:
    layer = FirstLayer(9, 3, 2, pad, 4, "silu")
    rng = np.random.default_rng(0)
    image, filters, bias = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 9, 9), (3, 3, 3, 4), (4,)))
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(image[0], ((0, 0), (pad, pad), (pad, pad))), (3, 3), (1, 2)
    )
    x = np.einsum("chwrs,rsco->hwo", windows[:, ::2, ::2], filters) + bias
    found = ms.reference(layer.program())(image, filters, bias)
    np.testing.assert_allclose(found[0], x / (1 + np.exp(-x)), rtol=1e-4, atol=1e-5)


def test_no_first_layer_has_the_anchor_of_one_that_guesses_are_judged_by() -> None:
    def size(program: ms.Program) -> tuple[object, ...]:
        anchor = anchor_of(program.func)
        return anchor.kind, anchor.extents, anchor.steps

    judged = {size(layer.program()) for layer in LAYERS}
    assert not [layer.case for layer in FIRST_LAYERS if size(layer.program()) in judged]
