"""Elements of values that a graph computes of constants, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.graph.builder import GraphBuilder, GraphValue, NodeOrigin
from metasched.graph.node_helpers import known_elements as module
from metasched.graph.node_helpers.known_elements import known_elements
from metasched.graph.value_type import ValueType

ROWS, COLUMNS = 80, 90


def grid(builder: GraphBuilder, given: GraphValue) -> GraphValue:
    """Numbers of a row, broadcast to more than is folded, and some more; as one dimension."""
    origin = NodeOrigin("grid", "Expand", "grid")
    type_ = ValueType(DType.I64, (ROWS, COLUMNS))
    (wide,) = builder.program(origin, ["Y[i, j] = A[j]"], {"Y": type_}, {"A": given})
    (more,) = builder.program(origin, ["Y[i, j] = 2 * A[i, j] + i"], {"Y": type_}, {"A": wide})
    return builder.view(origin, more, (ROWS * COLUMNS,))


def numbers(builder: GraphBuilder) -> GraphValue:
    return builder.constant("numbers", np.arange(COLUMNS), ValueType(DType.I64, (COLUMNS,)))


def test_a_chain_of_nodes_over_constants_is_computed() -> None:
    builder = GraphBuilder()
    one, other = grid(builder, numbers(builder)), grid(builder, numbers(builder))
    found = known_elements(builder, one)
    assert one.constant is None
    assert found is not None
    np.testing.assert_array_equal(found, (2 * np.arange(COLUMNS) + np.arange(ROWS)[:, None]).reshape(-1))
    assert known_elements(builder, other) is found, "of equal chains one is computed"


def test_what_a_call_gives_is_not_known() -> None:
    builder = GraphBuilder()
    assert known_elements(builder, grid(builder, builder.input("x", ValueType(DType.I64, (COLUMNS,))))) is None
    step = builder.parameter("x", ValueType(DType.I64, (COLUMNS,)), frozenset())
    assert known_elements(builder, grid(builder, step)) is None, "a loop's steps give it"


def test_too_many_elements_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ELEMENTS", ROWS * COLUMNS - 1)
    builder = GraphBuilder()
    assert known_elements(builder, grid(builder, numbers(builder))) is None
