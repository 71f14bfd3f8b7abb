"""What a short list is compared with: codes that a search without permissions may find."""

from __future__ import annotations

import pytest

import metasched as ms
from benchmarks import short_list
from benchmarks.short_list import fastest_unasked
from benchmarks.yardstick.data import SPACE, TimedCode, TimedTask
from metasched.lang import parse_program
from metasched.schedule.trace import Trace
from tests.support.targets import AVX512

_PROGRAM = """program small(A: f32[8, 64]) -> B: f32[8]:
    B[i] = max[j](A[i, j])
"""
_PLAIN = """trace 1 of small:
    B = get_block("B")
    i, j = get_loops(B)
    vectorize(j, lanes={lanes})
"""
_FAST = _PLAIN + '    annotate(B, "fastmath", True)\n'


def test_codes_that_need_a_permission_are_no_rivals() -> None:
    sketches = tuple(text.format(lanes=lanes) for text in (_FAST, _PLAIN) for lanes in (16, 32, 64))
    codes = tuple(TimedCode(n, (), 1e-6 * (n + 1), 2e-6 * (n + 1)) for n in range(6))
    task = TimedTask("small", {}, _PROGRAM, None, "sums", SPACE, str(AVX512), sketches, codes)
    traces = [Trace.parse(text) for text in fastest_unasked(task, parse_program(_PROGRAM))]
    assert [trace.permissions for trace in traces] == [frozenset()] * 3
    assert [f"lanes={lanes}" in str(trace) for trace, lanes in zip(traces, (16, 32, 64), strict=True)] == [True] * 3


def test_the_unaided_guess_is_the_first_favourite_that_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = [Trace.parse(_PLAIN.format(lanes=lanes)) for lanes in (16, 32, 64)]
    refused = iter(["unroll too large"])
    monkeypatch.setattr(short_list, "favourites", lambda arms: iter(traces))
    monkeypatch.setattr(short_list, "obstacle_to", lambda func, target: next(refused, None))
    assert list(short_list._unaided(ms.Task(parse_program(_PROGRAM), target=AVX512))) == list(map(str, traces[1:]))
