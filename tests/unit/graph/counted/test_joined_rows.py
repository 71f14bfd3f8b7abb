"""Values one behind another of which only a call knows how long they are."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import integers, model, node, value


@pytest.mark.parametrize("axis", [0, 1])
def test_no_gaps_are_left(axis: int) -> None:
    x = integers(7, 4, low=-3, high=4)
    nodes = [node("Greater", f"x limit{n}", f"holds{n}") for n in range(4)]
    nodes += [node("ReduceMax", f"ints{n} other", f"some{n}", keepdims=0) for n in range(4)]
    nodes += [node("Cast", f"holds{n}", f"ints{n}", to=6) for n in range(4)]
    nodes += [node("Cast", f"some{n}", f"mask{n}", to=9) for n in range(4)]
    nodes += [node("Compress", f"x mask{n}", f"part{n}", axis=axis) for n in range(4)]
    nodes += [node("Concat", "part0 part1 fixed part2 part3", axis=axis)]
    order = sorted(nodes, key=lambda one: ["Greater", "Cast", "ReduceMax", "Compress", "Concat"].index(one.op_type))
    order = [one for one in order if not one.output[0].startswith("mask")]
    at = next(n for n, one in enumerate(order) if one.op_type == "Compress")
    order[at:at] = [one for one in nodes if one.output[0].startswith("mask")]
    known = {f"limit{n}": np.int32(limit) for n, limit in enumerate((2, 5, 0, 1))}
    known |= {"other": np.int64([1 - axis]), "fixed": np.ones((2, 4) if axis == 0 else (7, 2), np.int32)}
    net = ms.load_onnx(model(order, [value("x", x)], ["Y"], known))
    for given in (x, x * 0, np.roll(x, 3, axis=axis)):
        parts = [given.compress((given > limit).max(1 - axis), axis) for limit in (2, 5, 0, 1)]
        np.testing.assert_array_equal(net(given), np.concatenate([*parts[:2], known["fixed"], *parts[2:]], axis))


def test_more_parts_than_one_program_joins() -> None:
    x = integers(17, 3, low=0, high=2)
    nodes = [node("Gather", f"x at{n}", f"row{n}") for n in range(17)]
    nodes += [node("NonZero", f"row{n}", f"places{n}") for n in range(17)]
    nodes += [node("Concat", " ".join(f"places{n}" for n in range(17)), axis=1)]
    net = ms.load_onnx(model(nodes, [value("x", x)], ["Y"], {f"at{n}": np.int64(n) for n in range(17)}))
    np.testing.assert_array_equal(net(x), [np.concatenate([np.flatnonzero(row) for row in x])])


def test_other_dimensions_that_data_decide_are_refused() -> None:
    x = integers(3, 3, low=0, high=2)
    nodes = [node("NonZero", "x", "places"), node("Transpose", "places", "rows"), node("Slice", "rows a b", "two")]
    nodes += [node("Concat", "places two", axis=0)]
    known = {"a": np.int64([0]), "b": np.int64([2])}
    with pytest.raises(ms.RefusedModel, match="differ in more than the axis"):
        ms.load_onnx(model(nodes, [value("x", x)], ["Y"], known))
