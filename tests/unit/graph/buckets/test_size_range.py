"""Ranges of sizes: their buckets, sizes in steps, and what is said of sizes that are none."""

from __future__ import annotations

from typing import Any

import pytest

import metasched as ms


@pytest.mark.parametrize(
    ("sizes", "buckets"),
    [
        (ms.SizeRange(32, 512, step=32), (32, 64, 128, 256, 512)),
        (ms.SizeRange(32, 480, step=32), (32, 96, 224, 480)),
        (ms.SizeRange(33, 161, step=32), (65, 161)),
        (ms.SizeRange(6, 6, step=4), (6,)),
        (ms.SizeRange(8, 40, buckets=(16,), step=8), (16, 40)),
    ],
)
def test_buckets_end_at_sizes_that_there_are(sizes: ms.SizeRange, buckets: tuple[int, ...]) -> None:
    assert sizes.buckets == buckets
    assert [*sizes.sizes] == [size for one in sizes.bucket_ranges for size in one]
    for size in sizes.sizes:
        assert size in sizes.bucket(size)
        assert sizes.bucket(size)[-1] in buckets


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"low": 32, "high": 500, "step": 32}, r"no 500\n  hint: the last one is 480 or 512$"),
        ({"low": 1, "high": 512, "step": 32}, r"the last one is 481 or 513; multiples of 32 begin at 32$"),
        ({"low": 32, "high": 512, "step": 0}, "the step of a range of sizes is at least 1, and not 0"),
        ({"low": 32, "high": 512, "step": 1.5}, r"`step` of a range of sizes is a whole number, and not 1\.5"),
        (
            {"low": 32, "high": 512, "step": 32, "buckets": (100,)},
            "a bucket up to 100 is not in the range of sizes from 32 to 512 in steps of 32; the nearest are 96 and 128",
        ),
    ],
)
def test_ranges_that_cannot_be_are_said(said: dict[str, Any], message: str) -> None:
    with pytest.raises(ms.NetworkError, match=message):
        ms.SizeRange(**said)


@pytest.mark.parametrize(
    ("size", "nearest"), [(8, "is 32"), (33, "are 32 and 64"), (511, "are 480 and 512"), (600, "is 512")]
)
def test_the_nearest_sizes_are_said(size: int, nearest: str) -> None:
    expected = f"{size}, and the network was loaded for 32 to 512 in steps of 32; the nearest {nearest}"
    assert ms.SizeRange(32, 512, step=32).refusal(size) == expected
    assert ms.SizeRange(32, 512).refusal(size) == f"{size}, and the network was loaded for 32 to 512"
