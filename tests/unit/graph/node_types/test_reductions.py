"""Reductions and positions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import metasched as ms
from tests.support.onnx_models import integers, model, node, random, run, value

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
