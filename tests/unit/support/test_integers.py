"""Integers and numbers, which True and False are not."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.support.integers import integer_of, is_integer, is_number


@pytest.mark.parametrize(
    ("value", "integer", "number", "of_any_package"),
    [
        (3, True, True, 3),
        (True, False, False, None),
        (0.5, False, True, None),
        (np.int32(3), False, False, 3),
        (np.bool_(True), False, False, None),
        ("3", False, False, None),
        (None, False, False, None),
    ],
)
def test_what_is_an_integer(value: object, integer: bool, number: bool, of_any_package: int | None) -> None:
    assert (is_integer(value), is_number(value), integer_of(value)) == (integer, number, of_any_package)
    assert not isinstance(integer_of(value), np.generic)
