"""Inputs for trying a network are of its types, and the same each time."""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.inputs import random_inputs
from metasched.graph.ir import ValueType


def test_inputs_have_the_types_and_are_the_same_for_a_seed() -> None:
    types = {
        "x": ValueType(DType.F32, (4, 5)),
        "ids": ValueType(DType.I64, (7,)),
        "mask": ValueType(DType.BOOL, (7,)),
        "half": ValueType(DType.BF16, ()),
    }
    first, again, other = random_inputs(types), random_inputs(types), random_inputs(types, seed=1)
    for name, type_ in types.items():
        assert (first[name].shape, first[name].dtype) == (type_.shape, type_.dtype.numpy)
        np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first["x"], other["x"])
    assert set(first["ids"].tolist()) <= {0, 1}
