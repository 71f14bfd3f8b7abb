"""Sequences of tensors are taken apart at load: every node type of them, in loops and branches, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import metasched as ms
from tests.support.graphs import parsed
from tests.support.onnx_models import integers, model, node, unknown, value

X = integers(5, 3).astype(np.float32)
Y = integers(2, 3, seed=1).astype(np.float32)


def run(nodes: list[Any], outputs: list[str], **constants: Any) -> Any:
    return ms.load_onnx(model(nodes, [value("x", X), value("y", Y)], outputs, constants))(X, Y)


def numbers(**given: int) -> dict[str, Any]:
    return {name: np.array(number, np.int64) for name, number in given.items()}


def test_elements_are_inserted_and_erased_by_positions_from_both_ends() -> None:
    nodes = [
        node("SequenceConstruct", "x y", "s"),
        node("SequenceInsert", "s y", "t"),  # x y y
        node("SequenceInsert", "t x last", "u"),  # x y x y
        node("SequenceErase", "u", "v"),  # x y x
        node("SequenceErase", "v first", "w"),  # y x
        node("SequenceAt", "w first", "a"),
        node("SequenceAt", "w last", "b"),
        node("SequenceLength", "u", "n"),
    ]
    a, b, n = run(nodes, ["a", "b", "n"], **numbers(first=0, last=-1))
    np.testing.assert_array_equal(a, Y)
    np.testing.assert_array_equal(b, X)
    assert (n, n.dtype, n.shape) == (4, np.int64, ())


@pytest.mark.parametrize(
    ("sizes", "axis", "keepdims", "expected"),
    [
        (2, 0, 0, [X[:2], X[2:4], X[4:]]),
        ([1, 4], -2, 1, [X[:1], X[1:]]),
        (None, 1, 0, [X[:, 0], X[:, 1], X[:, 2]]),
        (None, 1, 1, [X[:, :1], X[:, 1:2], X[:, 2:]]),
    ],
)
def test_a_tensor_is_split(sizes: Any, axis: int, keepdims: int, expected: list[Any]) -> None:
    constants = numbers(**{f"p{n}": n for n in range(len(expected))})
    if sizes is not None:
        constants["sizes"] = np.array(sizes, np.int64)
    split = node("SplitToSequence", "x" if sizes is None else "x sizes", "s", axis=axis, keepdims=keepdims)
    taken = [node("SequenceAt", f"s p{n}", f"o{n}") for n in range(len(expected))]
    made = run([split, *taken], [f"o{n}" for n in range(len(expected))], **constants)
    for found, part in zip(made, expected, strict=True):
        np.testing.assert_array_equal(found, part)


def test_elements_are_joined_along_an_axis_of_theirs_or_a_new_one() -> None:
    nodes = [
        node("SequenceConstruct", "x y", "s"),
        node("ConcatFromSequence", "s", "joined", axis=0),
        node("SequenceConstruct", "y y y", "t"),
        node("ConcatFromSequence", "t", "stacked", axis=-1, new_axis=1),
    ]
    joined, stacked = run(nodes, ["joined", "stacked"])
    np.testing.assert_array_equal(joined, np.concatenate([X, Y]))
    np.testing.assert_array_equal(stacked, np.stack([Y, Y, Y], -1))


def test_loops_and_branches_hand_sequences_on() -> None:
    """As exporters write bags of embeddings: a loop that puts what each step made to a sequence."""
    more = helper.make_graph([node("SequenceInsert", "s row", "longer")], "then", [], [unknown("longer")])
    same = helper.make_graph([node("Identity", "s", "kept")], "else", [], [unknown("kept")])
    body = helper.make_graph(
        [
            node("Gather", "x i", "row", axis=0),
            node("Equal", "i two", "is_two"),
            node("Not", "is_two", "other"),
            helper.make_node("If", ["other"], ["after"], then_branch=more, else_branch=same),
            node("Identity", "c", "goes_on"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("c", TensorProto.BOOL, ()),
            helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
        ],
        [unknown("goes_on"), unknown("after")],
    )
    nodes = [
        node("SequenceEmpty", "", "none"),
        node("Loop", "five - none", "rows", body=body),
        node("ConcatFromSequence", "rows", "z", axis=0, new_axis=1),
    ]
    np.testing.assert_array_equal(run(nodes, ["z"], **numbers(five=5, two=2)), X[[0, 1, 3, 4]])


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([node("SequenceConstruct", "x y", "z")], "`z`: it is a sequence, and not a tensor"),
        ([node("SequenceConstruct", "x y", "s"), node("Relu", "s", "z")], "its input `s` is a sequence"),
        ([node("SequenceLength", "x", "z")], "its input `x` is a tensor, and not a sequence"),
        ([node("SequenceEmpty", "", "s"), node("SequenceErase", "s", "z")], "the sequence is empty"),
        ([node("SequenceEmpty", "", "s"), node("ConcatFromSequence", "s", "z", axis=0)], "the sequence is empty"),
        (
            [node("SequenceConstruct", "x y", "s"), node("SequenceAt", "s two", "z")],
            "there is no position 2 in a sequence of 2",
        ),
        (
            [node("SequenceConstruct", "x y", "s"), node("ConcatFromSequence", "s", "z", axis=0, new_axis=1)],
            "its elements have different types",
        ),
        ([node("SplitToSequence", "x none", "s"), node("SequenceAt", "s none", "z")], "its parts have 0 elements"),
        ([node("SplitToSequence", "x pair", "s"), node("SequenceAt", "s none", "z")], "has no parts of"),
    ],
)
def test_what_is_no_sequence_or_not_in_it_is_refused(nodes: list[Any], reason: str) -> None:
    with pytest.raises(ms.RefusedModel, match=reason.replace("(", r"\(")):
        run(nodes, ["z"], pair=np.array([2, 2], np.int64), **numbers(none=0, two=2))


def test_a_position_that_data_decide_is_refused_with_what_decides_it() -> None:
    given = [value("x", X), value("n", np.array(0, np.int64))]
    nodes = [node("SplitToSequence", "x", "s"), node("SequenceAt", "s n", "z")]
    with pytest.raises(ms.RefusedModel, match=r"its position, `n`, is computed from data"):
        ms.load_onnx(model(nodes, given, ["z"]))
    np.testing.assert_array_equal(ms.load_onnx(model(nodes, given, ["z"]), values={"n": 3})(X), X[3:4])


def test_a_sequence_is_no_state_of_a_loop_whose_steps_a_call_counts() -> None:
    text = """m (int64 n, float[2] x) => (y) <bool yes = {1}, int64 last = {-1}> {
        none = SequenceEmpty()
        rows = Loop(n, yes, none) <body = step (int64 i, bool c, seq(float) s) => (bool go, seq(float) after) {
            go = Identity(c)
            after = SequenceInsert(s, x)
        }>
        y = SequenceAt(rows, last)
    }"""
    with pytest.raises(ms.RefusedModel, match=r"a state is a sequence.*`res = torch.cat\(\[res, rows\]\)`, may be"):
        ms.load_onnx(parsed(text))
