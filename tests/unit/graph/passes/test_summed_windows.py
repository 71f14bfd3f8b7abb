"""Sums of convolutions and scales of one value are one convolution."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import metasched as ms
from metasched.graph.ir import Graph
from metasched.graph.passes.declaration import PassContext, PassOptions
from metasched.graph.passes.pipeline import optimise_graph
from metasched.graph.passes.summed_windows import summed_windows
from metasched.graph.precision.choice import ProductPrecision
from metasched.target import Target
from tests.support.graphs import context, parsed, require_equal

CHANNELS = (
    "float[4] s = {1, 2, 3, 4}, float[4] b = {0.1, 0.2, 0.3, 0.4}, float[4] mean = {1, 0.5, 0.2, 0.3}, "
    "float[4] v = {1, 1, 2, 3}, float zero = {0}"
)
SHAPES = {
    "square": (4, 4, 3, 3),
    "row": (4, 4, 1, 3),
    "small": (4, 4, 1, 1),
    "large": (4, 4, 5, 5),
    "depthwise": (4, 1, 3, 3),
    "scale": (4, 1, 1, 1),
    "groups": (4, 2, 3, 3),
}


def graph_of(body: str, size: str = "1, 4, 6, 7") -> Graph:
    model = parsed(f"m (float[{size}] x) => (y) <{CHANNELS}> {{ {body} }}")
    random = np.random.default_rng(0)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(random.standard_normal(shape, np.float32), name) for name, shape in SHAPES.items()
    )
    return ms.load_onnx(model).graph


def summed(body: str, size: str = "1, 4, 6, 7") -> Graph:
    """The graph of a network after the pass, which computes the same."""
    graph = graph_of(body, size)
    made = summed_windows(graph, context())
    made.validate()
    require_equal(graph, made)
    return made


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.computes]


BRANCHES = [
    "p = Conv<pads = [1, 1, 1, 1]>(x, square)  q = Conv(x, small)",
    "p = Conv<pads = [1, 1, 1, 1]>(x, square)  q = Conv<pads = [0, 1, 0, 1]>(x, row)",
    "p = Conv(x, small)  q = Conv<pads = [1, 1, 1, 1]>(x, square)",
    "p = Conv<pads = [1, 1, 1, 1]>(x, square)  q = Conv<group = 4, pads = [1, 1, 1, 1]>(x, depthwise)",
    "p = Conv<pads = [2, 2, 2, 2]>(x, large)  q = Conv<pads = [2, 2, 2, 2], dilations = [2, 2]>(x, square)",
    "p = Conv<pads = [1, 1, 1, 1]>(x, square)  q = Identity(x)",
    "p = Conv<group = 4, pads = [1, 1, 1, 1]>(x, depthwise)  q = Conv<group = 4>(x, scale)",
    "p = Conv<group = 4, pads = [2, 1, 0, 1]>(x, depthwise)  q = Conv<group = 4>(x, scale)",
]


@pytest.mark.parametrize("size", ["1, 4, 6, 7", "3, 4, 6, 7", "2, 4, 5, 1"])
@pytest.mark.parametrize("terms", BRANCHES)
def test_branches_are_one_convolution(terms: str, size: str) -> None:
    assert ops(summed(f"{terms}  t = Add(p, q)  y = Relu(t)", size)) == ["Conv", "Relu"]


@pytest.mark.parametrize("terms", BRANCHES)
def test_branches_over_one_pixel_compute_the_same(terms: str) -> None:
    summed(f"{terms}  t = Add(p, q)  y = Relu(t)", "1, 4, 1, 1")


def test_strides_of_all_branches_are_the_same() -> None:
    strided = "p = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, square)"
    assert ops(summed(f"{strided}  q = Conv<strides = [2, 2]>(x, small)  y = Add(p, q)")) == ["Conv"]
    assert ops(summed(f"{strided}  q = AveragePool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(x)"
                      "  y = Add(p, q)")) == ["Conv", "AveragePool", "Add"]  # fmt: skip


def test_offsets_are_added_to_the_result() -> None:
    graph = summed(
        """p = Conv<pads = [1, 1, 1, 1]>(x, square, b)  q = Conv(x, small, s)
        r = BatchNormalization(x, s, b, mean, v)  t = Add(p, q)  z = Add(t, zero)  y = Add(z, r)"""
    )
    assert ops(graph) == ["Conv", "Add"]


def test_a_scaled_branch_is_added_to_another() -> None:
    graph = summed(
        """p = Conv<group = 4>(x, scale, b)  q = BatchNormalization(p, s, b, mean, v)
        r = Conv<pads = [1, 1, 1, 1]>(x, square)  y = Add(q, r)"""
    )
    assert "BatchNormalization" not in ops(graph)


def test_batch_norms_of_branches_go_into_their_weights() -> None:
    graph = summed(
        """p = Conv<pads = [1, 1, 1, 1]>(x, square)  q = BatchNormalization(p, s, b, mean, v)
        r = Conv(x, small, s)  t = BatchNormalization(r, b, s, mean, v)
        u = BatchNormalization(x, s, b, mean, v)  w = Add(q, t)  y = Add(w, u)"""
    )
    assert ops(graph) == ["Conv", "Add"]


@pytest.mark.parametrize(
    "body",
    [
        # Places that the other has not.
        "p = Conv<pads = [1, 1, 1, 1]>(x, square)  q = Conv<pads = [1, 0, 1, 2]>(x, square)  y = Add(p, q)",
        # Another value.
        "z = Relu(x)  p = Conv<pads = [1, 1, 1, 1]>(x, square)  q = Conv(z, small)  y = Add(p, q)",
        # Read elsewhere, too.
        "p = Conv<pads = [1, 1, 1, 1]>(x, square)  q = Conv(x, small)  t = Add(p, q)  y = Mul(t, q)",
        # Channels in groups.
        "p = Conv<group = 2, pads = [1, 1, 1, 1]>(x, groups)  q = Conv(x, small)  y = Add(p, q)",
        # Channels that are mixed by the smaller window alone.
        "p = Conv<group = 4, pads = [1, 1, 1, 1]>(x, depthwise)  q = Conv(x, small)  y = Add(p, q)",
        # A border of other numbers.
        """e = Pad<mode = "edge">(x, around)  p = Conv(e, square)  q = Conv(x, small)  y = Add(p, q)""",
    ],
)
def test_what_stays_apart(body: str) -> None:
    around = "around = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>()  " if "around" in body else ""
    assert ops(summed(around + body)).count("Conv") == 2


def test_what_is_no_product_is_not_rounded_as_one() -> None:
    options = PassContext(PassOptions(Target.detect(), precision=ProductPrecision.BF16))
    square = "p = Conv<pads = [1, 1, 1, 1]>(x, square)"
    assert ops(summed_windows(graph_of(f"{square}  y = Add(p, x)"), options)) == ["Conv", "Add"]
    assert ops(summed_windows(graph_of(f"{square}  q = Conv(x, small)  y = Add(p, q)"), options)) == ["Conv"]


def test_a_network_with_branches_computes_what_they_do() -> None:
    graph = graph_of(
        "p = Conv<pads = [1, 1, 1, 1]>(x, square, b)  q = Conv(x, small, s)  t = Add(p, q)  u = Add(t, x)  y = Relu(u)"
    )
    require_equal(graph, optimise_graph(graph, PassOptions(Target.detect())))
