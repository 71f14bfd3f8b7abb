"""Constants for kernels: aligned and contiguous, whatever they lie in."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.graph.ir import Array
from metasched.graph.running.plain_constants import CopyMemory
from metasched.graph.value_type import ValueType
from tests.support.onnx_models import random


def unaligned(array: Array) -> Array:
    """An array of the same elements, a byte behind where it should begin."""
    memory = np.frombuffer(b"\0" + array.tobytes(), np.uint8)
    return memory[1:].view(array.dtype).reshape(array.shape)


WIDE = random(300, 700)


@pytest.mark.parametrize(
    "array",
    [unaligned(WIDE), WIDE.T, unaligned(WIDE).T, WIDE[::2, ::3], WIDE.reshape(3, 100, 700).transpose(2, 0, 1)],
    ids=["unaligned", "transposed", "both", "strided", "three dimensions"],
)
def test_copies_have_the_same_elements(array: Array) -> None:
    found = CopyMemory().plain_array(0, array, ValueType(DType.F32, array.shape))
    assert found.flags.aligned
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, array)


def test_what_is_plain_is_not_copied() -> None:
    assert CopyMemory().plain_array(0, WIDE, ValueType(DType.F32, WIDE.shape)) is WIDE


def test_memory_of_an_argument_is_used_again_and_others_are_apart() -> None:
    copies = CopyMemory()
    large, small = (unaligned(WIDE[:rows]) for rows in (300, 200))
    first = copies.plain_array(0, large, ValueType(DType.F32, large.shape))
    other = copies.plain_array(1, large, ValueType(DType.F32, large.shape))
    again = copies.plain_array(0, small, ValueType(DType.F32, small.shape))
    assert np.shares_memory(first, again)
    assert not np.shares_memory(first, other)
    np.testing.assert_array_equal(again, small)
    np.testing.assert_array_equal(other, large)
