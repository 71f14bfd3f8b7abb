"""What runs beside what in a runner: nothing beside a timing, but for builders on cores of their own."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from metasched.errors import ResourceError
from metasched.lang import parse_program
from metasched.measure.machines import require_able
from metasched.measure.paired_timing import IN_TURNS
from metasched.measure.records import CheckError, Failure, Measurement
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan
from metasched.measure.workers.cores import CoreShare, share_of
from metasched.measure.workers.process import Loss, WorkerLost, WorkerRole, WorkerSpec
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.target import Target, TargetError

PROGRAM = parse_program("program add[N=8](A: f32[N]) -> B: f32[N]:\n    add: B[i] = A[i] + 1\n")
PLAN = TimingPlan(visits=2, apart_s=0.0)
_S = 10.0  # the most that a test waits for what must come


@dataclass
class Journal:
    """What is under way now, and what was under way together with a timing.

    Candidates take the `seconds` of their traces, by default half a second; as wholes some are `wrong`.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    now: list[MessageKind] = field(default_factory=list)
    beside: list[MessageKind] = field(default_factory=list)
    built: threading.Event = field(default_factory=threading.Event)
    pinned: list[Set[int]] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    wrong: Set[str] = frozenset()
    seconds: dict[str, float] = field(default_factory=dict)
    waits_for_build: bool = False
    hangs: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)
    timing: threading.Event = field(default_factory=threading.Event)
    both: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=_S))

    @contextmanager
    def entered(self, kind: MessageKind) -> Iterator[None]:
        with self.lock:
            self.now.append(kind)
            if MessageKind.RUN in self.now:
                others = list(self.now)
                others.remove(MessageKind.RUN)
                self.beside += others
        yield
        with self.lock:
            self.now.remove(kind)


class FakeProcess:
    """Answers at once what a worker answers, and says so in a journal."""

    def __init__(self, journal: Journal, place: WorkerSpec) -> None:
        self.journal, self.place = journal, place
        self.ended = threading.Event()

    def request(self, message: Message, timeout_s: float, memory_bytes: int | None = None) -> Message:
        with self.journal.entered(message.kind):
            candidate = message.body.get("candidate", message.body)
            trace = str(candidate.get("trace", ""))
            if trace == "hangs":
                self.journal.hangs.set()
                self.ended.wait(_S)
                raise WorkerLost(Loss.KILLED, "killed", "")
            if message.kind is MessageKind.COMPILE and trace == "slow":
                self.journal.hangs.set()
                while not self.journal.goes_on.is_set():
                    if self.ended.wait(1e-3):
                        self.ended.clear()
                        raise WorkerLost(Loss.KILLED, "killed", "")
            if message.kind is MessageKind.COMPILE and trace == "twice":
                self.journal.both.wait()
            if message.kind is MessageKind.COMPILE and trace.startswith("next"):
                self.journal.built.set()
            if message.kind is MessageKind.RUN:
                self.journal.timing.set()
                time.sleep(2e-3)  # others could begin
                if self.journal.waits_for_build:
                    assert self.journal.built.wait(_S)
                seconds = self.journal.seconds.get(message.body["artefact"]["trace"], 0.5)
                return Message(MessageKind.DONE, {"times": [seconds], "prologue_seconds": None})
            if message.kind is MessageKind.CHECK:
                checked = message.body["artefact"]["trace"]
                self.journal.checked.append(checked)
                if checked in self.journal.wrong:
                    return Message(MessageKind.FAILED, {"reason": "wrong-result", "detail": checked})
            ahead: dict[str, object] | None = {} if trace.startswith("packs") else None
            body = {"candidate": candidate, "artefact": {"ahead": ahead, "trace": trace}, "code": trace, "phases": {}}
            return Message(MessageKind.DONE, body, b"code")

    def run_on(self, cpus: Set[int]) -> None:
        if self.place.role is WorkerRole.BUILDER:
            self.journal.pinned.append(cpus)

    def interrupt(self) -> None:
        self.ended.set()

    def _nothing(self) -> None: ...

    start = await_ready = close = kill = _nothing


def runner_of(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, share: CoreShare | None, builders: int = 2, **settings: Any
) -> LocalRunner:
    monkeypatch.setattr("metasched.measure.runner.WorkerProcess", lambda place, *_: FakeProcess(journal, place))
    monkeypatch.setattr("metasched.measure.runner.shared_cores", lambda threads: share)
    return LocalRunner(RunnerSettings(threads=2, builders=builders, plan=PLAN, **settings))


def test_it_measures_for_what_this_machine_has_only(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Target.detect(threads=2)
    arm = Target("cortex-a72", frozenset({"neon"}), 2, here.l1, here.l2, here.l3)
    with runner_of(Journal(), monkeypatch, None) as runner:
        require_able(runner, here.without(["avx2"]))
        with pytest.raises(
            TargetError, match="kernels for `cortex-a72` cannot be measured on this machine, which lacks `neon`"
        ):
            require_able(runner, arm)


def measured(runner: LocalRunner, journal: Journal) -> None:
    """Four candidates, and while they are measured four others are lowered."""
    first = [runner.lower(PROGRAM, f"now {n}", "t").result(_S) for n in range(4)]
    futures = [runner.submit(PROGRAM, one.candidate.trace, "t", lowered=one) for one in first]
    assert journal.timing.wait(_S)
    after = [runner.lower(PROGRAM, f"next {n}", "t") for n in range(4)]
    assert [future.result(_S).seconds for future in futures] == [0.5] * 4
    assert [future.result(_S).code for future in after] == [f"next {n}" for n in range(4)]


def test_nothing_runs_beside_a_timing_where_a_kernel_takes_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal()
    with runner_of(journal, monkeypatch, None) as runner:
        measured(runner, journal)
    assert journal.beside == []
    assert journal.pinned == []


def test_only_builders_run_beside_a_timing_and_on_other_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(waits_for_build=True)
    share = CoreShare(frozenset({0, 1}), frozenset({2, 3}))
    with runner_of(journal, monkeypatch, share) as runner:
        assert [b.place.cpus for b in runner._building.workers] == [share.building] * 2  # type: ignore[attr-defined]
        assert runner._runner.place.cpus == share.timing  # type: ignore[attr-defined]
        measured(runner, journal)
    assert set(journal.beside) <= {MessageKind.LOWER, MessageKind.COMPILE}
    assert MessageKind.COMPILE in journal.beside, "what is next is built meanwhile"
    assert journal.pinned[:2] == [share.building] * 2


def measure_together(
    runner: LocalRunner, names: Sequence[str], best_s: float | None, plan: TimingPlan
) -> dict[str, Measurement]:
    lowered = [runner.lower(PROGRAM, name, "t").result(_S) for name in names]
    futures = [runner.submit(PROGRAM, one.candidate.trace, "t", best_s, lowered=one, plan=plan) for one in lowered]
    return dict(zip(names, (future.result(_S) for future in futures), strict=True))


def test_what_may_be_the_best_is_checked_as_a_whole_before_its_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(wrong={"packs wrong"}, seconds={"packs slow": 0.8, "packs wrong": 0.51})
    plan = PLAN.without_race()
    with runner_of(journal, monkeypatch, None) as runner:
        found = measure_together(runner, ("packs", "packs wrong", "packs slow", "plain"), None, plan)
        again = runner.submit(PROGRAM, "packs", "t", plan=plan).result(_S)
    assert {name: one.seconds for name, one in found.items()} == {
        "packs": 0.5,
        "packs wrong": None,
        "packs slow": 0.8,
        "plain": 0.5,
    }
    assert found["packs wrong"].failure == Failure("wrong-result", "packs wrong")
    assert again.seconds == 0.5
    assert sorted(journal.checked) == ["packs", "packs wrong"], "each once, and none that is slow"


def test_all_that_is_timed_in_turns_is_checked_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(wrong={"packs wrong"}, seconds={"packs wrong": 0.4, "packs slow": 0.8})
    with runner_of(journal, monkeypatch, None) as runner:
        found = measure_together(runner, ("packs wrong", "packs slow"), None, replace(IN_TURNS, visits=2))
    assert found["packs wrong"].failure is not None
    assert (found["packs slow"].seconds, sorted(journal.checked)) == (0.8, ["packs slow", "packs wrong"])


@pytest.mark.parametrize(
    ("best_s", "checked"),
    [(None, ["packs wrong", "packs"]), (0.6, ["packs wrong", "packs"]), (0.415, ["packs wrong"]), (0.4, [])],
)
def test_of_what_races_the_fastest_are_checked_as_wholes_until_one_is_right(
    monkeypatch: pytest.MonkeyPatch, best_s: float | None, checked: list[str]
) -> None:
    journal = Journal(wrong={"packs wrong"}, seconds={"packs next": 0.43, "packs wrong": 0.41, "packs": 0.42})
    with runner_of(journal, monkeypatch, None) as runner:
        found = measure_together(runner, ("packs next", "packs wrong", "packs"), best_s, PLAN)
        assert journal.checked == checked
        assert (found["packs wrong"].failure is None) == (not checked)
        assert (found["packs"].seconds, found["packs next"].seconds) == (0.42, 0.43)
        measure_together(runner, ("packs", "packs next"), None, PLAN.without_race())
    assert sorted({*journal.checked}) == sorted({*checked, "packs", "packs next"}), "once they are timed in turns"


def test_what_is_given_up_is_ended_and_the_next_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal()
    with runner_of(journal, monkeypatch, None) as runner:
        future = runner.submit(PROGRAM, "hangs", "t")
        assert journal.hangs.wait(_S)
        assert future.cancel()
        assert runner.submit(PROGRAM, "fine", "t").result(_S).seconds == 0.5


@pytest.mark.parametrize("builders", [1, 2])
def test_giving_one_up_ends_no_compilation_that_another_waits_for(
    monkeypatch: pytest.MonkeyPatch, builders: int
) -> None:
    journal = Journal()
    with runner_of(journal, monkeypatch, None, builders=builders) as runner:
        lowered = runner.lower(PROGRAM, "slow", "t").result(_S)
        assert journal.hangs.wait(_S)
        one, two = (runner.submit(PROGRAM, "slow", "t", lowered=lowered) for _ in range(2))
        assert one.cancel()
        journal.goes_on.set()
        assert two.result(_S).failure is None


def test_what_was_given_up_while_it_was_compiled_is_compiled_anew_for_who_asks_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = Journal()
    with runner_of(journal, monkeypatch, None, builders=1) as runner:
        lowered = runner.lower(PROGRAM, "slow", "t").result(_S)
        assert journal.hangs.wait(_S)
        assert runner.submit(PROGRAM, "slow", "t", lowered=lowered).cancel()
        journal.goes_on.set()
        assert runner.submit(PROGRAM, "slow", "t", lowered=lowered).result(_S).failure is None


def test_equal_code_may_be_compiled_by_two_builders_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with runner_of(Journal(), monkeypatch, None, builders=4) as runner:
        futures = []
        for _ in range(2):
            lowered = runner.lower(PROGRAM, "twice", "t").result(_S)
            futures.append(runner.submit(PROGRAM, "twice", "t", lowered=lowered))
            until = time.monotonic() + _S
            # Until its builder waits for the other; what that one compiles may be known to its job by then.
            while len(futures) == 1 and runner._building._ahead and time.monotonic() < until:
                time.sleep(1e-3)
        assert [future.result(_S).seconds for future in futures] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (
            RuntimeError("can't start new thread"),
            ResourceError,
            "measuring candidates failed: no thread can be started\n  hint: raise the limit",
        ),
        (OSError(errno.ENXIO, "of no resource"), OSError, "of no resource"),
    ],
)
@pytest.mark.parametrize("what", ["begins to build", "sets builders apart", "checks wholes"])
def test_what_ends_a_batch_is_raised_to_who_waits_and_the_next_is_measured(
    monkeypatch: pytest.MonkeyPatch, what: str, fault: Exception, error: type[Exception], message: str
) -> None:
    def fail(*given: object) -> Any:
        raise fault

    share = CoreShare(frozenset({0, 1}), frozenset({2, 3}))
    with runner_of(Journal(), monkeypatch, share) as runner:
        with monkeypatch.context() as patch:
            if what == "begins to build":
                patch.setattr(runner._building, "begin", fail)
            elif what == "sets builders apart":
                patch.setattr(FakeProcess, "run_on", fail)
            else:
                patch.setattr(runner, "_check_wholes", fail)
            futures = [runner.submit(PROGRAM, name, "t") for name in ("packs", "packs too")]
            for future in futures:
                with pytest.raises(error, match=message):
                    future.result(_S)
        assert runner.submit(PROGRAM, "packs", "t").result(_S).seconds == 0.5


def test_a_thread_that_cannot_be_had_is_told_when_a_runner_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if thread.name == "metasched-build_1":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    with pytest.raises(
        ResourceError, match="starting workers failed: no thread can be started\n  hint: raise the limit"
    ):
        runner_of(Journal(), monkeypatch, None)


def test_an_expected_result_that_failed_is_computed_once_a_batch_and_anew_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[MessageKind] = []
    lacks = threading.Event()

    def answer(process: FakeProcess, message: Message, *given: object) -> Message:
        if message.kind is not MessageKind.PREPARE:
            return request(process, message, 0.0)
        asked.append(message.kind)
        if lacks.is_set():
            return Message(MessageKind.FAILED, {"reason": "out-of-memory", "detail": ""})
        return Message(MessageKind.DONE, {})

    request = FakeProcess.request
    monkeypatch.setattr(FakeProcess, "request", answer)
    with runner_of(Journal(), monkeypatch, None) as runner:
        lacks.set()
        futures = [runner.submit(PROGRAM, f"now {n}", "t") for n in range(3)]
        for future in futures:
            with pytest.raises(CheckError, match="end what holds memory"):
                future.result(_S)
        assert len(asked) == 1
        lacks.clear()
        assert runner.submit(PROGRAM, "now 0", "t").result(_S).seconds == 0.5
        assert runner.submit(PROGRAM, "now 1", "t").result(_S).seconds == 0.5
    assert len(asked) == 2


def test_what_a_lost_worker_took_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(process: FakeProcess, message: Message, *given: object) -> Message:
        if message.kind is not lost_over[0]:
            return request(process, message, 0.0)
        lost = WorkerLost(Loss.TIMEOUT, "timeout", "")
        lost.seconds = 20.0
        raise lost

    request = FakeProcess.request
    monkeypatch.setattr(FakeProcess, "request", lose)
    with runner_of(Journal(), monkeypatch, None) as runner:
        for kind, reason, phase in (
            (MessageKind.BUILD, "build-timeout", "build"),
            (MessageKind.LOWER, "build-timeout", "build"),
            (MessageKind.RUN, "run-timeout", "run"),
            (MessageKind.BUILD_WHOLE, "build-timeout", "build"),
            (MessageKind.CHECK, "run-timeout", "run"),
        ):
            lost_over = [kind]
            name = f"packs {kind.value}"
            lowered = runner.lower(PROGRAM, name, "t").result(_S) if kind is MessageKind.LOWER else None
            found = runner.submit(PROGRAM, name, "t", lowered=lowered).result(_S)
            assert found.failure == Failure(reason, "")
            assert dict(found.phases)[phase] == 20.0


def pairs(cpu: int) -> list[int]:
    return [cpu & ~1, cpu | 1]


@pytest.mark.parametrize(
    ("threads", "cpus", "timing", "building"),
    [
        (1, {0, 1, 2, 3}, {0}, {2, 3}),
        (2, {0, 1, 2, 3, 4, 5}, {0, 2}, {4, 5}),
        (1, {1, 2}, {1}, {2}),
    ],
)
def test_cores_for_building_share_nothing_with_those_for_timing(
    threads: int, cpus: set[int], timing: set[int], building: set[int]
) -> None:
    assert share_of(threads, cpus, pairs) == CoreShare(frozenset(timing), frozenset(building))


@pytest.mark.parametrize(("threads", "cpus"), [(1, {0, 1}), (2, {0, 1, 2, 3}), (4, {0, 1, 2, 3})])
def test_there_are_no_cores_for_building_where_all_are_for_timing(threads: int, cpus: set[int]) -> None:
    assert share_of(threads, cpus, pairs) is None
