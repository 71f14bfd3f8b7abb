"""What a seed may be."""

from __future__ import annotations

from metasched.errors import MetaschedError
from metasched.support.integers import integer_of

LARGEST_SEED = (1 << 63) - 1


def seed_of(value: object) -> int:
    """A caller's seed as a Python number, of which NumPy's integers are taken, too; True answers another question.

    Raises MetaschedError for what is no integer from 0 to 2**63 - 1: NumPy's generators take none below zero, and
    databases keep none that is larger.
    """
    number = integer_of(value)
    if number is None or not 0 <= number <= LARGEST_SEED:
        raise MetaschedError(f"seed is {value!r}; it is an integer from 0 to 2**63 - 1, such as 0")
    return number
