"""Elements moved and repeated, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import helper

import metasched as ms
from tests.support.onnx_models import model, node, random, run, value

X = random(2, 3, 4)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def test_axes_are_permuted() -> None:
    np.testing.assert_array_equal(run("Transpose", X), X.T)
    np.testing.assert_array_equal(run("Transpose", X, perm=[1, 0, 2]), X.transpose(1, 0, 2))


def test_tensors_are_joined_and_empty_ones_skipped() -> None:
    empty = np.zeros((2, 0, 4), np.float32)
    np.testing.assert_array_equal(run("Concat", X, empty, -X, axis=-2), np.concatenate([X, -X], 1))
    np.testing.assert_array_equal(run("Concat", empty, X, axis=1), X)


def test_tensors_are_split() -> None:
    x = random(7)
    first, second, third = run("Split", x, outputs=3, num_outputs=3)
    np.testing.assert_array_equal(np.concatenate([first, second, third]), x)
    assert third.shape == (1,)
    first, second = run("Split", x, ints(2, 5), constants=(1,), outputs=2)
    np.testing.assert_array_equal(second, x[2:])


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ((ints(1), ints(1000), ints(2), ints(2)), np.s_[:, :, 1::2]),
        ((ints(-1), ints(-1000), ints(1), ints(-1)), np.s_[:, ::-1]),
        ((ints(3, 0), ints(0, 1), ints(2, 0), ints(-2, 1)), np.s_[:1, :, 3:0:-2]),
        ((ints(2), ints(1), ints(1), ints(1)), np.s_[:, 2:1]),
        ((ints(-9), ints(-1000), ints(1), ints(-1)), np.s_[:, :1]),
    ],
)
def test_parts_are_taken(part: tuple[Any, ...], expected: Any) -> None:
    np.testing.assert_array_equal(run("Slice", X, *part, constants=(1, 2, 3, 4)), X[expected])


@pytest.mark.parametrize("steps", [(), (ints(1),)])
@pytest.mark.parametrize("axis", [0, -1])
def test_parts_between_places_that_data_decide(axis: int, steps: tuple[Any, ...]) -> None:
    x, known = random(5, 6), {"axis": ints(axis)} | {f"step{n}": step for n, step in enumerate(steps)}
    nodes = [node("Slice", " ".join(["x", "begin", "end", *known]))]
    net = ms.load_onnx(model(nodes, [value("x", x), value("begin", ints(0)), value("end", ints(0))], ("Y",), known))
    for begin, end in [(1, 3), (0, 99), (4, 2), (-2, 9), (-9, -1), (9, 12), (0, 0)]:
        wanted = x[begin:end] if axis == 0 else x[:, begin:end]
        np.testing.assert_array_equal(net(x, ints(begin), ints(end)), wanted)
    from_two = ms.load_onnx(model(nodes, [value("x", x), value("end", ints(0))], ("Y",), known | {"begin": ints(2)}))
    np.testing.assert_array_equal(from_two(x, ints(4)), x[2:4] if axis == 0 else x[:, 2:4])


def test_steps_between_places_that_data_decide_are_refused() -> None:
    nodes, bounds = [node("Slice", "x begin end axis step")], [value("begin", ints(0)), value("end", ints(0))]
    whole = model(nodes, [value("x", X), *bounds], ("Y",), {"axis": ints(0), "step": ints(2)})
    with pytest.raises(ms.RefusedModel, match="its starts, `begin`, is computed from data, and decides"):
        ms.load_onnx(whole)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_steps_of_a_loop_reduce_segments(op: str) -> None:
    """As exporters write `EmbeddingBag`: a step takes the rows between two offsets."""
    x, known = random(9, 4), {"zero": ints(0), "one": ints(1), "three": np.int64(3), "true": np.array(True)}
    of_body = [
        node("Reshape", "step one", "first"),
        node("Add", "first one", "second"),
        node("Slice", "offsets first second zero", "begin"),
        node("Add", "second one", "third"),
        node("Slice", "offsets second third zero", "end"),
        node("Slice", "x begin end zero", "rows"),
        node(op, "rows zero", "made", keepdims=0),
        node("Identity", "goes_on", "goes_on_still"),
    ]
    given = [value("step", np.int64(0)), value("goes_on", np.array(True))]
    body = helper.make_graph(of_body, "body", given, [value("goes_on_still", np.array(True)), value("made", x[0])])
    whole = model(
        [node("Loop", "three true", body=body)], [value("x", x), value("offsets", ints(0, 0, 0, 0))], ("Y",), known
    )
    net, reduced = ms.load_onnx(whole), {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max}[op]
    for offsets in (ints(0, 3, 4, 9), ints(2, 3, 8, 9)):
        wanted = [reduced(x[a:b], axis=0) for a, b in itertools.pairwise(offsets)]
        np.testing.assert_allclose(net(x, offsets), wanted, rtol=1e-6)


def test_elements_are_repeated() -> None:
    np.testing.assert_array_equal(
        run("Expand", X[:, :1], ints(3, 1), constants=(1,)), np.broadcast_to(X[:, :1], (2, 3, 4))
    )
    np.testing.assert_array_equal(run("Tile", X, ints(1, 2, 2), constants=(1,)), np.tile(X, (1, 2, 2)))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_several_elements_repeated_as_often_as_data_say_are_as_many_as_they_are(rank: int) -> None:
    """As PyTorch writes `x[mask] = rows`: there are as many rows as places where the mask holds."""
    x, mask, rows = random(9, 4), np.isin(np.arange(9), (1, 2, 7)), random(*(1, 3, 4)[3 - rank :], seed=1)
    nodes = [
        node("NonZero", "mask", "by_dimension"),
        node("Transpose", "by_dimension", "places"),
        node("Shape", "places", "size"),
        node("Slice", "size first one", "n"),
        node("Concat", "n four", "wanted", axis=0),
        node("Expand", "rows wanted", "updates"),
        node("Reshape", "updates three", "flat"),
        node("ScatterND", "x places flat", "Y"),
    ]
    if rank == 1:
        rows, nodes[6] = rows[:1].repeat(4), node("Identity", "updates", "flat")
    known = {"first": ints(0), "one": ints(1), "four": ints(4), "three": ints(3, 4)}
    net = ms.load_onnx(model(nodes, [value("x", x), value("mask", mask), value("rows", rows)], ("Y",), known))
    wanted = x.copy()
    wanted[mask] = rows
    np.testing.assert_array_equal(net(x, mask, rows), wanted)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(mode: str) -> None:
    x = random(1, 8, 2, 3)
    axes = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    parts = x.reshape((1, 2, 2, 2, 2, 3)).transpose(axes).reshape(1, 2, 4, 6)
    made = run("DepthToSpace", x, blocksize=2, mode=mode)
    np.testing.assert_array_equal(made, parts)
    if mode == "DCR":
        np.testing.assert_array_equal(run("SpaceToDepth", made, blocksize=2), x)


@pytest.mark.parametrize("k", [-1, 0, 2])
@pytest.mark.parametrize("known", [(), (1,)])
def test_triangles(k: int, known: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(run("Trilu", X, np.array(k, np.int64), constants=known, upper=0), np.tril(X, k))


def test_rows_are_reversed_up_to_their_lengths() -> None:
    x = random(4, 2)
    made = run("ReverseSequence", x, ints(3, 1), time_axis=0, batch_axis=1)
    np.testing.assert_array_equal(made[:, 0], x[[2, 1, 0, 3], 0])
    np.testing.assert_array_equal(made[:, 1], x[:, 1])
