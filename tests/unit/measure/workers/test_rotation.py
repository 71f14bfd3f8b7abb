"""Constants that are cold: one call after another takes another copy, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metasched.lang import parse_program
from metasched.measure.checking.check import Bench, prepare
from metasched.measure.checking.inputs import Given
from metasched.measure.compiling import compile_candidate, lower_candidate
from metasched.measure.surroundings import rotation_bytes, surroundings_in
from metasched.measure.timing import Surroundings, TimingPlan
from metasched.measure.workers.candidate_code import load_code
from metasched.measure.workers.rotation import rotate_constants
from metasched.runtime.threads import state
from metasched.support.stopwatch import Stopwatch
from metasched.target import Target

TEXT = """
program scaled[N=512](A: f32[N], const W: f32[N]) -> B: f32[N]:
    P: f32[N]
    pack: P[i] = W[i] * 2
    B[i] = A[i] * P[i] + W[i]
"""
SMALL = replace(Target.detect(), l1=1024, l2=2048, l3=8192, threads=1)


@pytest.mark.parametrize(
    ("size", "found"),
    [(2048, Surroundings.NETWORK), (2049, Surroundings.LAST_CACHE), (9000, Surroundings.MEMORY)],
)
def test_where_constants_are_follows_from_what_a_network_goes_through(size: int, found: Surroundings) -> None:
    assert surroundings_in(size, SMALL) is found


def test_more_is_gone_through_than_the_caches_hold() -> None:
    near, far = (
        rotation_bytes(Surroundings(c), SMALL)
        for c in ("network, constants from the last cache", "network, constants from memory")
    )
    assert rotation_bytes(Surroundings.ALONE, SMALL) == 0
    assert 2048 < near < 8192 < far


def test_a_plan_is_sent_as_text() -> None:
    assert TimingPlan(surroundings="network").surroundings is Surroundings.NETWORK  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="somewhere"):
        TimingPlan(surroundings="somewhere")  # type: ignore[arg-type]


def test_each_call_takes_the_next_copy_and_gives_the_same(tmp_path: Path) -> None:
    state.start(1)
    func = parse_program(TEXT).func
    phases = Stopwatch()
    artefact, text, _ = lower_candidate(func, SMALL, phases)
    artefact, code = compile_candidate(artefact, text, phases)
    bench = Bench(prepare(func, Given({}, {}), 0))
    divided = load_code(artefact, code)
    bench.load(bench.cases.random, *divided.scratch)
    bound = divided.bind(bench)
    held = divided.constant_arguments(bench)
    assert sorted(guarded.bytes.size for guarded in held.values()) == [2048, 2048], "the weights, and what is packed"
    run = rotate_constants(bound, held, 16 * 1024)
    # Copies were made of what is there now: without them, the next calls would find zeros.
    for guarded in held.values():
        guarded.bytes[...] = 0
    calls = []
    for _ in range(6):
        bench.load(bench.cases.random)
        for guarded in held.values():
            guarded.bytes[...] = 0
        assert run(1) > 0
        expected = bench.cases.random.expected[0]
        result = bench._outputs[0].view(expected.shape, np.float32)
        calls.append(bool(np.abs(result - expected).max() < 1e-4))
    assert calls == [False, True, True, True, False, True], "four sets, of which the first is in place"
    assert rotate_constants(bound, held, 4096) == bound.run, "they do by themselves"
    assert rotate_constants(bound, {}, 1 << 20) == bound.run, "without constants there is nothing to copy"
