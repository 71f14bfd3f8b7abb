"""A short run of the fuzzer, and that it reaches every primitive and makes a failure small."""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from metasched.compiler.lower import lower
from metasched.errors import LanguageError, ScheduleError
from metasched.ir.validate import InvalidProgram
from metasched.lang import parse_program
from metasched.lang.instructions import TraceData
from metasched.measure.records import CheckError
from metasched.schedule import interpreter
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Schedule, Trace
from tests.property.fuzz.fuzz_actions import ACTIONS, LOOKING, Spot
from tests.property.fuzz.fuzz_case import PER_PROGRAM, SOURCES, Case, Failure, Oracle, Watched, read_text, text_of
from tests.property.fuzz.fuzz_invariants import invariants
from tests.property.fuzz.fuzz_meaning import is_plain
from tests.property.fuzz.fuzz_programs import Source, pick, small
from tests.property.fuzz.fuzz_shrink import shrink
from tests.property.fuzz.fuzz_wide import wide
from tests.property.fuzz.fuzz_windows import windows

SEED = 21
# Of programs of this seed, those that suit the entries that few do come early.
ENTRIES_SEED = 0
# What is special in those left out is in their values, which entries do not look at.
ENTRIES_SOURCES = tuple(source for source in SOURCES if source is not invariants)
GROUPS = 6


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs_under_random_schedules(group: int) -> None:
    """Every schedule is valid after each step, prints, replays, and computes what the program says in machine code."""
    tried = 0
    for number in range(group * PER_PROGRAM, (group + 1) * PER_PROGRAM):
        schedules, failure = Case(SEED, number).run()
        assert failure is None, f"case {number} of seed {SEED}: {failure}"
        tried += schedules
    assert tried


def test_every_primitive_has_an_entry() -> None:
    assert {*ACTIONS, *LOOKING} == set(registry()), (
        "give a new primitive an entry in tests/property/fuzz/fuzz_actions.py"
    )


@pytest.mark.parametrize("name", [*ACTIONS, *LOOKING])
def test_an_entry_has_nothing_to_choose_from_in_a_program_without_dimensions(name: str) -> None:
    program = parse_program("program p(X: i64[], s: i64) -> Y: i64[]:\n    T[] = X[] + s\n    Y[] = T[] * 2\n")
    actions = ACTIONS[name] if name in ACTIONS else (LOOKING[name],)
    for seed in range(12):
        rng = np.random.default_rng([SEED, seed])
        with suppress(ScheduleError):
            spot = Spot(Schedule(program, seed=seed), rng)
            spot.pick(actions)(spot)


def test_every_entry_is_legal_at_times() -> None:
    missing = set(ACTIONS)
    for number in count():
        assert number < 2000, f"never legal: {sorted(missing)}"
        rng = np.random.default_rng([ENTRIES_SEED, number])
        source = pick(rng, ENTRIES_SOURCES)(rng)
        if small(source):
            schedule = Schedule(source.program(), seed=number)
            for name in sorted(missing) * 2:
                _try(schedule, rng, name)
            missing -= {i.op for i in schedule.trace.instructions}
        if not missing:
            return


def _try(schedule: Schedule, rng: np.random.Generator, name: str) -> None:
    spot = Spot(schedule, rng)
    try:
        spot.pick(ACTIONS[name])(spot)
    except ScheduleError as error:
        assert error.message


def test_cases_are_what_their_numbers_say() -> None:
    first, again = Case(3, 5), Case(3, 5)
    assert first.source == again.source
    assert first.run() == again.run()
    assert len({Case(3, n * PER_PROGRAM).source for n in range(8)}) == 8


def test_sources_are_of_all_kinds() -> None:
    texts = [pick(rng, SOURCES)(rng).text for rng in map(np.random.default_rng, range(60))]
    kinds = Counter(text.strip().partition(" ")[0] + text.strip()[8:13] for text in texts)
    assert len(kinds) > 5


def _lanes_around_reductions() -> Counter[str]:
    """The steps that are legal of many attempts; every program is validated after each."""
    taken: Counter[str] = Counter()
    for seed in range(60):
        rng = np.random.default_rng([SEED, seed])
        schedule = Watched(windows(rng).program(), seed=seed)
        with suppress(ScheduleError):
            ACTIONS["vectorize"][-1](Spot(schedule, rng))
        taken.update(i.op for i in schedule.trace.instructions)
    return taken


def test_lanes_that_add_to_the_same_sums_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are valid; some would not be if lanes were put around any reduction."""
    assert _lanes_around_reductions()["vectorize"] > 10
    monkeypatch.setattr(interpreter, "require_sums_apart", lambda ctx, op: None)
    with pytest.raises(InvalidProgram, match="lanes add a term twice to elements of `B` in `rows`"):
        _lanes_around_reductions()


def test_long_operations_come_before_loops_in_many_programs() -> None:
    kept = 0
    for seed in range(30):
        schedule = Schedule(invariants(np.random.default_rng([SEED, seed])).program())
        kept += any(".same" in array.name for array in lower(schedule.func, schedule.target).arrays)
    assert kept > 10


# --- making a failure small

PROGRAM = """
program made[N=8, M=5](A: f32[N, M], B: f32[M]) -> (T1: f32[N], T2: f32[N, M]):
    s0: T0[i < N, j < M] = ((A[i, j] + B[j]) * max(A[i, j], 2))
    T1[i < N] = sum[r < M](T0[i, r])
    s2: T2[i < N, j < M] = (T0[i, j] - 1)
"""


def _failure() -> Failure:
    source = Source(PROGRAM, (("N", 8), ("M", 5)))
    schedule = Schedule(source.program(), seed=0)
    i, j = schedule.get_loops(schedule.get_block("s0"))
    schedule.parallel(schedule.split(i, [None, 4])[0])
    schedule.vectorize(j, lanes=8)
    schedule.unroll(schedule.get_loops(schedule.get_block("T1"))[1])
    return Failure("planted", "", source, schedule.trace.data)


def _planted(source: Source, trace: TraceData) -> tuple[str, str] | None:
    """A bug in vector loops of programs with a maximum."""
    try:
        program = source.program()
        schedule = Trace(replace(trace, params=program.params)).apply_to(program)
    except (ScheduleError, LanguageError):
        return None
    shown = any(i.op == "vectorize" for i in schedule.trace.instructions) and "max(" in source.text
    return ("planted", "found") if shown else None


def test_a_failure_is_made_small() -> None:
    found = shrink(_failure(), _planted, seconds=20)
    assert found.detail == "found"
    assert [i.op for i in found.trace.instructions] == ["get_block", "get_loops", "vectorize"]
    assert all(value == 1 for _, value in found.source.sizes)
    assert len(found.source.text.strip().splitlines()) == 2, found.source.text
    assert "T0[i, j] - 1" not in found.source.text
    source, trace = read_text(text_of(found.source, found.trace))
    assert trace == found.trace
    assert _planted(source, trace) is not None


def test_another_failure_is_not_taken_for_it() -> None:
    assert shrink(_failure(), lambda source, trace: ("other", ""), seconds=5) == _failure()


def test_a_worker_that_dies_before_its_first_case_says_which(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("fuzz_main", Path(__file__).parent / "fuzz" / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    worker = fuzz._Worker(argparse.Namespace(seed="no number"), 0, 7, time.monotonic() + 60, tmp_path)
    assert worker.process.wait(60) != 0
    assert worker.died_at() == 7


# --- index arithmetic near 64 bits


def test_wide_programs_are_legal_or_refused_for_64_bits() -> None:
    told: Counter[str] = Counter()
    for number in range(80):
        try:
            program = wide(np.random.default_rng([SEED, number])).program()
        except LanguageError as error:
            told.update("refused" for d in error.diagnostics if "leaves 64 bits" in d.message)
            continue
        assert is_plain(program.definition)
        told["legal"] += 1
    assert told["refused"] > 10
    assert told["legal"] > 10


def test_the_reference_computes_what_the_text_says() -> None:
    compared = 0
    for number in range(25):
        with suppress(LanguageError, CheckError):
            assert Oracle(wide(np.random.default_rng([SEED, number]))).wrong_meaning() is None, f"program {number}"
            compared += 1
    assert compared > 10


def test_a_reference_that_is_wrong_is_seen() -> None:
    oracle = Oracle(Source("program p(X: i64[4]) -> Y: i64[4]:\n    Y[i < 4] = X[i % 4] * 4611686018427387905\n"))
    assert oracle.wrong_meaning() is None
    oracle.cases.integers.expected[0][2] += 1
    assert "by its text" in str(oracle.wrong_meaning())


@pytest.mark.parametrize("reducer", ["sum", "max", "min"])
@pytest.mark.parametrize("present", [2, 9])
def test_the_text_says_which_terms_are_there(reducer: str, present: int) -> None:
    stage = f"Y[i < 2] = {reducer}[r < 4 if r == {present}](X[i, r])"
    assert Oracle(Source(f"program p(X: i64[2, 4]) -> Y: i64[2]:\n    {stage}\n")).wrong_meaning() is None
