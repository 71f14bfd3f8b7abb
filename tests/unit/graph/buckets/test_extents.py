"""Dimensions as products of sizes: views put them together and take them apart, and cut no free size."""

from __future__ import annotations

import pytest

from metasched.graph.buckets.extents import Extent, has_gaps, regroup_dims

# What a size is at the largest sizes, and in a sample.
BATCH, SEQ = (4, 2), (12, 5)


def fixed(size: int) -> Extent:
    return (size, size)


@pytest.mark.parametrize(
    ("dims", "wanted", "found"),
    [
        # Batch and places as one dimension, whose places in a smaller graph have gaps; and apart again.
        ([(BATCH,), (SEQ,), (fixed(6),)], [(48, 10), fixed(6)], ((BATCH, SEQ), (fixed(6),))),
        ([(BATCH, SEQ), (fixed(6),)], [BATCH, SEQ, fixed(6)], ((BATCH,), (SEQ,), (fixed(6),))),
        # Heads: a fixed size is taken apart.
        ([(SEQ,), (fixed(6),)], [SEQ, fixed(2), fixed(3)], ((SEQ,), (fixed(2),), (fixed(3),))),
        ([((24, 10),)], [SEQ, fixed(2)], ((SEQ,), (fixed(2),))),
        ([(SEQ,)], [fixed(1), SEQ, fixed(1)], ((), (SEQ,), ())),
        # Places by pairs would be other ones in a smaller graph.
        ([((12, 6),)], [fixed(2), (6, 3)], None),
        ([(SEQ,), (fixed(6),)], [fixed(6), SEQ], None),
    ],
)
def test_views_regroup_sizes(
    dims: list[tuple[Extent, ...]], wanted: list[Extent], found: tuple[tuple[Extent, ...], ...] | None
) -> None:
    assert regroup_dims(dims, wanted) == found


def test_first_places_have_no_gaps() -> None:
    assert not has_gaps((SEQ, fixed(6)))
    assert has_gaps((BATCH, SEQ))
    assert has_gaps((fixed(2), SEQ))
