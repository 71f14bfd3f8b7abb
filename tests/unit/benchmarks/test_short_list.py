"""What a short list is compared with: codes that a search without permissions may find."""

from __future__ import annotations

from concurrent.futures import Future
from typing import cast

import pytest

import metasched as ms
from benchmarks import short_list
from benchmarks.network_shapes import LAYERS
from benchmarks.registry import Options
from benchmarks.short_list import _Shape, fastest_allowed
from benchmarks.yardstick.data import SPACE, TimedCode, TimedTask
from metasched.lang import parse_program
from metasched.measure.records import MeasureCandidate, Measurement
from metasched.measure.runner import LocalRunner
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
    traces = [Trace.parse(text) for text in fastest_allowed(task, parse_program(_PROGRAM))]
    assert [trace.permissions for trace in traces] == [frozenset()] * 3
    assert [f"lanes={lanes}" in str(trace) for trace, lanes in zip(traces, (16, 32, 64), strict=True)] == [True] * 3


def test_the_unaided_guess_is_the_first_favourite_that_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = [Trace.parse(_PLAIN.format(lanes=lanes)) for lanes in (16, 32, 64)]
    refused = iter(["unroll too large"])
    monkeypatch.setattr(short_list, "favourites", lambda arms: iter(traces))
    monkeypatch.setattr(short_list, "obstacle_to", lambda func, target: next(refused, None))
    task = ms.Task(parse_program(_PROGRAM), target=AVX512)
    assert list(short_list._favourite_traces(task)) == list(map(str, traces[1:]))


class _Times:
    """A runner that knows what each trace takes: of one in parts, and once."""

    def __init__(self, seconds: dict[str, tuple[float, float | None] | None]) -> None:
        self._seconds = seconds

    def submit(self, program: ms.Program, trace: str, target: str, plan: object) -> Future[Measurement]:
        known = self._seconds[trace]
        visits, once = ((), None) if known is None else (((known[0],),), known[1])
        future: Future[Measurement] = Future()
        candidate = MeasureCandidate(str(program), {}, trace, target)
        future.set_result(Measurement(candidate, visits, False, None, (), None, once))
        return future


def test_of_each_way_the_fastest_is_told_with_what_it_computes_once() -> None:
    runner = cast(LocalRunner, _Times({"slow": (3e-3, None), "packed": (2e-3, 1e-3), "broken": None}))
    task = ms.Task(parse_program(_PROGRAM), target=AVX512)
    ways = {"few": ["slow"], "all": ["slow", "broken", "packed"], "none": ["broken"], "empty": []}
    found = _Shape(LAYERS[0], None, runner, Options())._time_traces(task, ways)
    assert {name: (one.seconds, one.prologue_s) for name, one in found.items()} == {
        "few": (3e-3, None),
        "all": (2e-3, 1e-3),
    }
