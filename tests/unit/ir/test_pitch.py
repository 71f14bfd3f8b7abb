"""Strides of arguments that are parts of larger arrays."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from metasched.ir.pitch import contiguous_run, is_packed, is_pitched, packed_strides, reshape_strides, span


@pytest.mark.parametrize(
    ("shape", "strides", "legal", "packed"),
    [
        ((2, 3), (3, 1), True, True),
        ((2, 3), (8, 1), True, False),
        ((2, 3), (2, 1), False, False),  # rows overlap
        ((2, 3), (1, 2), False, False),  # transposed
        ((2, 3), (0, 1), False, False),  # broadcast
        ((2, 3), (12, 4), False, False),  # every fourth element
        ((2, 3, 1), (12, 4, 1), True, False),  # rows of one element
        ((2, 3, 1), (11, 4, 1), True, False),
        ((2, 3, 1), (8, 4, 1), False, False),
        ((2, 1, 3), (7, 99, 1), True, False),  # a dimension of one element has no neighbours
        ((4, 1), (1, 5), True, True),
        ((), (), True, True),
    ],
)
def test_which_strides_are_legal(shape: tuple[int, ...], strides: tuple[int, ...], legal: bool, packed: bool) -> None:
    assert is_pitched(shape, strides) == legal
    assert is_packed(shape, strides) == packed


def test_spans_and_runs() -> None:
    assert span((2, 3), (8, 1)) == 11
    assert span((), ()) == 1
    assert span((2, 0), (8, 1)) == 0
    assert contiguous_run((2, 3, 4), (24, 4, 1)) == 12
    assert contiguous_run((2, 3), (3, 1)) == 6
    assert contiguous_run((2, 1), (9, 1)) == 1


SHAPES = [(24,), (2, 12), (4, 6), (2, 3, 4), (1, 24), (2, 1, 12), (2, 2, 6, 1), (3, 8), (2, 2, 2, 3)]


@pytest.mark.parametrize("to", SHAPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_reshaping_is_numpys(shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape) * 100 + len(to))
    for _ in range(6):
        strides, step = [], 1
        for extent in reversed(shape):
            step += int(rng.integers(0, 2)) * 5
            strides.append(step)
            step *= extent
        strides.reverse()
        memory = np.arange(span(shape, strides))
        array = as_strided(memory, shape, [8 * stride for stride in strides])
        view = array.reshape(to)
        found = reshape_strides(shape, strides, to)
        assert (found is not None) == np.shares_memory(view, array)
        if found is not None:
            np.testing.assert_array_equal(as_strided(memory, to, [8 * stride for stride in found]), view)


def test_strides_of_packed_arrays() -> None:
    assert packed_strides((2, 3, 4)) == (12, 4, 1)
    assert packed_strides(()) == ()


@pytest.mark.parametrize(("shape", "to"), [((0, 10, 9), (3, 0, 30)), ((4, 0), (0,)), ((0,), (0, 1))])
def test_nothing_may_be_reshaped_into_any_nothing(shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    assert reshape_strides(shape, packed_strides(shape), to) == packed_strides(to)
