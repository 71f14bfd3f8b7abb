"""Products of bf16: which values become bf16, and that results are as near as bf16 can be."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.graph.ir import Graph
from metasched.graph.passes.pipeline import PassOptions, optimise_graph
from metasched.graph.precision.choice import ProductPrecision
from metasched.target import Target
from tests.support.graphs import by_reference, network, random_inputs

# Half a unit in the last place of bf16.
HALF = 2.0**-9


def narrowed(body: str) -> tuple[Graph, Graph]:
    """The graphs of a network in f32 and in bf16, after all passes."""
    graph = network(body).graph
    target = Target.detect()
    return optimise_graph(graph, PassOptions(target)), optimise_graph(
        graph, PassOptions(target, precision=ProductPrecision.BF16)
    )


def require_near(wide: Graph, narrow: Graph, roundings: float = 8) -> None:
    """Raise AssertionError where results differ by more than some roundings of bf16, or by nothing at all."""
    inputs = random_inputs(wide)
    for a, b in zip(by_reference(wide, inputs), by_reference(narrow, inputs), strict=True):
        assert a.dtype == b.dtype
        assert 0 < np.linalg.norm(a - b) <= roundings * HALF * np.linalg.norm(a)


def types(graph: Graph) -> dict[str, DType]:
    return {name: type_.dtype for name, type_ in graph.types.items()}


def with_weights(body: str, **weights: tuple[int, ...]) -> str:
    """A network's text with random weights of these shapes for its initialisers `NAME = ...`."""
    rng = np.random.default_rng(0)
    listed = []
    for name, shape in weights.items():
        values = ", ".join(f"{value:.4f}" for value in rng.standard_normal(np.prod(shape)))
        listed.append(f"float[{', '.join(map(str, shape))}] {name} = {{{values}}}")
    return body.replace("WEIGHTS", f"<{', '.join(listed)}>")


MLP = with_weights(
    "m (float[4, 8] x) => (y) WEIGHTS { a = MatMul(x, w)  b = Add(a, c)  r = Relu(b)  y = MatMul(r, u) }",
    w=(8, 16),
    u=(16, 4),
    c=(16,),
)


def test_weights_and_values_between_products_are_bf16() -> None:
    wide, narrow = narrowed(MLP)
    assert types(narrow) == {
        "x": DType.F32,
        "y": DType.F32,
        "r": DType.BF16,
        "c": DType.F32,
        "w.bf16": DType.BF16,
        "u.bf16": DType.BF16,
    }
    require_near(wide, narrow)


def test_products_are_added_up_in_f32() -> None:
    first, second = (str(node.program) for node in narrowed(MLP)[1].computes)
    assert "sum[r0 < 8](f32(An[i0, r0]) * f32(B[r0, i1]))" in first
    assert "Y[i0, i1] = bf16(max(T0[i0, i1] + C[i1], 0))" in first
    assert "sum[r0 < 16](f32(A[i0, r0]) * f32(B[r0, i1]))" in second


def test_another_precision_changes_nothing() -> None:
    wide, _ = narrowed(MLP)
    assert DType.BF16 not in types(wide).values()


def test_attention_keeps_scores_and_its_softmax_in_f32() -> None:
    wide, narrow = narrowed(
        """m (float[2, 4, 8] q, float[2, 8, 4] k, float[2, 4, 8] v) => (y) {
            s = MatMul(q, k)  p = Softmax(s)  a = MatMul(p, v)  y = Relu(a)
        }"""
    )
    assert types(narrow)["s"] is DType.F32
    assert types(narrow)["p"] is DType.BF16
    require_near(wide, narrow)


def test_fully_masked_rows_stay_finite() -> None:
    body = """m (float[2, 4] q, float[4, 4] k) => (y) <float[1] low = {-3.4e38}> {
        s = MatMul(q, k)  m = Add(s, low)  p = Softmax(m)  y = MatMul(p, k)
    }"""
    _, narrow = narrowed(body)
    (y,) = by_reference(narrow, random_inputs(narrow))
    assert np.isfinite(y).all()


def test_a_layer_norm_reads_f32_and_its_squares_are_no_product() -> None:
    wide, narrow = narrowed(
        with_weights(
            """m (float[4, 8] x) => (y) WEIGHTS {
                a = MatMul(x, w)  s = Add(a, x)  n = LayerNormalization(s, c, b)  y = MatMul(n, w)
            }""",
            w=(8, 8),
            c=(8,),
            b=(8,),
        )
    )
    assert types(narrow)["s"] is DType.F32
    assert types(narrow)["n"] is DType.BF16
    require_near(wide, narrow)
    squares = network("m (float[4, 8] x) => (y) { y = ReduceSumSquare<keepdims = 1>(x) }").graph
    made = optimise_graph(squares, PassOptions(Target.detect(), precision=ProductPrecision.BF16))
    assert DType.BF16 not in types(made).values()


def test_a_border_around_a_convolution_is_of_bf16_from_the_start() -> None:
    wide, narrow = narrowed(
        with_weights(
            """m (float[1, 4, 5, 5] x) => (y) WEIGHTS {
                a = Conv<pads = [1, 1, 1, 1]>(x, w, b)  r = Relu(a)  y = Conv<pads = [1, 1, 1, 1]>(r, u)
            }""",
            w=(4, 4, 3, 3),
            b=(4,),
            u=(3, 4, 3, 3),
        )
    )
    first, second = (str(node.program) for node in narrow.computes)
    assert "T0: bf16[1, 4, 7, 7]" in first
    # What is moved only is not converted on the way.
    assert "T0[i0, i1, i2, i3] = A[i0, i1, i2 - 1, i3 - 1] if" in second
    require_near(wide, narrow)


def test_what_is_joined_with_bf16_is_bf16() -> None:
    """A mean stays f32 by itself; joined with what products made it would have to be rounded and copied there."""
    wide, narrow = narrowed(
        with_weights(
            """m (float[1, 4, 4, 4] x) => (y, z) WEIGHTS {
                a = Conv(x, w)  m = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(a)
                s = Sigmoid(m)  c = Conv(s, w)  j = Concat<axis = 1>(m, c)
                y = Conv(j, u)  k = Sigmoid(j)  z = Conv(k, u)
            }""",
            w=(4, 4, 1, 1),
            u=(2, 8, 1, 1),
        )
    )
    (pool,) = (node.program for node in narrow.computes if node.op == "AveragePool")
    assert "-> Y: bf16[4, 2, 2]" in str(pool)
    assert "Concat" not in {node.op for node in narrow.computes}  # its parts are computed in place
    require_near(wide, narrow)


def test_a_picture_of_three_colours_is_multiplied_in_f32() -> None:
    """A third of each product of pairs would be padding, and more of a tile's."""
    body = "m (float[1, 3, 6, 6] x) => (y) WEIGHTS { a = Conv(x, w)  r = Relu(a)  y = Conv(r, u) }"
    wide, narrow = narrowed(with_weights(body, w=(4, 3, 3, 3), u=(2, 4, 1, 1)))
    assert "w.bf16" not in types(narrow)
    assert {types(narrow)[name] for name in ("r", "u.bf16")} == {DType.BF16}
    require_near(wide, narrow)


def test_windows_of_each_channel_are_multiplied_in_f32() -> None:
    """No instruction multiplies them, and each element of a border would be made f32 for each place of the filter."""
    wide, narrow = narrowed(
        with_weights(
            """m (float[1, 4, 6, 6] x) => (y) WEIGHTS {
                a = Conv(x, w)  d = Conv<pads = [1, 1, 1, 1], group = 4>(a, u)  r = Relu(d)  y = Conv(r, w)
            }""",
            w=(4, 4, 1, 1),
            u=(4, 1, 3, 3),
        )
    )
    assert {name: types(narrow)[name] for name in ("a", "r")} == {"a": DType.BF16, "r": DType.BF16}
    assert not any(name.startswith("u.") for name in types(narrow))
    window = str(list(narrow.computes)[1].program)
    assert "T0: f32[1, 4, 8, 8]" in window
    assert "T0[i0, i1, i2, i3] = f32(A[i0, i1, i2 - 1, i3 - 1]) if" in window
    require_near(wide, narrow)


@pytest.mark.parametrize(("size", "factors"), [(16, DType.BF16), (8, DType.F32)])
def test_groups_of_channels_that_fill_vectors_are_multiplied_in_bf16(size: int, factors: DType) -> None:
    body = "m (float[1, CHANNELS, 4, 4] x) => (y) WEIGHTS { y = Conv<group = 2, pads = [1, 1, 1, 1]>(x, w) }"
    _, narrow = narrowed(with_weights(body.replace("CHANNELS", str(2 * size)), w=(2 * size, size, 3, 3)))
    (node,) = narrow.computes
    assert {narrow.types[name].dtype for name in node.inputs if name.startswith("w")} == {factors}


def test_windows_that_are_read_once_are_bf16() -> None:
    """Half as much of their weights comes from memory."""
    body = "m (float[1, 4, 3, 3] x) => (y) WEIGHTS { y = Conv<group = 4>(x, u) }"
    _, narrow = narrowed(with_weights(body, u=(4, 1, 3, 3)))
    assert types(narrow)["u.bf16"] is DType.BF16


def test_a_result_of_the_network_that_is_multiplied_too_stays_f32() -> None:
    wide, narrow = narrowed(
        with_weights(
            "m (float[4, 8] x) => (a, y) WEIGHTS { a = MatMul(x, w)  y = MatMul(a, w) }",
            w=(8, 8),
        )
    )
    assert types(narrow)["a"] is DType.F32
    assert "An[i0, r0]" in str(list(narrow.computes)[1].program)
    require_near(wide, narrow)


def test_a_weight_that_is_read_otherwise_too_stays_in_f32_as_well() -> None:
    _, narrow = narrowed(
        with_weights(
            "m (float[4, 8] x, int64[4] i) => (y, z) WEIGHTS { y = MatMul(x, w)  z = Gather(w, i) }",
            w=(8, 8),
        )
    )
    assert types(narrow)["w"] is DType.F32
    assert types(narrow)["w.bf16"] is DType.BF16


def test_values_behind_views_go_with_what_they_are_views_of() -> None:
    wide, narrow = narrowed(
        with_weights(
            """m (float[4, 8] x) => (y) WEIGHTS {
                a = MatMul(x, w)  n = Relu(a)  s = Softmax(n)  v = Reshape(s, t)  y = MatMul(v, w)
            }""".replace("WEIGHTS {", "WEIGHTS { t = Constant<value_ints = [2, 2, 8]>() "),
            w=(8, 8),
        )
    )
    assert types(narrow)["s"] is types(narrow)["v"] is DType.BF16
    require_near(wide, narrow)


def test_a_model_in_f16_is_multiplied_in_bf16() -> None:
    """As what it computes besides is f16, its results are."""
    wide, narrow = narrowed(
        with_weights(
            """m (float16[4, 8] x) => (y) WEIGHTS {
                v = Cast<to = 10>(w)  d = Cast<to = 10>(c)  t = Cast<to = 10>(u)
                a = MatMul(x, v)  b = Add(a, d)  r = Relu(b)  y = MatMul(r, t)
            }""",
            w=(8, 16),
            u=(16, 4),
            c=(16,),
        )
    )
    kinds = types(narrow)
    assert {kinds[name] for name in ("x", "y", "d")} == {DType.F16}
    assert {kinds[name] for name in ("r", "v.bf16", "t.bf16")} == {DType.BF16}
    first = str(next(iter(narrow.computes)).program)
    assert "sum[r0 < 8](f32(An[i0, r0]) * f32(B[r0, i1]))" in first
    assert "An[i0, i1] = bf16(A[i0, i1])" in first
    require_near(wide, narrow, roundings=10)


def test_a_network_is_loaded_in_a_precision() -> None:
    text = f'<ir_version: 10, opset_import: ["": 22]>\n{MLP}'
    wide, narrow = (ms.load_onnx(onnx.parser.parse_model(text), precision=p) for p in ("f32", "bf16"))
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    error = np.linalg.norm(narrow(x) - wide(x)) / np.linalg.norm(wide(x))
    assert 0 < error < 8 * HALF
    assert narrow.precision is ProductPrecision.BF16
    with pytest.raises(ms.NetworkError, match='no precision \'fp8\': there is "f32", "bf16"'):
        ms.load_onnx(onnx.parser.parse_model(text), precision="fp8")
