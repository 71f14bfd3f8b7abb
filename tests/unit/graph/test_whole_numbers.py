"""What counts as a number of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.graph.whole_numbers import require_whole_number


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2), np.array(2)])
def test_integers_of_numpy_are_integers(value: Any) -> None:
    found = require_whole_number(value, "it")
    assert (found, type(found)) == (2, int)


@pytest.mark.parametrize("value", [2.0, "2", None, [2], np.float32(2)])
def test_others_are_told_what_they_are(value: Any) -> None:
    with pytest.raises(ms.NetworkError, match="it is a whole number, and not ") as error:
        require_whole_number(value, "it")
    assert str(error.value).endswith(repr(value))
