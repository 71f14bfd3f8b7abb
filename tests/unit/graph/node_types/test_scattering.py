"""Elements replaced or joined with others at places that are data or known, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import metasched as ms
from metasched.graph.fusion.stages import stages_of
from metasched.graph.ir import Compute
from metasched.ir.source import Reduce
from tests.support.onnx_models import integers, model, node, random, run, value


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def is_searched(network: ms.Network) -> bool:
    """Whether an element looks through updates."""
    forms = [stages_of(n.program) for n in network.graph.nodes if isinstance(n, Compute)]
    return any(isinstance(stage.value, Reduce) for form in forms if form is not None for stage in form.stages)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_stretch_of_a_cache_is_replaced(mode: str) -> None:
    if onnx.defs.onnx_opset_version() < 24:
        pytest.skip("the installed onnx does not know TensorScatter")
    cache, update = random(2, 4, 3), random(2, 2, 3, seed=1)
    starts = ints(3 if mode == "circular" else 2, 0)
    expected = cache.copy()
    for batch, start in enumerate(starts):
        expected[batch, (start + np.arange(2)) % 4] = update[batch]
    made = run("TensorScatter", cache, update, starts, opset=24, axis=1, mode=mode)
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(run("TensorScatter", cache, update, opset=24, axis=1)[:, :2], update)


@pytest.mark.parametrize(
    ("mode", "ufunc"), [("none", None), ("add", np.add), ("max", np.maximum), ("mul", np.multiply)]
)
def test_elements_are_scattered(mode: str, ufunc: Any) -> None:
    x, updates = random(3, 4), random(2, 4, seed=1)
    index = ints(0, 2, 1, -1, 1, 0, 0, 0).reshape(2, 4)
    expected = x.copy()
    columns = np.broadcast_to(np.arange(4), (2, 4))
    if ufunc is None:
        expected[index % 3, columns] = updates
    else:
        ufunc.at(expected, (index % 3, columns), updates)
    np.testing.assert_allclose(run("ScatterElements", x, index, updates, axis=0, reduction=mode), expected, rtol=1e-6)
    rows = ints(2, -3).reshape(2, 1)
    expected = x.copy()
    if ufunc is None:
        expected[rows[:, 0]] = updates
    else:
        ufunc.at(expected, rows[:, 0] % 3, updates)
    np.testing.assert_allclose(run("ScatterND", x, rows, updates, reduction=mode), expected, rtol=1e-6)


def scatter_nd(x: Any, index: Any, updates: Any, known: bool = True, **attributes: Any) -> ms.Network:
    constants = {"I": index} if known else {}
    inputs = [value("X", x), value("U", updates)] + ([] if known else [value("I", index)])
    return ms.load_onnx(model([node("ScatterND", "X I U", **attributes)], inputs, constants=constants))


@pytest.mark.parametrize("mode", ["none", "add"])
@pytest.mark.parametrize(
    "part",
    [
        np.s_[1:3, :, 2],
        np.s_[:, 1:8:3],
        np.s_[-1:, -5:-2, 1:],
        np.s_[2],
        np.s_[:, :, :],
    ],
    ids=str,
)
def test_a_part_that_is_assigned_to_is_a_condition_on_indices(mode: str, part: Any) -> None:
    x = random(4, 9, 5)
    places = np.stack(np.meshgrid(*map(np.arange, x.shape), indexing="ij"), -1)
    depth = 1 if isinstance(part, int) else len(part)
    index = (
        (places[part][..., :depth] if depth == 3 else places[..., 0, :][part][..., :depth]) if depth > 1 else ints(2)
    )
    updates = random(*index.shape[:-1], *x.shape[depth:], seed=1)
    expected = x.copy()
    expected[part] = updates if mode == "none" else x[part] + updates
    network = scatter_nd(x, index, updates, reduction=mode)
    np.testing.assert_allclose(network(X=x, U=updates), expected, rtol=1e-6)
    assert not is_searched(network)


@pytest.mark.parametrize("mode", ["none", "add"])
def test_places_that_are_no_box_are_looked_up(mode: str) -> None:
    """Of places that are there twice, the last update stays, or all are added up."""
    x, index, updates = random(50, 3), integers(20, 1, low=-50, high=49, dtype=np.int64), random(20, 3, seed=1)
    index[7] = index[3]
    expected = x.copy()
    if mode == "none":
        expected[index[:, 0]] = updates
    else:
        np.add.at(expected, index[:, 0], updates)
    network = scatter_nd(x, index, updates, reduction=mode)
    np.testing.assert_allclose(network(X=x, U=updates), expected, rtol=1e-6)
    assert is_searched(network) == (mode == "add")


@pytest.mark.parametrize("mode", ["none", "add"])
def test_a_place_that_is_not_there_is_none_of_another_row(mode: str) -> None:
    x, updates = random(3, 4), random(6, seed=1)
    index = ints(0, 5, 2, -1, 1, -5, 3, 0, -4, 3, -3, 0).reshape(6, 2)
    expected = x.copy()
    for place, update in (((2, 3), updates[1]), ((0, 0), updates[5])):
        expected[place] = update + (expected[place] if mode == "add" else 0)
    np.testing.assert_allclose(run("ScatterND", x, index, updates, reduction=mode), expected, rtol=1e-6)
    # One of each batch: rows along the dimension behind.
    rows = random(6, 4, seed=2)
    wide = np.repeat(x[..., None], 4, axis=2)
    expected = wide.copy()
    for place, update in (((2, 3), rows[1]), ((0, 0), rows[5])):
        expected[place] = update + (expected[place] if mode == "add" else 0)
    np.testing.assert_allclose(run("ScatterND", wide, index, rows, reduction=mode), expected, rtol=1e-6)


def test_elements_of_lines_are_looked_up() -> None:
    x, index, updates = random(3, 40, 2), integers(2, 12, 2, low=-40, high=39, dtype=np.int64), random(2, 12, 2, seed=1)
    given = [value("X", x), value("U", updates)]
    made = model([node("ScatterElements", "X I U", axis=1)], given, constants={"I": index})
    network = ms.load_onnx(made)
    (expected,) = ReferenceEvaluator(made).run(None, {"X": x, "U": updates})
    np.testing.assert_array_equal(network(X=x, U=updates), expected)
    assert not is_searched(network)


def test_indices_that_nodes_make_of_small_constants_are_known() -> None:
    """As exporters write an assignment: an index for each element, larger than what is folded."""
    x, updates = random(40, 60, 8), random(30, 50, 8, seed=1)
    rows, columns = np.arange(5, 35)[:, None, None], np.arange(0, 50)[None, :, None]
    nodes = [
        node("Expand", "R S", "RS"),
        node("Expand", "C S", "CS"),
        node("Concat", "RS CS", "I", axis=2),
        node("ScatterND", "X I U"),
    ]
    constants = {"R": rows, "C": columns, "S": ints(30, 50, 1)}
    network = ms.load_onnx(model(nodes, [value("X", x), value("U", updates)], constants=constants))
    expected = x.copy()
    expected[5:35, :50] = updates
    np.testing.assert_array_equal(network(X=x, U=updates), expected)
    assert not is_searched(network)
    assert [n.op for n in network.graph.nodes] == ["ScatterND"]


def test_a_known_place_that_is_not_there_is_refused() -> None:
    x, updates = random(4, 3), random(1, 3)
    with pytest.raises(ms.RefusedModel, match="an index is 4, and there are 4 elements"):
        scatter_nd(x, ints(4).reshape(1, 1), updates)
    network = scatter_nd(x, ints(4).reshape(1, 1), updates, known=False)
    np.testing.assert_array_equal(network(X=x, U=updates, I=ints(4).reshape(1, 1)), x)


def test_chains_of_equal_programs_are_told_apart() -> None:
    """As they compute other values, of more elements than are folded."""
    n = 20000
    x, u = np.zeros(n, np.float32), np.arange(n, dtype=np.float32) + 1
    constants = {"s": ints(2), "shape": ints(n), "k": np.int64(3)}
    nodes = [
        node("Expand", "s shape", "a"),
        node("Mul", "a k", "b"),
        node("Add", "b a", "i1"),
        node("Add", "b b", "i2"),
        node("ScatterElements", "x i1 u", "Y"),
        node("ScatterElements", "x i2 u", "Z"),
    ]
    y, z = ms.load_onnx(model(nodes, [value("x", x), value("u", u)], ("Y", "Z"), constants))(x, u)
    assert list(np.flatnonzero(y)) == [8]
    assert list(np.flatnonzero(z)) == [12]


@pytest.mark.parametrize("mode", ["none", "add"])
def test_a_constant_that_is_repeated_for_each_column(mode: str) -> None:
    x, u, places = random(90, 400), random(60, 400, seed=1), np.arange(60)[:, None] + 3
    nodes = [node("Expand", "s shape", "E"), node("ScatterElements", "x E u", axis=0, reduction=mode)]
    network = ms.load_onnx(
        model(nodes, [value("x", x), value("u", u)], constants={"shape": ints(60, 400), "s": places})
    )
    expected = x.copy()
    expected[3:63] = u if mode == "none" else x[3:63] + u
    np.testing.assert_allclose(network(x, u), expected, rtol=1e-6)
    assert is_searched(network) == (mode == "add")


def test_a_constant_that_is_repeated_along_lines() -> None:
    x, u = random(9, 4), random(6, 4, seed=1)
    nodes = [node("Expand", "s shape", "E"), node("ScatterElements", "x E u", axis=0)]
    network = ms.load_onnx(model(nodes, [value("x", x), value("u", u)], constants={"shape": ints(6, 4), "s": ints(2)}))
    expected = x.copy()
    expected[2] = u[5]
    np.testing.assert_array_equal(network(x, u), expected)


@pytest.mark.parametrize("made", ["positions", "largest"])
def test_indices_of_constants_that_no_one_program_makes(made: str) -> None:
    n = 20000
    constants = {"s": ints(2), "one": ints(1, 1, n), "flat": ints(-1), "k": ints(16), "shape": ints(n)}
    pool = [node("MaxPool", "af", "v i", kernel_shape=[2]), node("Reshape", "i flat", "places")]
    first = [node("Expand", f"s {'one' if made == 'positions' else 'shape'}", "a"), node("Cast", "a", "af", to=1)]
    nodes = [*first, *(pool if made == "positions" else [node("TopK", "af k", "v places")])]
    x, u = np.zeros(n, np.float32), random(n - 1 if made == "positions" else 16)
    network = ms.load_onnx(
        model([*nodes, node("ScatterElements", "x places u")], [value("x", x), value("u", u)], constants=constants)
    )
    np.testing.assert_array_equal(network(x, u)[: len(u)], u)


@pytest.mark.parametrize("mode", ["none", "add"])
@pytest.mark.parametrize("known", [False, True])
def test_fewer_lines_of_indices_than_there_are(mode: str, known: bool) -> None:
    x, u, index = random(5, 20), random(3, 12, seed=1), integers(3, 12, low=-20, high=19, dtype=np.int64)
    expected, rows = x.copy(), np.arange(3)[:, None]
    if mode == "none":
        for column in range(12):
            expected[np.arange(3), index[:, column]] = u[:, column]
    else:
        np.add.at(expected, (rows, index), u)
    made = run("ScatterElements", x, index, u, constants=(1,) if known else (), axis=1, reduction=mode)
    np.testing.assert_allclose(made, expected, rtol=1e-6)


def test_few_places_of_many_are_no_table() -> None:
    x, u, places = np.zeros(40000, np.float32), random(9), integers(9, low=0, high=39999, dtype=np.int64)
    network = scatter_nd(x, places[:, None], u)
    expected = x.copy()
    expected[places] = u
    np.testing.assert_array_equal(network(X=x, U=u), expected)
    assert max(array.size for array in network.graph.constants.values()) == 9


@pytest.mark.parametrize("shape", [(2, 3), (2, 1), (2,)])
def test_updates_are_one_for_each_index(shape: tuple[int, ...]) -> None:
    with pytest.raises(ms.RefusedModel, match=r"its indices i64\[2, 2\] and updates f32\[.*\] are not one for one"):
        run("ScatterElements", random(4, 4), np.zeros((2, 2), np.int64), random(*shape))


def masked(x: np.ndarray, updates: np.ndarray) -> ms.Network:
    """As many of the first updates as a mask has places, written where it holds: PyTorch's `masked_scatter`."""
    nodes = [
        node("Greater", "x zero", "mask"),
        node("NonZero", "mask", "places"),
        node("Transpose", "places", "rows"),
        node("Shape", "rows", "shape"),
        node("Gather", "shape first", "count", axis=0),
        node("Slice", "updates first count first", "some"),
        node("ScatterND", "x rows some", "Y"),
    ]
    known = {"zero": np.float32(0), "first": ints(0)}
    return ms.load_onnx(model(nodes, [value("x", x), value("updates", updates)], ["Y"], known))


@pytest.mark.parametrize("room", [20, 23])
def test_where_a_mask_holds_as_many_of_the_first_updates(room: int) -> None:
    x, updates = random(4, 5), random(room, seed=1)
    expected = x.copy()
    expected[x > 0] = updates[: np.count_nonzero(x > 0)]
    np.testing.assert_array_equal(masked(x, updates)(x, updates), expected)


@pytest.mark.parametrize("room", [19, 7, 1])
def test_places_that_a_mask_has_beyond_all_updates_keep_what_they_had(room: int) -> None:
    """As images that a text may name more of than there are. What is known at load does not tell."""
    x, updates = random(4, 5), random(room, seed=1)
    few = np.where(np.cumsum(x > 0).reshape(x.shape) > 5, -np.abs(x), x)
    network = masked(x, updates)
    for given in (x, few):
        places = np.argwhere(given > 0)[:room]
        expected = given.copy()
        expected[tuple(places.T)] = updates[: len(places)]
        np.testing.assert_array_equal(network(given, updates), expected)


@pytest.mark.parametrize("room", [3, 20])
def test_updates_of_a_known_number_at_as_many_places_as_data_say(room: int) -> None:
    x, updates = random(4, 5), random(room, 5, seed=1)
    nodes = [
        node("Greater", "m zero", "mask"),
        node("Compress", "numbers mask", "rows"),
        node("Unsqueeze", "rows last", "places"),
        node("ScatterND", "x places updates", "Y", reduction="add"),
    ]
    known = {"zero": np.float32(0), "numbers": np.arange(4), "last": ints(1)}
    mask = np.array([1.0, -1, 0, 2], np.float32)
    inputs = [value("x", x), value("m", mask), value("updates", updates)]
    network = ms.load_onnx(model(nodes, inputs, ["Y"], known))
    expected = x.copy()
    expected[[0, 3]] += updates[:2]
    np.testing.assert_array_equal(network(x, mask, updates), expected)


def test_elements_at_as_many_places_as_data_say_with_fewer_updates() -> None:
    x, updates = random(6), random(2, seed=1)
    nodes = [
        node("Greater", "x zero", "mask"),
        node("Compress", "numbers mask", "places"),
        node("ScatterElements", "x places updates", "Y"),
    ]
    known = {"zero": np.float32(0), "numbers": np.arange(6)}
    network = ms.load_onnx(model(nodes, [value("x", x), value("updates", updates)], ["Y"], known))
    for given in (x, np.array([-1.0, -1, -1, 5, -1, 0], np.float32)):
        places = np.flatnonzero(given > 0)[:2]
        expected = given.copy()
        expected[places] = updates[: len(places)]
        np.testing.assert_array_equal(network(given, updates), expected)


def test_no_updates_at_places_that_data_decide() -> None:
    x, updates = random(4, 5), np.zeros(0, np.float32)
    np.testing.assert_array_equal(masked(x, updates)(x, updates), x)


def test_numbers_of_indices_and_updates_along_two_dimensions_are_refused() -> None:
    x = random(4, 5)
    nodes = [
        node("Greater", "x zero", "mask"),
        node("NonZero", "mask", "places"),
        node("Transpose", "places", "rows"),
        node("Cast", "rows", "updates", to=1),
        node("ScatterElements", "x places updates", "Y"),
    ]
    said = r"how many of its indices i64\[2, 20\] there are, and along another dimension .* updates f32\[20, 2\]"
    with pytest.raises(ms.RefusedModel, match=said):
        ms.load_onnx(model(nodes, [value("x", x)], ["Y"], {"zero": np.float32(0)}))


@pytest.mark.parametrize(("count", "dtype"), [(50, "i8"), (128, "i8"), (129, "i16"), (40_000, "i32")])
def test_numbers_of_updates_are_as_small_as_they_may_be(count: int, dtype: str) -> None:
    """Of 128 updates of 500 elements, of which some are for one, the table of which is where takes 500 bytes."""
    rng = np.random.default_rng(0)
    x, index, updates = rng.standard_normal(500), rng.integers(0, 500, count), rng.standard_normal(count)
    nodes = [node("ScatterElements", "x index updates", axis=0)]
    net = ms.load_onnx(model(nodes, [value("x", x), value("index", index), value("updates", updates)], ["Y"]))
    expected = x.copy()
    for place, update in zip(index, updates, strict=True):
        expected[place] = update
    np.testing.assert_array_equal(net(x, index, updates), expected)
    assert f"P: {dtype}[500]" in str(net.graph)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8])
@pytest.mark.parametrize(("count", "wide"), [(3, "i16"), (128, "i16"), (129, "i32")])
def test_bytes_are_put_where_they_belong_with_their_numbers(dtype: Any, count: int, wide: str) -> None:
    """Nothing is gathered: what is greatest of a number and a value has the last value."""
    x = integers(2, 40, low=-128, high=128).astype(dtype)
    index = integers(2, count, low=-40, high=40, seed=2).astype(np.int64)
    updates = integers(2, count, low=-128, high=128, seed=3).astype(dtype)
    expected = x.copy()
    for row, place in np.ndindex(*index.shape):
        expected[row, index[row, place]] = updates[row, place]
    np.testing.assert_array_equal(run("ScatterElements", x, index, updates, axis=1), expected)
    given = [value("X", x), value("I", index), value("U", updates)]
    net = ms.load_onnx(model([node("ScatterElements", "X I U", axis=1)], given))
    assert f": {wide}[2, 40]" in str(net.graph)


@pytest.mark.parametrize("extent", [4, 2**31])
def test_one_index_of_each_column_is_looked_at_as_a_small_number(extent: int) -> None:
    x, updates, index = random(4, 40), random(1, 40, seed=1), integers(1, 40, low=-4, high=4, seed=2).astype(np.int64)
    index[0, :2] = 4, 2**32 + 1  # such places are not there
    expected = x.copy()
    columns = np.arange(2, 40)
    expected[index[0, 2:], columns] = updates[0, 2:]
    np.testing.assert_array_equal(run("ScatterElements", x, index, updates, axis=0), expected)
    inputs = [
        onnx.helper.make_tensor_value_info("X", 1, (extent, 8)),
        value("I", index[:, :8]),
        value("U", updates[:, :8]),
    ]
    net = ms.load_onnx(model([node("ScatterElements", "X I U", axis=0)], inputs))
    assert (": i32[1, 8]" in str(net.graph)) is (extent == 4)
