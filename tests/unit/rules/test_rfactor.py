"""Factored reductions."""

from __future__ import annotations

import pytest

import metasched as ms
from tests.support.rulework import apply, correct

TOTAL = "program total[N=4096](X: f32[1, N]) -> y: f32[1]:\n    y[b] = sum[k](X[b, k])\n"


def in_parts(terms: int) -> ms.Schedule:
    """A draw in which neighbouring terms are in one part."""
    draws = (apply(TOTAL, "rfactor", "parallelize", seed=seed, N=terms)[0] for seed in range(20))
    return next(sch for sch in draws if ':= "outer"' in str(sch.trace))


@pytest.mark.parametrize(("terms", "threads"), [(4096, False), (1 << 18, True)])
def test_threads_start_for_long_sums_only(terms: int, threads: bool) -> None:
    """How many parts there are is a tile size; how many terms all of them have is not."""
    sch = in_parts(terms)
    assert ("parallel(" in str(sch.trace)) == threads
    correct(sch)
