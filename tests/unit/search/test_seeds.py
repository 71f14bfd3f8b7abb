from __future__ import annotations

import numpy as np
import pytest

from metasched.errors import MetaschedError
from metasched.search.seeds import LARGEST_SEED, seed_of


@pytest.mark.parametrize("seed", [0, 7, LARGEST_SEED, np.int32(7), np.uint64(LARGEST_SEED)])
def test_integers_are_seeds_also_those_of_numpy(seed: int) -> None:
    assert seed_of(seed) == int(seed)
    assert type(seed_of(seed)) is int


@pytest.mark.parametrize("seed", ["a", 1.5, None, -1, LARGEST_SEED + 1, True, np.float64(1)])
def test_anything_else_is_refused(seed: object) -> None:
    with pytest.raises(MetaschedError, match=r"it is an integer from 0 to 2\*\*63 - 1, such as 0"):
        seed_of(seed)
