"""One graph for all sizes up to a largest gives what a graph of just a size gives; what cannot be so is refused."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import metasched as ms
from metasched.graph.buckets.bucket import Bucket, Sizes, masked_graph
from metasched.graph.buckets.comparison import NotAlike
from metasched.graph.buckets.masking import mask_graph
from metasched.graph.ir import Graph
from metasched.graph.loops import unrolled

HEAD = '<ir_version: 10, opset_import: ["": 22]> m '

# Along `n` and `b` each: reductions, products, windows, borders, views that join sizes, and indices.
MODELS = {
    "softmax, mean and variance along a free dimension": """(float[b, n, 3] x) => (y, v, l, a) {
        y = Softmax<axis=1>(x)
        m = ReduceMean<keepdims=1>(x, axes)
        d = Sub(x, m)
        q = Mul(d, d)
        v = ReduceMean<keepdims=0>(q, axes)
        l = ReduceLogSumExp<keepdims=0>(x, axes)
        a = ArgMax<axis=1, select_last_index=1>(x)
    }""",
    "attention over all places, with batch and places as one dimension": """(float[b, n, 4] x) => (y) {
        flat = Reshape(x, rows)
        k = MatMul(flat, w)
        like = Shape(x)
        apart = Reshape(k, like)
        t = Transpose<perm=[0, 2, 1]>(apart)
        s = MatMul(x, t)
        p = Softmax(s)
        y = MatMul(p, apart)
    }""",
    "windows and borders": """(float[b, 2, n] x) => (y, p, a) {
        c = Conv<kernel_shape=[3], pads=[1, 1], strides=[2]>(x, f)
        p = MaxPool<kernel_shape=[2], pads=[0, 1], strides=[2]>(c)
        y = GlobalAveragePool(c)
        a = AveragePool<kernel_shape=[3], pads=[1, 1]>(c)
    }""",
    "concatenations, mirrors and running sums": """(float[b, n] x) => (y, r, c) {
        y = Concat<axis=1>(x, x)
        r = Slice(x, last, first, one, back)
        c = CumSum(x, one)
    }""",
}  # fmt: skip
WEIGHTS = """<int64[1] axes = {1}, int64[2] rows = {-1, 4}, float[2, 2, 3] f = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3},
float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7},
int64[1] last = {-1}, int64[1] first = {-99}, int64[1] one = {1}, int64[1] back = {-1}>"""


def graph_of(text: str, sizes: dict[str, int]) -> Graph:
    signature, _, body = text.partition("{")
    model = onnx.parser.parse_model(f"{HEAD}{signature}{WEIGHTS}{{{body}")
    used = [tensor for tensor in model.graph.initializer if any(tensor.name in node.input for node in model.graph.node)]
    del model.graph.initializer[:]
    model.graph.initializer.extend(used)
    return ms.load_onnx(model, **sizes).graph


def bucket_of(text: str, other: str = "") -> Bucket:
    """The bucket of a model up to its largest sizes, which says something else at sizes that are read later."""
    largest, ranges = {"b": 3, "n": 9}, {"b": range(2, 4), "n": range(4, 10)}
    samples = [{"b": 2, "n": 9}, {"b": 3, "n": 4}]
    read = masked_graph(largest, samples, lambda sizes: graph_of(text, dict(sizes)))
    network = ms.Network(read.graph.graph)
    return Bucket(largest, ranges, network, lambda: read, lambda sizes: graph_of(other or text, dict(sizes)))


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_results_are_those_of_every_size(text: str) -> None:
    bucket = bucket_of(text)
    for b, n in ((2, 7),):
        exact = ms.Network(graph_of(text, {"b": b, "n": n}))
        x = np.random.default_rng(n).standard_normal(next(iter(exact.inputs.values())).shape).astype(np.float32)
        sizes = bucket.sizes({"b": b, "n": n})
        assert sizes is not None
        made, wanted = bucket.run_on(bucket.network.state, sizes, [x]), exact(x)
        for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (made, wanted)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_model_is_read_for_few_sizes_of_a_bucket() -> None:
    text = "(float[b, n] x) => (y) { t = Transpose(x) s = MatMul(x, t) y = Softmax(s) }"
    seen: list[dict[str, int]] = []

    def graph_at(sizes: Sizes) -> Graph:
        seen.append(dict(sizes))
        return graph_of(text, seen[-1])

    read = masked_graph({"b": 2, "n": 99}, [{"b": 2, "n": 50}], graph_at)
    ranges = {"b": range(2, 3), "n": range(50, 100)}
    bucket = Bucket({"b": 2, "n": 99}, ranges, ms.Network(read.graph.graph), lambda: read, graph_at)
    for n in range(50, 100):
        found = bucket.sizes({"b": 2, "n": n})
        assert found is not None
        assert found.inputs["x"].shape == (2, n)
    assert [sizes["n"] for sizes in seen] == [99, 50, 51, 66]


def test_what_is_beyond_a_calls_sizes_counts_for_nothing_even_where_it_is_not_a_number() -> None:
    text = """(float[b, n] x) => (y) {
        r = Reciprocal(x)
        t = Transpose(r)
        y = MatMul(r, t)
    }"""  # of zeros beyond the sizes, infinities
    bucket = bucket_of(text)
    x = np.arange(1, 11, dtype=np.float32).reshape(2, 5)
    sizes = bucket.sizes({"b": 2, "n": 5})
    assert sizes is not None
    np.testing.assert_allclose(bucket.run_on(bucket.network.state, sizes, [x]), (1 / x) @ (1 / x).T, rtol=1e-6)


def test_a_view_that_takes_a_size_apart_is_refused() -> None:
    text = """(float[b, n] x) => (y) {
        p = Reshape(x, pairs)
        y = ReduceSum<keepdims=0>(p, one)
    }"""
    pairs = WEIGHTS.replace("int64[1] last", "int64[3] pairs = {0, 2, -1}, int64[1] last")
    made = [graph_of_with(text, pairs, {"b": 2, "n": n}) for n in (8, 6)]
    with pytest.raises(NotAlike, match="takes a size apart"):
        mask_graph(made[0], made[1:])


def test_a_dimension_that_is_longer_at_smaller_sizes_is_refused() -> None:
    text = """(float[b, n] x) => (y) {
        all = Shape(x)
        n = Slice(all, one, two)
        y = Slice(rows, n, last)
    }"""  # as a model pads to a length
    rows = WEIGHTS.replace("int64[1] last", "int64[1] two = {2}, float[6] rows = {1, 2, 3, 4, 5, 6}, int64[1] last")
    made = [graph_of_with(text, rows, {"b": 2, "n": n}) for n in (4, 2)]
    with pytest.raises(NotAlike, match=r"a dimension of `.*` is 3 long here, and 1 at the largest sizes"):
        mask_graph(made[0], made[1:])


def test_a_size_between_those_that_were_read_with_a_longer_dimension_has_no_place_in_the_bucket() -> None:
    text = """(float[b, n] x) => (y) {
        all = Shape(x)
        n = Slice(all, one, two)
        less = Sub(twelve, n)
        k = Mul(n, less)
        b = Shape<end=1>(x)
        sizes = Concat<axis=0>(b, k)
        zero = Sub(one, one)
        first = Slice(x, zero, one, one)
        y = Expand(first, sizes)
    }"""
    more = WEIGHTS.replace("int64[1] last", "int64[1] two = {2}, int64[1] twelve = {12}, int64[1] last")
    largest, sample, between = (graph_of_with(text, more, {"b": 2, "n": n}) for n in (9, 2, 6))
    masked = mask_graph(largest, [sample])  # of 27 and 20 elements
    assert masked.numbers_of(sample)
    with pytest.raises(NotAlike, match="is 36 long here, and 27 at the largest sizes"):
        masked.numbers_of(between)


def graph_of_with(text: str, weights: str, sizes: dict[str, int]) -> Graph:
    signature, _, body = text.partition("{")
    model = onnx.parser.parse_model(f"{HEAD}{signature}{weights}{{{body}")
    return ms.load_onnx(model, **sizes).graph


def test_a_size_for_which_the_model_says_something_else_has_no_place_in_the_bucket() -> None:
    text = "(float[b, n] x, float[n, b] z) => (y) { y = MatMul(x, z) }"
    other = "(float[b, n] x, float[n, b] z) => (y) { k = MatMul(x, z) y = Relu(k) }"
    bucket = bucket_of(text, other)
    assert bucket.sizes({"b": 2, "n": 5}) is None


# Loops of as many steps as a size says; `b` is another size, of what each step has.
LOOPS = {
    "what steps make and what is left": """
        s = Add(g, e)
        f = Tanh(s)
    """,
    "steps that go by another size": """
        t = Add(g, e)
        f = Softmax<axis=0>(t)
        zero = Constant<value_ints=[0]>()
        m = ReduceMean(t, zero)
        s = Sub(t, m)
    """,
    "products along another size, of what is not a number beyond it": """
        r = Reciprocal(e)
        u = Transpose(r)
        k = MatMul(u, g)
        f = MatMul(e, k)
        s = Add(f, g)
    """,
    "steps that read nothing of what they go through": """
        s = Sin(g)
        f = Add(g, s)
    """,
    "steps in steps": """
        f = Add(g, e)
        zero = Constant<value_ints=[0]>()
        z = ReduceSum<keepdims=0>(f, zero)
        l, s = Scan<num_scan_inputs=1, body = inner (float[3] k, float[3] i) => (float[3] m, float[3] o) {
            d = Add(k, i)
            m = Tanh(d)
            o = Neg(m)
        }>(z, e)
    """,
}


def looped(body: str, more: str = "") -> str:
    """A model that goes through `n` places with such a step, which makes `f` of a state and an element, and `s`."""
    return f"""(float[n, b, 3] x, float[b, 3] h) => (after, seen) {{
        after, seen = Scan<num_scan_inputs=1{more},
          body = step (float[b, 3] g, float[b, 3] e) => (float[b, 3] f, float[b, 3] s) {{ {body} }}>(h, x)
    }}"""


@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
def test_loops_take_as_many_steps_as_a_call_has(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrolled, "_MOST_PROGRAMS", 0)
    bucket = bucket_of(looped(body))
    for b, n in ((2, 7), (3, 9), (3, 4)):
        exact, rng = ms.Network(graph_of(looped(body), {"b": b, "n": n})), np.random.default_rng(n)
        given = [(rng.random(type_.shape) + 0.5).astype(np.float32) for type_ in exact.inputs.values()]
        sizes = bucket.sizes({"b": b, "n": n})
        assert sizes is not None
        for found, wanted in zip(bucket.run_on(bucket.network.state, sizes, given), exact(*given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
    (loop,) = bucket.network.graph.loops
    assert loop.most == 9
    assert loop.is_ended_by_data


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            looped("s = Add(g, e) f = Tanh(s)", ", scan_input_directions = [1]"),
            "goes backwards through as many elements",
        ),
        (
            """(float[b, n] x) => (y) {
                k = Shape<start=1>(x)
                most = Squeeze(k)
                y = Loop(most, , x) <body = step (int64 i, bool c, float[b, n] g) => (bool d, float[b, n] f) {
                    d = Identity(c)
                    f = Tanh(g)
                }>
            }""",
            "is a loop whose number of steps depends on sizes in another way",
        ),
        (
            """(float[b, n] x, bool go) => (y) {
                y = Loop(, go, x) <body = step (int64 i, bool c, float[b, n] g) => (bool d, float[b, n] f) {
                    f = Tanh(g)
                    d = Identity(go)
                }>
            }""",
            "is a loop that data may end",
        ),
    ],
)
def test_loops_that_go_by_sizes_in_other_ways_are_refused(
    text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrolled, "_MOST_PROGRAMS", 0)
    graphs = [graph_of(text, {"b": 3, "n": n}) for n in (9, 4)]
    with pytest.raises(NotAlike, match=reason):
        mask_graph(graphs[0], graphs[1:])
