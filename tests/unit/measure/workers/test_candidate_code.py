"""Candidates with constant arguments: checked in their two parts, timed by the main part, and checked as wholes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import metasched as ms
from metasched.compiler.cpu.codegen import compile_text
from metasched.measure import compiling
from metasched.measure.checking.check import Bench, Cases, prepare
from metasched.measure.checking.inputs import Given
from metasched.measure.compiling import code_hash, compile_candidate, compile_func, lower_candidate, lower_func
from metasched.measure.records import Artefact, Reason
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan
from metasched.measure.workers import candidate_code
from metasched.measure.workers.candidate_timer import CandidateTimer
from metasched.measure.workers.load import BoundKernel, LoadedKernel
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.support.stopwatch import Stopwatch
from metasched.target import Target

TARGET = Target.detect(threads=1)
# So long that other processes do not spend the budget of a visit.
PLAN = TimingPlan(sample_s=1e-4, samples=2, budget_s=10.0, apart_s=0.0)
TEXT = """
program scores[N=5, M=37, K=9, T=f32](
    X: T[N, K], alpha: T, const W: T[K, M], const bias: T[M]
) -> (Y: T[N, M], Z: T[M]):
    V: T[K, M]
    squared: V[k, j] = W[k, j] * W[k, j] + bias[j]
    dense: D[i, j] = sum[k](X[i, k] * V[k, j])
    Y[i, j] = D[i, j] * alpha
    most: Z[j] = max[k](V[k, j])
"""


def program(**sizes: Any) -> ms.Program:
    return ms.parse_program(TEXT, **sizes)


def in_the_main_part(sch: ms.Schedule) -> None:
    sch.compute_inline(sch.get_block("squared"))


def scheduled(change: Callable[[ms.Schedule], object] = lambda sch: None, **sizes: Any) -> ms.Schedule:
    schedule = ms.Schedule(program(**sizes))
    change(schedule)
    return schedule


def built(schedule: ms.Schedule) -> tuple[Artefact, bytes]:
    artefact, text, _ = lower_candidate(schedule.func, TARGET, Stopwatch())
    return compile_candidate(Artefact.from_json(json.loads(json.dumps(artefact.to_json()))), text, Stopwatch())


def request(tmp_path: Path, artefact: Artefact, code: bytes, **sizes: Any) -> Message:
    path = tmp_path / "cases.npz"
    prepare(program(**sizes).func, Given({}, {}), 0).save(path)
    body = {
        "artefact": artefact.to_json(),
        "data": str(path),
        "plan": asdict(PLAN),
        "best_s": None,
        "first": True,
        "verify": True,
    }
    return Message(MessageKind.RUN, json.loads(json.dumps(body)), code)


@pytest.fixture(scope="module")
def timer() -> CandidateTimer:
    return CandidateTimer(threads=1)


@pytest.mark.parametrize("dtype", ["f32", "i32", "f64"])
def test_the_main_part_is_timed_and_the_prologue_apart(timer: CandidateTimer, tmp_path: Path, dtype: str) -> None:
    artefact, code = built(scheduled(T=dtype))
    assert artefact.ahead is not None
    assert (artefact.ahead.given, artefact.ahead.taken) == ((2, 3), (0, 1))
    assert artefact.ahead.result_bytes == (9 * 37 * (8 if dtype == "f64" else 4),)
    asked = request(tmp_path, artefact, code, T=dtype)
    for body in (asked.body, asked.body | {"first": False}):
        done = timer.run(replace(asked, body=body))
        assert done.kind is MessageKind.DONE, done.body
        assert done.body["prologue_seconds"] > 0
        assert len(done.body["times"]) == PLAN.samples


def test_the_prologue_runs_once_before_the_calls_that_are_timed(
    timer: CandidateTimer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []
    parts: dict[BoundKernel, str] = {}
    run = BoundKernel.run

    def counted(self: BoundKernel, times: int) -> float:
        calls.append((parts[self], times))
        return run(self, times)

    bind = LoadedKernel.bind

    def named(self: LoadedKernel, addresses: Sequence[int], workspace: int) -> BoundKernel:
        bound = bind(self, addresses, workspace)
        parts[bound] = {2 + 1: "prologue", 2 + 1 + 2: "main"}[len(addresses)]
        return bound

    monkeypatch.setattr(BoundKernel, "run", counted)
    monkeypatch.setattr(LoadedKernel, "bind", named)
    done = timer.run(request(tmp_path, *built(scheduled())))
    assert done.kind is MessageKind.DONE
    checks = [("prologue", 1), ("main", 1)] * 2
    assert calls[: len(checks)] == checks
    timed = calls[len(checks) :]
    assert {part for part, _ in timed} == {"main"}
    assert max(times for _, times in timed) > 1


def test_code_is_loaded_once_for_all_visits(
    timer: CandidateTimer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[bytes] = []

    def noted(artefact: Artefact, data: bytes) -> LoadedKernel:
        loaded.append(data)
        return LoadedKernel(artefact, data)

    monkeypatch.setattr(candidate_code, "LoadedKernel", noted)
    asked = request(tmp_path, *built(scheduled(N=3, M=7)), N=3, M=7)
    for body in (asked.body, asked.body | {"first": False}):
        assert timer.run(replace(asked, body=body)).kind is MessageKind.DONE
    assert len(loaded) == 2  # the prologue, and the main part


def test_without_a_prologue_all_of_it_is_timed(timer: CandidateTimer, tmp_path: Path) -> None:
    artefact, code = built(scheduled(in_the_main_part))
    assert artefact.ahead is None
    done = timer.run(request(tmp_path, artefact, code))
    assert done.kind is MessageKind.DONE, done.body
    assert done.body["prologue_seconds"] is None


SQUARED = "W[k, j] * W[k, j] + bias[j]", "W[k, j] + bias[j]"
SCALED = "D[i, j] * alpha", "D[i, j] + alpha"


def spoilt(change: tuple[str, str]) -> ms.Schedule:
    """A schedule of a program that computes something else."""
    return ms.Schedule(ms.parse_program(TEXT.replace(*change)))


@pytest.mark.parametrize("part", [0, 1], ids=["prologue", "main"])
def test_each_part_is_checked(timer: CandidateTimer, tmp_path: Path, part: int) -> None:
    artefact, code = built(scheduled())
    codes = list(artefact.split(code))
    other, bad = built(spoilt((SQUARED, SCALED)[part]))
    codes[part] = other.split(bad)[part]
    assert artefact.ahead is not None
    mixed = replace(artefact, ahead=replace(artefact.ahead, size=len(codes[0])))
    answer = timer.run(request(tmp_path, mixed, b"".join(codes)))
    assert answer.kind is MessageKind.FAILED
    assert answer.body["reason"] == Reason.WRONG_RESULT.value


def test_the_whole_is_checked(timer: CandidateTimer, tmp_path: Path) -> None:
    right, wrong = (compile_func(s.func, TARGET, Stopwatch()) for s in (scheduled(), spoilt(SQUARED)))
    assert timer.check(request(tmp_path, *right)).kind is MessageKind.DONE
    answer = timer.check(request(tmp_path, *wrong))
    assert answer.kind is MessageKind.FAILED
    assert answer.body["reason"] == Reason.WRONG_RESULT.value


def test_a_prologue_that_several_have_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def counted(text: str, target: Target) -> Any:
        texts.append(text)
        return compile_text(text, target)

    monkeypatch.setattr(compiling, "compile_text", counted)
    first, second = (built(scheduled(N=rows, K=11)) for rows in (6, 7))
    assert len(texts) == 3
    assert first[0].split(first[1])[0] == second[0].split(second[1])[0] != b""


def test_constants_are_aligned_as_packing_copies_them(tmp_path: Path) -> None:
    prepare(program().func, Given({}, {}), 0).save(tmp_path / "c.npz")
    cases = Cases.load(tmp_path / "c.npz")
    assert cases.constants == (2, 3)
    assert [guarded.address % 64 for guarded in Bench(cases).inputs] == [16, 16, 0, 0]


def test_equal_main_parts_are_equal_code_whatever_their_prologues() -> None:
    def vectorised(sch: ms.Schedule) -> None:
        sch.vectorize(sch.get_loops(sch.get_block("squared"))[1], lanes=16)

    first, second = (
        lower_candidate(scheduled(change).func, TARGET, Stopwatch()) for change in (lambda sch: 0, vectorised)
    )
    assert first[1] != second[1]
    assert first[2] == second[2]
    plain = ms.Schedule(ms.parse_program(TEXT.replace("const ", ""))).func
    _, text, code = lower_candidate(plain, TARGET, Stopwatch())
    assert code == code_hash(text.decode()) == code_hash(lower_func(plain, TARGET, Stopwatch())[1])


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    with LocalRunner(RunnerSettings(threads=1, builders=1, plan=PLAN)) as found:
        yield found


def test_a_runner_says_what_is_paid_once(runner: LocalRunner) -> None:
    asked = (scheduled(), scheduled(in_the_main_part))
    ahead, under = (runner.submit(s.program, str(s.trace), str(TARGET)).result() for s in asked)
    assert (ahead.failure, under.failure) == (None, None)
    assert ahead.prologue_seconds is not None
    assert ahead.prologue_seconds > 0
    assert under.prologue_seconds is None
    assert ahead.code == lower_candidate(scheduled().func, TARGET, Stopwatch())[2]


def test_what_was_built_is_not_built_again(runner: LocalRunner) -> None:
    asked = scheduled(in_the_main_part)
    plan = PLAN.without_race()  # other tests' candidates are of the same task, and may be faster
    first, again = (runner.submit(asked.program, str(asked.trace), str(TARGET), plan=plan).result() for _ in range(2))
    assert (again.failure, again.code) == (None, first.code)
    assert len(again.visits) == PLAN.visits
    assert "compile" not in dict(again.phases)
