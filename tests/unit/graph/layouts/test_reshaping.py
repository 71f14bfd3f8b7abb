"""Stages over another shape of their data compute the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.graph.fusion.stages import Stages, parse_once, program_of, stages_of
from metasched.graph.layouts.reshaping import is_read_by_quotients, reshape_stages
from metasched.reference.execution import reference

Shape = tuple[int, ...]


def _stages(text: str) -> Stages:
    found = stages_of(parse_once(text))
    assert found is not None
    return found


def _norm(shape: Shape, along: int) -> Stages:
    """What divides by the sum along all dimensions from one on, and adds a row."""
    own = [f"i{d}" for d in range(len(shape))]
    kept = [*own[:along], *("0" for _ in shape[along:])]
    inner = [f"r{d}" for d in range(along, len(shape))]
    ranges = ", ".join(f"{r} < {n}" for r, n in zip(inner, shape[along:], strict=True))
    all_, sums = ", ".join(map(str, shape)), ", ".join(map(str, [*shape[:along], *(1 for _ in shape[along:])]))
    return _stages(
        f"program p(A: f32[{all_}], const B: f32[{shape[0]}]) -> Y: f32[{all_}]:\n"
        f"    T: f32[{sums}]\n    R: f32[{sums}]\n"
        f"    T[{', '.join(own)}] = sum[{ranges}](A[{', '.join([*own[:along], *inner])}])\n"
        f"    R[{', '.join(own)}] = 1.0 / (T[{', '.join(own)}] + 100.0)\n"
        f"    Y[{', '.join(own)}] = A[{', '.join(own)}] * R[{', '.join(kept)}] + B[i0]\n"
    )


def _require_same(before: Stages, after: Stages) -> None:
    """Raise AssertionError where the stages differ for some elements."""
    rng = np.random.default_rng(0)
    arrays: list[Any] = [rng.random(before.types[name].shape, np.float32) for name in before.inputs]
    reshaped = [a.reshape(after.types[name].shape) for a, name in zip(arrays, after.inputs, strict=True)]
    wanted = reference(program_of(before, "before"))(*arrays)
    got = reference(program_of(after, "after"))(*reshaped)
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=1e-5)


def _shapes(parts: list[int], cuts: list[bool]) -> Shape:
    """A shape of which each dimension is some neighbouring parts."""
    out = [1]
    for part, cut in zip(parts, cuts, strict=True):
        if cut:
            out.append(part)
        else:
            out[-1] *= part
    return tuple(out)


_PARTS = st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(parts=_PARTS, data=st.data())
def test_a_norm_over_any_shape_of_its_data_is_the_same(
    parts: list[tuple[int, bool, bool]], data: st.DataObject
) -> None:
    extents = [n for n, _, _ in parts]
    given_, made = (_shapes(extents, [part[k] for part in parts]) for k in (1, 2))
    form = _norm(given_, data.draw(st.integers(0, len(given_) - 1)))
    found = reshape_stages(form, "A", made)
    if found is not None:
        assert found.types["A"].shape == found.types["Y"].shape == made
        _require_same(form, found)


@pytest.mark.parametrize(
    ("given_", "along", "made"),
    [((1, 4, 30), 2, (1, 12, 2, 5)), ((1, 2, 60), 2, (1, 12, 10)), ((1, 120), 1, (1, 12, 10)), ((2, 6), 1, (2, 2, 3))],
)
def test_norms_of_groups_go_over_channels(given_: Shape, along: int, made: Shape) -> None:
    form = _norm(given_, along)
    found = reshape_stages(form, "A", made)
    assert found is not None
    assert "//" not in str(found.stages[-1].value)
    _require_same(form, found)


def test_a_sum_of_a_part_of_a_dimension_is_one_along_the_others_first() -> None:
    found = reshape_stages(_norm((1, 4, 30), 2), "A", (1, 12, 2, 5))
    assert found is not None
    first, second = found.stages[:2]
    assert math.prod(found.types[first.buffer].shape) == 12
    assert found.types[second.buffer].shape == (1, 4, 1)


ARGMAX = """program p(A: f32[4, 6]) -> Y: f32[4, 1]:
    P: i64[4, 1]
    T: f32[4, 1]
    T[i, j], P[i, j] = argmax[r < 6](A[i, r])
    Y[i, j] = T[i, j] + f32(P[i, j])
"""
TWICE = """program p(A: f32[2, 6]) -> Y: f32[2, 1]:
    T: f32[2, 1]
    T[i, j] = sum[r < 6](A[i, r])
    Y[i, j] = T[i, j] * 2.0
"""


@pytest.mark.parametrize(
    ("text", "made"),
    [
        # A position would be counted otherwise.
        (ARGMAX, (4, 2, 3)),
        # The result would be computed for each channel.
        (TWICE, (4, 3)),
        # The dimensions have no parts in common.
        ("program p(A: f32[4, 6]) -> Y: f32[4, 6]:\n    Y[i, j] = A[i, j] + 1.0\n", (6, 4)),
        # Neighbours are read.
        ("program p(A: f32[12]) -> Y: f32[11]:\n    Y[i] = A[i] + A[i + 1]\n", (4, 3)),
        ("program p(A: f32[4, 4]) -> Y: f32[4, 4]:\n    Y[i, j] = A[j, i] + 1.0\n", (2, 2, 4)),
        # What is no weight would be read by a quotient for each element.
        ("program p(A: f32[4, 6], B: f32[4]) -> Y: f32[4, 6]:\n    Y[i, j] = A[i, j] + B[i]\n", (8, 3)),
        # The terms that a condition leaves out are told by their old indices.
        ("program p(A: f32[4, 6]) -> Y: f32[4, 1]:\n    Y[i, j] = sum[r < 6 if r > 2](A[i, r])\n", (4, 2, 3)),
    ],
)  # fmt: skip
def test_what_another_shape_cannot_say_is_left(text: str, made: Shape) -> None:
    assert reshape_stages(_stages(text), "A", made) is None


def test_views_that_join_are_read_by_quotients() -> None:
    assert is_read_by_quotients((4, 6), (2, 2, 6))
    assert not is_read_by_quotients((2, 2, 6), (4, 6))
    assert not is_read_by_quotients((4, 6), (1, 4, 6, 1))
