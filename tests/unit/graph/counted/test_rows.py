"""Nodes that read values with a size that only a call knows: by rows, and what is refused."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.graph.signature import DeferredGraph
from tests.support.onnx_models import model, node, random, value

X = random(3, 4, 5)
HOLDS = [node("Greater", "x zero", "holds"), node("NonZero", "holds", "places"), node("Transpose", "places", "rows")]
KNOWN = {
    "zero": np.float32(0),
    "one": np.int64([1]),
    "first": np.int64([0]),
    "last": np.int64([-1]),
    "two": np.int64([2]),
    "pair": np.int64([2, 1]),
    "many": np.int64([1000]),
    "none": np.int64(0),
    "three": np.int64([0, 1, 2]),
}


def loaded(*nodes: Any, outputs: tuple[str, ...] = ("Y",)) -> ms.Network:
    return ms.load_onnx(model([*HOLDS, *nodes], [value("x", X)], outputs, KNOWN))


def test_what_computes_each_row_from_one_row_has_as_many() -> None:
    net = loaded(
        node("GatherND", "x rows", "some"),
        node("Unsqueeze", "some one", "column"),
        node("Cast", "rows", "floats", to=1),
        node("Concat", "column floats", "joined", axis=1),
        node("Softmax", "floats", "shares"),
        node("ReduceSum", "floats one", "sums", keepdims=0),
        node("Reshape", "sums last", "flat"),
        node("Gather", "places none", "planes"),
        outputs=("joined", "shares", "flat", "planes"),
    )
    places = np.argwhere(X > 0)
    joined, shares, flat, planes = net(X)
    np.testing.assert_array_equal(joined, np.column_stack([X[X > 0], places]).astype(np.float32))
    powers = np.exp(places)
    np.testing.assert_allclose(shares, powers / powers.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(flat, places.sum(1))
    np.testing.assert_array_equal(planes, places[:, 0])
    assert [len(found) for found in net(-np.abs(X))] == [0] * 4


@pytest.mark.parametrize(
    ("product", "outer"),
    [
        (node("MatMul", "shares values", "Y"), "MatMul"),
        (node("Gemm", "shares values", "Y"), "Gemm"),
        (node("Einsum", "shares values", "Y", equation="ij,jk->ik"), "Einsum"),
    ],
    ids=["MatMul", "Gemm", "Einsum"],
)
def test_products_summed_over_all_rows_that_are_there(product: Any, outer: str) -> None:
    """Attention to the places that a mask has, and products of each two columns of these."""
    columns = {
        "MatMul": [node("MatMul", "keys values", "P")],
        "Gemm": [node("Gemm", "values values", "P", transA=1)],
        "Einsum": [node("Einsum", "values values", "P", equation="ki,kj->ij")],
    }[outer]
    net = loaded(
        node("Cast", "rows", "values", to=1),
        node("Transpose", "values", "keys"),
        node("Gather", "x none", "plane", axis=2),
        node("Gather", "plane three", "queries", axis=1),
        node("MatMul", "queries keys", "scores"),
        node("Softmax", "scores", "shares"),
        product,
        *columns,
        outputs=("Y", "P"),
    )
    one = np.where(np.arange(60).reshape(X.shape) == 33, X, -np.abs(X))
    one.reshape(-1)[33] = 1.0
    for x in (X, one):
        values, queries = np.argwhere(x > 0).astype(np.float32), x[:, :3, 0]
        powers = np.exp(queries @ values.T)
        made, outer_product = net(x)
        np.testing.assert_allclose(made, powers / powers.sum(1, keepdims=True) @ values, rtol=1e-5)
        np.testing.assert_allclose(outer_product, values.T @ values, rtol=1e-5)
    np.testing.assert_array_equal(net(-np.abs(X))[1], np.zeros((3, 3)))


@pytest.mark.parametrize(("start", "end"), [(0, 5), (2, 9), (3, 10**6), (50, 70)])
def test_a_part_from_the_first_on(start: int, end: int) -> None:
    known = {**KNOWN, "start": np.int64([start]), "end": np.int64([end])}
    made = model([*HOLDS, node("Slice", "rows start end first")], [value("x", X)], ["Y"], known)
    np.testing.assert_array_equal(ms.load_onnx(made)(X), np.argwhere(X > 0)[start:end])


def test_sums_up_to_each_row() -> None:
    np.testing.assert_array_equal(loaded(node("CumSum", "rows none"))(X), np.argwhere(X > 0).cumsum(0))


def test_elements_picked_of_those_there() -> None:
    index = np.int64([0, -1, 2, 59, -60])  # the last two are not there, and pick zero
    found = X[X > 0]
    wanted = [found[0], found[-1], found[2], 0, 0]
    picking = [node("GatherND", "x rows", "some"), node("Gather", "some index", "Y")]
    pairs = [
        node("GatherND", "x rows", "some"),
        node("Unsqueeze", "index one", "pairs"),
        node("GatherND", "some pairs"),
    ]
    along = [node("GatherND", "x rows", "some"), node("GatherElements", "some index", "Y")]
    for nodes in (picking, pairs, along):
        made = model([*HOLDS, *nodes], [value("x", X), value("index", index)], ["Y"], KNOWN)
        np.testing.assert_array_equal(ms.load_onnx(made)(X, index), wanted)
    constant = model([*HOLDS, *picking], [value("x", X)], ["Y"], {**KNOWN, "index": index})
    np.testing.assert_array_equal(ms.load_onnx(constant)(X), wanted)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (node("CumSum", "rows none", reverse=1), "elements at other places are read"),
        (node("Squeeze", "rows"), "it names no axes, and data decide"),
        (node("Compress", "rows known", axis=0), "data decide how many elements its input 0 has along its dimension 0"),
        (node("SequenceConstruct", "rows"), "what SequenceConstruct gives depends on how many there are"),
        (node("Tile", "rows pair"), "elements at other places are read"),
        (node("MatMul", "rows places"), "it is read together with another one"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.op_type,
)
def test_what_does_not_go_by_rows_is_refused(made: Any, reason: str) -> None:
    known = {**KNOWN, "known": np.array([True, False, True])}
    with pytest.raises(ms.RefusedModel, match=reason) as caught:
        ms.load_onnx(model([*HOLDS, made], [value("x", X)], ["Y"], known))
    assert [refusal.op for refusal in caught.value.refusals] == [made.op_type]


KNOWN_PLACES = {**KNOWN, "per_row": np.arange(60, dtype=np.float32), "row": np.float32([7])}


@pytest.mark.parametrize(
    "combined",
    [
        [node("Add", "some per_row", "Y")],
        [node("Less", "per_row some", "Y")],
        [
            node("Cast", "per_row", "whole", to=7),
            node("Cast", "some", "others", to=7),
            node("Mul", "whole others", "Y"),
        ],
        [
            node("Unsqueeze", "some one", "rows_of_one"),
            node("Unsqueeze", "per_row one", "all"),
            node("Mul", "all rows_of_one", "Y"),
        ],
    ],
    ids=["Add", "Less", "cast", "columns"],
)
def test_one_row_is_not_repeated_for_as_many_as_are_known(combined: list[Any]) -> None:
    """ONNX repeats it, and calls another number of rows than there are elements an error."""
    given = model([*HOLDS, node("GatherND", "x rows", "some"), *combined], [value("x", X)], ["Y"], KNOWN_PLACES)
    with pytest.raises(
        ms.RefusedModel, match="read together with another one, of 60, where there may be fewer"
    ) as caught:
        ms.load_onnx(given)
    assert [refusal.op for refusal in caught.value.refusals] == [combined[-1].op_type]


def test_one_element_is_repeated_for_as_many_rows_as_data_decide() -> None:
    nodes = [*HOLDS, node("GatherND", "x rows", "some"), node("Add", "some row", "Y")]
    np.testing.assert_array_equal(ms.load_onnx(model(nodes, [value("x", X)], ["Y"], KNOWN_PLACES))(X), X[X > 0] + 7)


def test_exports_and_networks_on_disk_return_as_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "m.onnx"
    path.write_bytes(model(HOLDS, [value("x", X)], ["places", "rows"], KNOWN).SerializeToString())
    first = ms.load_onnx(path)
    wanted = first(X)
    again = ms.load_onnx(path)
    assert isinstance(again._given, DeferredGraph)
    again.export(tmp_path / "counted_rows_export")
    monkeypatch.syspath_prepend(tmp_path)
    run = importlib.import_module("counted_rows_export.network").run
    for found in (wanted, again(X), run(X)):
        np.testing.assert_array_equal(found[0], np.nonzero(X > 0))
        np.testing.assert_array_equal(found[1], np.argwhere(X > 0))
        assert all(one.flags.c_contiguous for one in found)
    assert "along its dimension 1" in str(again.graph)
    for name in [name for name in sys.modules if name.startswith("counted_rows_export")]:
        del sys.modules[name]


def test_sizes_that_are_ranges_have_networks_of_their_own() -> None:
    from onnx import helper

    given = helper.make_tensor_value_info("x", 1, ["n", 5])
    net = ms.load_onnx(model(HOLDS, [given], ["rows"], KNOWN), n=(1, 4))
    for n in (1, 4):
        x = random(n, 5)
        np.testing.assert_array_equal(net(x), np.argwhere(x > 0))
