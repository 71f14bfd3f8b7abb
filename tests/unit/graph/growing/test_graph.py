"""A decoder whose caches grow, as one network of fixed capacity: it gives what the whole sequence at once does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest

import metasched as ms
from metasched.graph.errors import NetworkError
from metasched.graph.ir import InPlace
from tests.support.decoders import Decoder

DECODER = Decoder(layers=1)
IDS = np.random.default_rng(3).integers(0, DECODER.words, DECODER.room)


@pytest.fixture(scope="module")
def grown() -> ms.NetworkOfSizes:
    """The decoder of one to five tokens after those so far."""
    net = ms.load_onnx(DECODER.growing_model(), seq=(1, 5), past=ms.GrowingSize(DECODER.room))
    assert isinstance(net, ms.NetworkOfSizes)
    return net


def decoded(network: Any, pieces: Sequence[int]) -> np.ndarray:
    network.state.reset()
    starts = np.cumsum([0, *pieces])
    made = [network(IDS[start : start + n], past=int(start)) for start, n in zip(starts, pieces, strict=False)]
    return np.concatenate(made)


@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 1, 5], [1, 5, 5, 1]])
def test_a_text_in_pieces_is_the_whole_text(grown: ms.NetworkOfSizes, pieces: list[int]) -> None:
    np.testing.assert_allclose(decoded(grown, pieces), DECODER.whole(IDS), rtol=2e-4, atol=2e-4)


def test_prompts_of_a_bucket_run_on_one_network_and_what_has_no_room_there_on_its_own(grown: ms.NetworkOfSizes) -> None:
    pieces = [3, 4, 4, 1]
    np.testing.assert_allclose(decoded(grown, pieces), DECODER.whole(IDS), rtol=2e-4, atol=2e-4)
    own = grown.bucket(seq=3)
    assert own is grown.bucket(seq=5)
    assert own is not None
    assert own.longest == DECODER.room - 5
    assert own.network.signature.held == grown.at(seq=1).signature.held
    states = {n.inputs[0] for n in own.network.optimised.nodes if isinstance(n, InPlace)}
    assert states >= set(DECODER.states)
    np.testing.assert_allclose(decoded(grown, [4, 4, 4]), DECODER.whole(IDS), rtol=2e-4, atol=2e-4)  # at 8, no room


@pytest.mark.peers
def test_calls_are_those_of_onnx_runtime_with_caches_that_grow(grown: ms.NetworkOfSizes) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = DECODER.growing_model()
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    caches = {name: np.zeros((1, DECODER.heads, 0, DECODER.head), np.float32) for name in DECODER.states}
    grown.state.reset()
    past = 0
    for count in (3, 1, 2, 1):
        ids = IDS[past : past + count]
        logits, *new = session.run(None, {"ids": ids, **caches})
        caches = dict(zip(caches, new, strict=True))
        np.testing.assert_allclose(grown(ids, past=past), logits, rtol=2e-4, atol=2e-4)
        past += count
        for name, cache in caches.items():
            np.testing.assert_allclose(grown.state[name][:, :, :past], cache, rtol=2e-4, atol=2e-4)


def test_caches_are_states_that_are_updated_where_they_lie(grown: ms.NetworkOfSizes) -> None:
    for seq in (1, 5):
        network = grown.at(seq=seq)
        assert list(network.inputs) == ["ids", "past"]
        assert list(network.outputs) == ["logits"]
        graph = network.optimised
        assert {n.inputs[0] for n in graph.nodes if isinstance(n, InPlace)} >= set(DECODER.states)
    decoded(grown, [5, 1])
    for cache in grown.state.values():
        assert cache.shape == (1, DECODER.heads, DECODER.room, DECODER.head)
        assert cache[:, :, :6].all()
        assert not cache[:, :, 6:].any()


@pytest.mark.parametrize("count", [1, (1, 5)])
def test_keys_whose_tokens_lie_side_by_side_are_updated_where_they_lie(count: int | tuple[int, int]) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        m (float[2, 8, p] past, float[2, 8, n] k, float[2, n, 8] q) => (float[2, 8, t] keys, float[2, n, 8] y) {
            keys = Concat<axis = 2>(past, k)
            scores = MatMul(q, keys)
            shares = Softmax<axis = -1>(scores)
            values = Transpose<perm = [0, 2, 1]>(keys)
            y = MatMul(shares, values)
        }"""
    )
    net = ms.load_onnx(model, n=count, p=ms.GrowingSize(12))
    keys, q = np.random.default_rng(0).standard_normal((2, 2, 8, 12)).astype(np.float32)
    begin = 0
    for n in (1, 1, 1) if count == 1 else (1, 3, 2, 1):
        end = begin + n
        found = net(keys[..., begin:end], q[..., begin:end].mT, p=begin)
        shares = np.exp(q[..., begin:end].mT @ keys[..., :end])
        shares /= shares.sum(-1, keepdims=True)
        np.testing.assert_allclose(found, shares @ keys[..., :end].mT, rtol=1e-4, atol=1e-5)
        begin = end
    assert any(isinstance(node, InPlace) for node in net.optimised.nodes)


@pytest.mark.parametrize("count", [1, (1, 2)])
def test_caches_whose_lengths_have_names_of_their_own_are_states(count: int | tuple[int, int]) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        m (float[p, 4] a, float[p2, 4] b, float[n, 4] x) => (float[q, 4] a2, float[q2, 4] b2, float[n, 4] y) {
            a2 = Concat<axis = 0>(a, x)
            b2 = Concat<axis = 0>(b, x)
            scores = Einsum<equation = "nk,pk->np">(x, a2)
            y = MatMul(scores, b2)
        }"""
    )
    net = ms.load_onnx(model, n=count, p=ms.GrowingSize(8), p2="p")
    assert list(net.state) == ["a", "b"]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for n in range(3):
        np.testing.assert_allclose(net(x[n : n + 1], p=n), x[n] @ x[: n + 1].T @ x[: n + 1] * np.ones((1, 1)))


def test_what_lies_behind_means_nothing(grown: ms.NetworkOfSizes) -> None:
    first = decoded(grown, [3, 1])
    for cache in grown.state.values():
        cache[:, :, 3:] = np.nan
    np.testing.assert_array_equal(grown(IDS[3:4], past=3), first[3:])


@pytest.mark.parametrize(
    ("past", "message"),
    [
        (12, "`past` is 12, and there is room for a call at 0 to 11\n  hint: load the model with a larger GrowingSize"),
        (-1, "`past` is -1, and how long caches are is not negative: .* there is room for a call at 0 to 11$"),
        (0.5, "one whole number"),
    ],
)
def test_lengths_without_room_are_refused(grown: ms.NetworkOfSizes, past: float, message: str) -> None:
    with pytest.raises(ms.KernelError, match=message):
        grown(IDS[:1], past=past)


def test_capacities_without_room_are_refused() -> None:
    model = DECODER.growing_model()
    with pytest.raises(NetworkError, match="a call adds 5 elements to caches that have room for 4"):
        ms.load_onnx(model, seq=5, past=ms.GrowingSize(4))
    with pytest.raises(NetworkError, match="at least 1"):
        ms.GrowingSize(0)
    with pytest.raises(NetworkError, match="one size may grow, and seq and past are to"):
        ms.load_onnx(model, seq=ms.GrowingSize(3), past=ms.GrowingSize(4))


@pytest.mark.parametrize("room", [1, 3])
def test_small_capacities(room: int) -> None:
    net = ms.load_onnx(DECODER.growing_model(), seq=1, past=ms.GrowingSize(room))
    np.testing.assert_allclose(decoded(net, [1] * room), DECODER.whole(IDS[:room]), rtol=2e-4, atol=2e-4)


def model(body: str) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 22]>\n{body}')


def test_masks_that_grow_are_given_as_long_as_they_are() -> None:
    body = """m (float[1, 2] x, float[1, past, 2] c, float[1, total] mask) => (y, next, seen)
    <int64[1] one = {1}, int64[1] two = {2}> {
        u = Unsqueeze(x, one)  next = Concat<axis=1>(c, u)
        m = Unsqueeze(mask, two)  seen = Mul(next, m)
        y = ReduceSum<keepdims=0>(seen, one) }"""
    net = ms.load_onnx(model(body), past=ms.GrowingSize(5), total="past + 1")
    rows = np.arange(1, 11, dtype=np.float32).reshape(5, 2)
    for n in range(5):
        mask = np.float32([[0.0] + [1.0] * n])
        total, seen = net(rows[n : n + 1], mask, n)
        np.testing.assert_array_equal(seen[0], rows[: n + 1] * mask[0][:, None])
        np.testing.assert_array_equal(total, seen.sum(1))
    with pytest.raises(ms.KernelError, match=r"`mask` has the shape \(1, 3\), and at `past` 3 it is to have \(1, 4\)"):
        net(rows[:1], np.zeros((1, 3), np.float32), 3)
    with_room = np.ones((1, 5), np.float32)
    np.testing.assert_array_equal(net(rows[3:4], with_room, 3)[1][0], rows[:4])


def test_masks_that_grow_are_given_as_long_as_they_are_at_every_size() -> None:
    body = """m (float[1, seq, 2] x, float[1, past, 2] c, float[1, total] mask) => (y, next, seen, means)
    <int64[1] one = {1}, int64[1] two = {2}> {
        next = Concat<axis=1>(c, x)
        m = Unsqueeze(mask, two)  seen = Mul(next, m)
        y = ReduceSum<keepdims=0>(seen, one)  means = ReduceMean<keepdims=0>(x, one) }"""
    net = ms.load_onnx(model(body), seq=ms.SizeRange(1, 4, buckets=(4,)), past=ms.GrowingSize(9), total="past + seq")
    rows = np.arange(1, 19, dtype=np.float32).reshape(9, 2)
    past = 0
    for count in (3, 2, 4):
        end = past + count
        mask = np.float32([[0.0] + [1.0] * (end - 1)])
        total, seen, means = net(rows[None, past:end], mask, past)
        np.testing.assert_array_equal(seen[0], rows[:end] * mask[0][:, None])
        np.testing.assert_allclose(total, seen.sum(1), rtol=1e-6)
        np.testing.assert_allclose(means[0], rows[past:end].mean(0), rtol=1e-6)
        past = end
    with pytest.raises(ms.KernelError, match=r"`mask` has the shape \(1, 3\), and at `past` 3 it is to have \(1, 5\)"):
        net(rows[None, 3:5], np.zeros((1, 3), np.float32), 3)


def test_inputs_with_room_for_all_are_taken_at_every_size_and_length() -> None:
    body = """m (float[1, seq, 2] x, float[1, past, 2] c, float[1, total] mask) => (y, next, seen)
    <int64[1] one = {1}, int64[1] two = {2}> {
        next = Concat<axis=1>(c, x)
        m = Unsqueeze(mask, two)  seen = Mul(next, m)
        y = ReduceSum<keepdims=0>(seen, one) }"""
    grows = ms.GrowingSize(24, buckets=(6, 12))
    net = ms.load_onnx(model(body), seq=ms.SizeRange(1, 5, buckets=(2, 5)), past=grows, total="past + seq")
    assert net.inputs["mask"].dims == (1, 24)  # type: ignore[union-attr]
    rows = np.arange(1, 49, dtype=np.float32).reshape(24, 2)
    with_room = np.ones((1, 24), np.float32)
    past = 0
    for count in (3, 2, 1, 5, 4, 5, 2, 1, 1):
        total, seen = net(rows[None, past : past + count], with_room, past)
        past += count
        np.testing.assert_array_equal(seen[0], rows[:past])
        np.testing.assert_array_equal(total, seen.sum(1))
    assert past == 24
    with pytest.raises(ms.KernelError, match=r"`mask` has the shape \(1, 23\), and at `past` 0 it is to have \(1, 3\)"):
        net(rows[None, :3], with_room[:, 1:], 0)


def test_tables_windows_and_means_at_the_length() -> None:
    body = """m (float[1, 2] x, float[past, 2] c) => (y, next)
    <float[9, 2] table = {0, 9, 1, 8, 2, 7, 3, 6, 4, 5, 5, 4, 6, 3, 7, 2, 8, 1},
     int64[1] zero = {0}, int64 first = {0}, int64[1] one = {1}> {
        next = Concat<axis=0>(c, x)
        s = Shape<start=0, end=1>(c)  n = Gather(s, first)  place = Gather(table, n)
        mean = ReduceMean<keepdims=0>(next, zero)
        end = Add(s, one)  last = Slice(next, s, end, zero)
        total = Add(mean, place)  y = Add(total, last) }"""
    net = ms.load_onnx(model(body), past=ms.GrowingSize(9))
    rows = np.random.default_rng(0).standard_normal((9, 2)).astype(np.float32)
    table = np.stack([np.arange(9), 9 - np.arange(9)], 1).astype(np.float32)
    for n in range(9):
        expected = rows[: n + 1].mean(0) + table[n] + rows[n]
        np.testing.assert_allclose(net(rows[n : n + 1], n)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            """m (float[1, 2] x, float[past, 2] c) => (y, next) <int64[1] flat = {-1}> {
                next = Concat<axis=0>(c, x)  y = Reshape(next, flat) }""",
            "grows by 2",
        ),
        (
            """m (float[1, 2] x, float[past, 2] c) => (y, next) <int64[1] rows = {0}, int64[1] few = {-2},
                int64[1] end = {99}> { next = Concat<axis=0>(c, x)  y = Slice(next, few, end, rows) }""",
            r"at 0 it is another: `y` has the shape \(1, 2\) there, and not \(2, 2\)",
        ),
        (
            """m (float[1, 2] x, float[past, 2] c) => (y, next) <int64 zero = {0}, int64[1] two = {2},
                float[3, 2] table = {1, 2, 3, 4, 5, 6}> { next = Concat<axis=0>(c, x)
                n = Shape<start=0, end=1>(c)  few = Min(n, two)  place = Gather(table, few)  y = Add(place, next) }""",
            "at 1 it is another: `few` is",
        ),
    ],
)
def test_what_depends_on_the_length_otherwise_is_refused(body: str, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        ms.load_onnx(model(body), past=ms.GrowingSize(20))


def test_a_slice_may_begin_and_end_where_the_length_says() -> None:
    body = """m (float[1, 2] x, float[past, 2] c) => (y, next) <int64[1] axes = {0}> {
        next = Concat<axis=0>(c, x)  n = Shape<start=0, end=1>(c)  four = Constant<value_ints=[4]>()
        few = Min(n, four)  y = Slice(next, few, n, axes) }"""
    net = ms.load_onnx(model(body), past=ms.GrowingSize(20))
    rows = np.random.default_rng(0).random((7, 2)).astype(np.float32)
    for past in range(7):
        found = net(rows[past : past + 1], past=past)
        np.testing.assert_array_equal(found, rows[: past + 1][min(past, 4) : past])


def test_a_length_at_which_a_node_has_no_meaning_is_not_compared() -> None:
    """Of no row there is no largest, so the model has no graph at 0; at all others it is one network."""
    body = """m (float[1, 2] x, float[past, 2] c) => (y, next) {
        next = Concat<axis=0>(c, x)  largest = ArgMax<axis=0>(c)  y = Cast<to=1>(largest) }"""
    with pytest.raises(ms.RefusedModel, match="no elements along its axis 0"):
        ms.load_onnx(model(body), past=0)
    net = ms.load_onnx(model(body), past=ms.GrowingSize(6))
    rows = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
    for n in range(6):
        found = net(rows[n : n + 1], n)[0]
        if n:
            np.testing.assert_array_equal(found, rows[:n].argmax(0))


def test_a_table_may_be_used_up_at_the_longest() -> None:
    body = """m (float[1, 2] x, float[past, 2] c) => (y, next) <int64[1] first = {0}, int64[1] rows = {0},
        float[7, 2] table = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}> { next = Concat<axis=0>(c, x)
        n = Shape<start=0, end=1>(next)  part = Slice(table, first, n, rows)  y = Add(part, next) }"""
    net = ms.load_onnx(model(body), past=ms.GrowingSize(7))
    x = np.zeros((1, 2), np.float32)
    for n in range(7):
        y = net(x, n)
        np.testing.assert_array_equal(y, np.arange(1, 2 * n + 3, dtype=np.float32).reshape(n + 1, 2))
    with pytest.raises(NetworkError, match="do not broadcast"):
        ms.load_onnx(model(body), past=ms.GrowingSize(8))
