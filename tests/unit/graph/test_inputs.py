"""Inputs for trying a network are of its types, and the same each time."""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.inputs import UsualInputs, random_inputs
from metasched.graph.value_type import ValueType


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


def test_usual_inputs_are_arrays_of_just_these_types() -> None:
    usual = UsualInputs({"x": ValueType(DType.F32, (2, 3)), "n": ValueType(DType.I64, ())})
    x, n = np.zeros((2, 3), np.float32), np.zeros((), np.int64)
    assert usual.are((x, n))
    assert usual.are([np.zeros((3, 2), np.float32).T, n])  # what kernels cannot read as it lies is copied later
    others = [np.zeros((2, 3)), np.zeros((2, 4), np.float32), x.astype(">f4"), x.view(np.matrix), x.tolist(), None]
    assert not any(usual.are((other, n)) for other in others)
    assert not any(usual.are(given) for given in [(x,), (x, n, n), (x, np.int64(0))])
