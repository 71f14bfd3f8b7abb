"""Where each math function has a value."""

from __future__ import annotations

_WITHIN_ONE = frozenset({"acos", "asin", "atanh"})
_BEYOND_ONE = frozenset({"acosh"})


def domain_of(name: str) -> tuple[float, float]:
    """A range of positive numbers of which a math function has values, and no infinite ones."""
    if name in _WITHIN_ONE:
        return 0.05, 0.95
    return (1.05, 3.0) if name in _BEYOND_ONE else (0.05, 3.0)
