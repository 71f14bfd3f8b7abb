"""A trace in the names of another program: in the space of the other, and back again."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.schedule import trace_renaming
from metasched.schedule.trace import Trace
from metasched.schedule.trace_outline import outline_of_trace
from metasched.schedule.trace_renaming import in_names_of

ONE = ms.parse_program("""program conv_relu[N=14, P=1](A: f32[N, N], K: f32[3, 3]) -> D: f32[N, N]:
    Ap: f32[N + 2*P, N + 2*P]
    pad: Ap[h, w] = A[h - P, w - P] if h >= P and h < N + P and w >= P and w < N + P else 0
    C: f32[N, N]
    conv: C[i, j] = sum[r, s](Ap[i + r, j + s] * K[r, s])
    relu: D[i, j] = max(C[i, j], 0)
""")
OTHER = ms.parse_program("""program b[M=14, Q=1](X: f32[M, M], W: f32[3, 3]) -> Z: f32[M, M]:
    Y: f32[M + 2*Q, M + 2*Q]
    a: Y[z, y] = X[z - Q, y - Q] if z >= Q and z < M + Q and y >= Q and y < M + Q else 0
    T: f32[M, M]
    c: T[x, v] = sum[u, t](Y[x + u, v + t] * W[u, t])
    d: Z[m, n] = max(T[m, n], 0)
""")


MOST_SKETCHES, MOST_VARIANTS = 8, 2


def candidates(program: ms.Program) -> list[Trace]:
    """One of each variant of each sketch."""
    space, rng, out = ms.space(program, max_sketches=MOST_SKETCHES), np.random.default_rng(0), []
    for n in range(len(space)):
        for sketch in space.variants(n, MOST_VARIANTS):
            rows = sketch.repair(sketch.sample(rng, 16))
            rows = rows[sketch.mask(rows)]
            out += [sketch.trace_of(row) for row in rows[:1]]
    return out


def test_every_candidate_is_one_of_the_other_programs_space_and_comes_back() -> None:
    assert ONE.structural_hash() == OTHER.structural_hash()
    traces = candidates(ONE)
    assert len(traces) > 4
    space = ms.space(OTHER, max_sketches=MOST_SKETCHES)
    variants = (s for n in range(len(space)) for s in space.variants(n, MOST_VARIANTS))
    structures = {outline_of_trace(s.trace).structure for s in variants}
    there = 0
    for trace in traces:
        renamed = in_names_of(trace, ONE, OTHER)
        assert renamed.apply_to(OTHER).repairs == []
        there += outline_of_trace(renamed).structure in structures
        assert in_names_of(renamed, OTHER, ONE).canonical() == trace.canonical()
    assert there == len(traces)


def test_names_in_texts_addresses_options_and_places_are_the_others() -> None:
    trace = ms.parse_trace("""trace 1 of conv_relu[N=14, P=1]:
    conv = get_block("conv")
    what ~ choose("Ap", "none") @ "cache(conv, pad)/what" := "Ap"
    conv_Ap_read = cache_read(conv, "Ap", scope="local")
    how ~ choose("Ap in tiles", "none") @ "pack(conv)/how" := "Ap in tiles"
    copy = get_block("conv.Ap.read")
    pad = get_block("pad")
    place ~ sample_compute_location(pad) @ "locate(pad)#2/pad" := root
    compute_at(pad, place)
    i, j, r, s = get_loops(conv)
    t0, t1 ~ sample_tile(i, parts=2) @ "mine" := [_, 8]
    i_0, i_1 = split(i, [t0, t1])
""")
    text = str(in_names_of(trace, ONE, OTHER))
    for expected in (
        "trace 1 of b[M=14, Q=1]:",
        'c = get_block("c")',
        'what ~ choose("Y", "none") @ "cache(c, a)/what" := "Y"',
        'how ~ choose("Y in tiles", "none") @ "pack(c)/how" := "Y in tiles"',
        'cache_read(c, "Y", scope="local")',
        'get_block("c.Y.read")',
        '@ "locate(a)#2/a" := root',
        '@ "mine" := [_, 8]',
        "x_0, x_1 = split(x, [t0, t1])",
    ):
        assert expected in text


def test_programs_that_differ_in_more_than_names() -> None:
    with pytest.raises(ms.ScheduleError, match="differ in more than names"):
        in_names_of(candidates(ONE)[0], ONE, ms.parse_program(str(ONE), N=15))


def test_a_trace_that_means_something_else_in_the_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    nests = iter(["one", "another"])
    monkeypatch.setattr(trace_renaming, "_nests", lambda func: next(nests))
    with pytest.raises(ms.ScheduleError, match="it has another meaning in the names of"):
        in_names_of(candidates(ONE)[0], ONE, OTHER)
