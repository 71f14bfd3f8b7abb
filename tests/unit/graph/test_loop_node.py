"""What of a loop is not well formed, and its text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.dtypes import DType
from metasched.graph.ir import Graph, GraphError, LoopNode
from metasched.graph.loop_node import ENDLESS, LoopInputKind
from metasched.graph.value_type import ValueType
from tests.support.loops import nested, newton


def with_loop(graph: Graph, loop: LoopNode) -> Graph:
    return replace(graph, nodes=tuple(loop if isinstance(node, LoopNode) else node for node in graph.nodes))


def changed(**changes: object) -> Graph:
    graph = newton().graph
    (loop,) = graph.loops
    return with_loop(graph, replace(loop, **changes))  # type: ignore[arg-type]


def test_a_loop_of_a_model_is_well_formed_and_says_how_it_ends() -> None:
    graph = newton().graph
    graph.validate()
    (loop,) = graph.loops
    assert loop.is_ended_by_data
    assert (loop.most, loop.assumed_steps) == (40, 32)
    (outer,) = nested().graph.loops
    (inner,) = outer.body.loops
    assert (inner.most, inner.assumed_steps) == (ENDLESS, 32)
    assert inner.input_of(LoopInputKind.LIMIT) == "n"


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (lambda: changed(counter="nothing"), "its body has the inputs"),
        (lambda: changed(goes_on="nothing"), "`nothing` of its body is no condition"),
        (lambda: changed(most=7), r"its elements `.*` is f32\[40, 4\]"),
        (lambda: changed(takes=()), "not as many inputs and outputs"),
    ],
)
def test_what_does_not_go_together_is_a_graph_error(graph: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        graph().validate()  # type: ignore[operator]


def test_states_and_elements_have_the_types_that_the_body_says() -> None:
    graph = newton().graph
    wrong = {**graph.types, "a": ValueType(DType.F64, (4,))}
    with pytest.raises(GraphError):
        replace(graph, types=wrong).validate()


def test_the_text_of_a_loop_says_what_begins_and_what_comes_of_it() -> None:
    text = str(nested().graph)
    for line in (
        "loop up to 6 steps:  # Loop `x`",
        "begins as a",
        "loop up to n:  # Loop `x/step/q`",
        "counts the steps",
        "    while ",
        "= how many steps there were",
        "steps has as many elements along its dimension 0 as",
    ):
        assert line in text, line
