"""Reductions and positions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import metasched as ms
from tests.support.onnx_models import check_some_rows, integers, model, node, random, run, some_rows, value

X = random(2, 3, 4)

REDUCTIONS: dict[str, Any] = {
    "ReduceL1": lambda x, a: np.abs(x).sum(a),
    "ReduceL2": lambda x, a: np.sqrt((x * x).sum(a)),
    "ReduceLogSumExp": lambda x, a: logsumexp(x, axis=a),
    "ReduceMax": lambda x, a: x.max(a),
    "ReduceMean": lambda x, a: x.mean(a),
    "ReduceMin": lambda x, a: x.min(a),
    "ReduceProd": lambda x, a: x.prod(a),
    "ReduceSum": lambda x, a: x.sum(a),
    "ReduceSumSquare": lambda x, a: (x * x).sum(a),
}


@pytest.mark.parametrize("op", sorted(REDUCTIONS))
@pytest.mark.parametrize("axes", [(1,), (0, -1)])
def test_reductions(op: str, axes: tuple[int, ...]) -> None:
    x = random(2, 3, 4)
    made = run(op, x, np.array(axes, np.int64), constants=(1,), keepdims=0)
    np.testing.assert_allclose(made, REDUCTIONS[op](x.astype(np.float64), axes), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_means_of_whole_numbers_are_rounded_towards_zero(dtype: Any) -> None:
    x = integers(5, 6, 4, low=-40 if np.issubdtype(dtype, np.signedinteger) else 0, high=41, dtype=dtype)
    made = run("ReduceMean", x, np.array([1], np.int64), constants=(1,), keepdims=0)
    np.testing.assert_array_equal(made, np.trunc(x.astype(np.float64).mean(axis=1)).astype(dtype))


def test_nothing_is_reduced_or_everything() -> None:
    assert run("ReduceSum", X, keepdims=0).shape == ()
    np.testing.assert_array_equal(run("ReduceSum", X, np.zeros(0, np.int64), constants=(1,), noop_with_empty_axes=1), X)


@pytest.mark.parametrize(
    ("op", "value"), [("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -np.inf), ("ReduceLogSumExp", -np.inf)]
)
def test_a_reduction_of_no_elements_is_what_it_starts_from(op: str, value: float) -> None:
    made = run(op, np.zeros((2, 0, 3), np.float32), np.array([1], np.int64), constants=(1,), keepdims=0)
    np.testing.assert_array_equal(made, np.full((2, 3), value))


def test_halves_are_summed_in_floats() -> None:
    x = np.full(5000, 1.0, np.float16)
    assert run("ReduceSum", x, keepdims=0) == 5000


@pytest.mark.parametrize("last", [0, 1])
def test_positions_of_extrema(last: int) -> None:
    x = np.float32([[3, 1, 3], [0, -1, -1]])
    np.testing.assert_array_equal(run("ArgMax", x, axis=1, keepdims=0, select_last_index=last), [2 if last else 0, 0])
    np.testing.assert_array_equal(run("ArgMin", x, axis=1, keepdims=0, select_last_index=last), [1, 2 if last else 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, bool], ids=str)
def test_of_as_many_elements_as_data_decide(dtype: Any) -> None:
    x = integers(6, 5, low=1, high=4).astype(dtype)
    ops = {"ReduceMax": np.max, "ReduceMin": np.min}
    if dtype is not bool:
        ops |= {"ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceSumSquare": lambda a, n: np.sum(a * a, n)}
    if np.issubdtype(dtype, np.floating):
        ops |= {"ReduceMean": np.mean, "ReduceL2": lambda a, n: np.sqrt(np.sum(a * a, n))}
    nodes = [node("Compress", "x mask", "some", axis=0)]
    nodes += [node(op, "some axes", op, keepdims=0) for op in ops]
    nodes += [node("ReduceMax", "some", "all", keepdims=0)]
    mask = np.array([True, False, True, True, False, True])
    net = ms.load_onnx(model(nodes, [value("x", x), value("mask", mask)], [*ops, "all"], {"axes": np.int64([0])}))
    *found, largest = net(x, mask)
    assert largest == x[mask].max()
    for op, got in zip(ops, found, strict=True):
        np.testing.assert_allclose(got, ops[op](x[mask], 0).astype(dtype), rtol=1e-3, err_msg=op)
    *_, none = net(x, ~mask & mask)
    assert none == (-np.inf if np.issubdtype(dtype, np.floating) else 0 if dtype is bool else np.iinfo(dtype).min)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, np.uint64, np.int8], ids=str)
def test_positions_among_as_many_elements_as_data_decide(dtype: Any) -> None:
    x = integers(7, 3, low=0, high=3, dtype=dtype)
    x[2] = x[4] = -np.inf if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).min
    x[1, 0] = x[3, 0] = np.inf if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max
    masks = [np.ones(7, bool), np.arange(7) > 3, x[:, 1] == x[2, 1], x[:, 0] == x[1, 0]]
    nodes = [
        node(op, "some", f"{op}{last}{axis}", axis=axis, select_last_index=last, keepdims=last)
        for op in ("ArgMax", "ArgMin")
        for last in (0, 1)
        for axis in (0, 1)
    ]
    nodes += [node("ReduceMax", "some first", "most"), node("ReduceMin", "some first", "least")]
    check_some_rows(nodes, [n.output[0] for n in nodes], x, masks, {"first": np.int64([0])})


def test_there_is_no_position_among_no_elements() -> None:
    nodes = [node("Compress", "x mask", "some", axis=0)]
    nodes += [node("ArgMax", "some", f"Y{last}", axis=0, select_last_index=last) for last in (0, 1)]
    net = ms.load_onnx(model(nodes, [value("x", X[0]), value("mask", X[0, :, 0] > 0)], ["Y0", "Y1"]))
    for made in net(X[0], np.zeros(3, bool)):
        np.testing.assert_array_equal(made, np.zeros((1, 4)))


def test_logarithms_of_sums_of_as_many_elements_as_data_decide() -> None:
    x = integers(6, 4, low=-90, high=90)
    masks = [np.arange(6) < n for n in (6, 1, 4)]
    nodes = [node("ReduceLogSumExp", "some first", "Y0"), node("ReduceLogSumExp", "some both", "Y1", keepdims=0)]
    known = {"first": np.int64([0]), "both": np.int64([0, 1])}
    check_some_rows(nodes, ["Y0", "Y1"], x.astype(np.float32), masks, known, 1e-5)
    # ONNX's reference gives floats for whole numbers.
    given = [value("x", x), value("mask", masks[0])]
    net = ms.load_onnx(model([*some_rows(2), nodes[0]], given, ["Y0"], {"junk": x.max(), "axes": [1], **known}))
    for mask in masks:
        np.testing.assert_array_equal(net(x, mask), logsumexp(x[mask], 0, keepdims=True).astype(np.int32))
