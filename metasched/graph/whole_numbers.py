"""Numbers of elements as callers give them: Python's integers and NumPy's."""

from __future__ import annotations

import operator
from typing import Any

from metasched.graph.errors import NetworkError


def whole_number(value: Any, what: str) -> int:
    """An integer of any package as Python's. Raises NetworkError for anything else; `what` is what it is, for that."""
    try:
        return operator.index(value)
    except TypeError:
        raise NetworkError(f"{what} is a whole number, and not {value!r}") from None
