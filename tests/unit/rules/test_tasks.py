"""How many iterations outside are enough for the threads of a target."""

from __future__ import annotations

from dataclasses import replace

import pytest

import metasched as ms
from metasched.search.guesses.guess import guess
from metasched.space.source import FromRules
from tests.support.rulework import TARGET, rule

SCALED = "program scaled[N=8, M=9000](X: f32[N, M]) -> Y: f32[N, M]:\n    Y[i, j] = X[i, j] * 2.0\n"
PIXELS = """
program pixels[N=8, H=57](X: f32[N, 64, H, 7], s: f32[N]) -> Y: f32[N, 64, H, 7]:
    Y[n, c, h, w] = X[n, c, h, w] * s[n]
"""
POINTS = """
program points[B=8, N=9000](X: f32[B, N, 3], w: f32[B, N]) -> Y: f32[B, N, 3]:
    Y[b, n, c] = X[b, n, c] * w[b, n]
"""
ROWS = """
program rows[M=8, N=9000](X: f32[M, N]) -> s: f32[M]:
    top: m[i] = max[j](X[i, j])
    exps: e[i, j] = exp(X[i, j] - m[i])
    total: s[i] = sum[j](e[i, j])
"""
PROGRAMS = {"long_rows": SCALED, "row_runs": PIXELS, "short_rows": POINTS, "row_parts": ROWS}
CUTS = {"long_rows": "/j", "row_runs": "/length", "short_rows": "/length", "row_parts": "/parts"}


def is_cut(name: str, threads: int, **settings: int) -> bool:
    """Whether the rule, as far as it does anything to a program of eight rows, decides about parts of them."""
    sch = ms.Schedule(ms.parse_program(PROGRAMS[name]), replace(TARGET, threads=threads), seed=3)
    FromRules((rule(name)(**settings),)).run(sch)
    return any(record.site.address.endswith(CUTS[name]) for record in sch.sites)


@pytest.mark.parametrize("name", PROGRAMS)
def test_four_for_each_thread_are_enough_and_eight_for_few(name: str) -> None:
    assert [is_cut(name, threads) for threads in (1, 2, 3, 64)] == [False, False, True, True]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_number_that_was_given_is_for_every_target(name: str) -> None:
    assert [is_cut(name, threads, tasks=8) for threads in (2, 64)] == [False, False]
    assert [is_cut(name, threads, tasks=9) for threads in (2, 64)] == [True, True]


def test_a_guess_of_few_long_rows_uses_all_threads() -> None:
    program, target = ms.parse_program(SCALED, M=1 << 22), replace(TARGET, threads=64)
    trace = guess(program, target).trace
    sch = ms.parse_trace(str(trace)).apply_to(program, target=target)
    shared = sch.describe(sch.get_block("Y"))
    assert shared.kinds[0] is ms.LoopKind.PARALLEL
    assert (shared.extents[0] or 0) >= 64
