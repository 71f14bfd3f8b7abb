"""What an intermediate value does not depend on is no dimension of it."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.graph.fusion.canonical import canonical
from metasched.graph.fusion.stages import program_of, stages_of
from metasched.reference.execution import reference
from tests.support.onnx_models import model, node, random, value

PRODUCT = "  Y[i, j] = U[i, j] * B[i, j]\n"
HEAD = "program p(A: f32[5], B: f32[4, 3]) -> Y: f32[4, 3]:\n"


def text(stages: str) -> str:
    """The stages of a program in its canonical form, which computes the same."""
    program = ms.parse_program(HEAD + stages)
    found = stages_of(program)
    assert found is not None
    made, inputs, _ = canonical(found)
    given = {"A": random(5), "B": random(4, 3, seed=1)}
    again = program_of(made, "q")
    expected = reference(program)(given["A"], given["B"])
    np.testing.assert_allclose(reference(again)(*(given[name] for name in inputs)), expected, rtol=1e-6)
    return "\n".join(line.strip() for line in str(again).splitlines()[1:])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  T[i, j] = sum[r](A[r] * i)\n  Y[i, j] = T[i, j] * B[i, j]\n", "T0: f32[4]"),
        ("  T[i, j] = sum[r](A[r] * j)\n  Y[i, j] = T[i, j] * B[i, j]\n", "T0: f32[3]"),
        ("  T[i, j] = sum[r](A[r])\n  Y[i, j] = T[i, j] * B[i, j]\n", "T0: f32[4]"),
        ("  T[i, j] = sum[r](A[r] * i)\n  U[i, j] = max[r](T[i, j] * A[r])\n" + PRODUCT, "T1: f32[4]"),
        ("  T[i, j] = sum[r](A[r] * i * j)\n  Y[i, j] = T[i, j] * B[i, j]\n", "T0: f32[4, 3]"),
    ],
)  # fmt: skip
def test_a_dimension_that_a_value_does_not_depend_on_is_left_out(before: str, after: str) -> None:
    head = "  T: f32[4, 3]\n" + ("  U: f32[4, 3]\n" if "U" in before else "")
    assert after in text((head + before).replace("* i", "* f32(i)").replace("* j", "* f32(j)")).splitlines()


def test_places_of_a_scatter_are_looked_for_once_for_all_columns() -> None:
    x, updates = random(6, 8), random(3, 8, seed=1)
    places = np.array([4, 0, 4], np.int64)
    nodes = [
        node("Unsqueeze", "i last", "column"),
        node("Expand", "column shape", "wide"),
        node("ScatterElements", "x wide u", axis=0),
    ]
    constants = {"last": np.array([1], np.int64), "shape": np.array([3, 8], np.int64)}
    net = ms.load_onnx(model(nodes, [value("x", x), value("i", places), value("u", updates)], constants=constants))
    assert any("max[r0 < 3 if" in str(one.program) and "i8[6, 1]" in str(one.program) for one in net.optimised.computes)
    expected = x.copy()
    expected[places] = updates
    np.testing.assert_array_equal(net(x, places, updates), expected)
