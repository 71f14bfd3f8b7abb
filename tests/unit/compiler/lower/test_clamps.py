"""Loops cut where the minima and maxima in what they read are decided."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.compiler.lir import VectorLoop
from metasched.compiler.lower import lower
from metasched.lang import parse_program
from metasched.runtime.compiled import build
from metasched.schedule.trace import Schedule
from metasched.target import Target

TEXT = """
program pad[H=3, W=70, P=3, T=f32](X: T[H, W]) -> Y: T[H + 2*P, W + 2*P]:
    Y[i, j] = X[%s]
"""
EDGE, REFLECTED = "clamp(i - P, 0, H - 1), clamp(j - P, 0, W - 1)", "mirror(i - P, H), mirror(j - P, W)"
MODES = {"edge": EDGE, "reflect": REFLECTED}


def scheduled(indices: str, lanes: int, part: int | None, **sizes: int | str) -> Schedule:
    sch = Schedule(parse_program(TEXT % indices, **sizes))
    loop = sch.get_loops(sch.get_block("Y"))[-1]
    if part is not None:
        loop = sch.split(loop, [None, part])[-1]
    sch.vectorize(loop, lanes=lanes)
    return sch


PARTS = [(4, None), (16, None), (32, None), (4, 25), (16, 16), (32, 25)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("lanes", "part"), PARTS)
def test_borders_are_those_of_numpy(mode: str, lanes: int, part: int | None) -> None:
    for w, p in ((70, 3), (5, 4), (33, 1), (16, 15)):
        sch = scheduled(MODES[mode], lanes, part, H=p + 1, W=w, P=p, T="u16")
        x = np.random.default_rng(w).integers(0, 2**16, (p + 1, w)).astype(np.uint16)
        out = np.zeros((p + 1 + 2 * p, w + 2 * p), np.uint16)
        build(sch.func, Target.detect())(x, out)
        np.testing.assert_array_equal(out, np.pad(x, p, mode=mode))  # type: ignore[call-overload]


@pytest.mark.parametrize("indices", MODES.values(), ids=MODES)
def test_most_of_a_row_is_read_without_minima_and_maxima(indices: str) -> None:
    """Three loops; the middle one's bounds say that its lanes lie one after another, so that it has no gather."""
    sch = scheduled(indices, 8, None, W=200)
    extents = [int(x.extent.value) for x in lower(sch.func, Target.detect()).body.walk() if isinstance(x, VectorLoop)]
    assert extents == [8, 192, 6]
    assert sum(extents) == 206


def test_loops_without_clamps_and_around_several_statements_stay_whole() -> None:
    sch = Schedule(parse_program("program p[N=64](X: f32[N]) -> Y: f32[N]:\n    Y[i] = X[max(N - 1 - i, 0)]\n"))
    (loop,) = sch.get_loops(sch.get_block("Y"))
    sch.vectorize(loop, lanes=8)
    loops = [x for x in lower(sch.func, Target.detect()).body.walk() if isinstance(x, VectorLoop)]
    assert len(loops) == 1
