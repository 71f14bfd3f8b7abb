"""How many bits of integers are set, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.traced_functions import check


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_of_every_type_of_integers(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    numbers = np.random.default_rng(3).integers(limits.min, limits.max, 200, dtype, endpoint=True)
    ends = np.array([limits.min, limits.max, 0, 1], dtype)
    check(np.bitwise_count, np.concatenate([numbers, ends]))


def test_of_truth() -> None:
    check(lambda x: np.bitwise_count(x > 1).sum(), np.arange(4))
