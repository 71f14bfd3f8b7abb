"""What a runner process does: load a candidate's machine code, check it twice, time it, and check it again."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from metasched.compiler.cpu.emit.runtime import Status
from metasched.measure.checking.check import USUAL_OFFSET, Bench, Cases
from metasched.measure.records import Artefact, Failure, Reason
from metasched.measure.surroundings import rotation_bytes
from metasched.measure.timing import Surroundings, TimingPlan, take_samples
from metasched.measure.workers.candidate_code import CallableCode, load_code
from metasched.measure.workers.load import BoundKernel
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.measure.workers.rotation import rotate_constants
from metasched.runtime.threads import state
from metasched.support.stopwatch import Stopwatch
from metasched.target import Target


class CandidateTimer:
    """Checks and times candidates, on at most `threads` threads."""

    def __init__(self, threads: int) -> None:
        state.start(threads)

    def run(self, request: Message) -> Message:
        """Visit the candidate of a RUN request: the first time (`first`) it is checked twice, then timed.

        One that computes something of its constant arguments ahead is checked in its two parts, of which the main one
        is timed.

        Where `verify` says so it is compared once more after that: a race between threads may show in one call of
        many.
        """
        body = request.body
        phases = Stopwatch()
        artefact = Artefact.from_json(body["artefact"])
        with phases.timed("load"):
            plan = TimingPlan(**body["plan"])
            bench = _bench_of(body["data"], plan)
            code = load_code(artefact, request.blob)
        with phases.timed("check"):
            bound, seconds, failure = _check(code, bench) if body["first"] else _call_once(code, bench)
        times: tuple[float, ...] = ()
        if failure is None:
            with phases.timed("run"):
                enough = rotation_bytes(plan.surroundings, Target.parse(artefact.target))
                run = rotate_constants(bound, code.constant_arguments(bench), enough) if enough else bound.run
                times = take_samples(run, plan, seconds, body["best_s"], body.get("before_s"))
            with phases.timed("check"):
                failure = _status(bound) or (bench.verify(*code.scratch) if body["verify"] else None)
        if failure is not None:
            return _failure_of(bench, failure, phases)
        answer = {"times": times, "prologue_seconds": code.prologue_seconds, "phases": phases.seconds()}
        return Message(MessageKind.DONE, answer)

    def check(self, request: Message) -> Message:
        """Check the code of a CHECK request, and time nothing."""
        phases = Stopwatch()
        with phases.timed("load"):
            bench = _bench_of(request.body["data"], TimingPlan(**request.body["plan"]))
            code = load_code(Artefact.from_json(request.body["artefact"]), request.blob)
        with phases.timed("check"):
            _, _, failure = _check(code, bench)
        if failure is not None:
            return _failure_of(bench, failure, phases)
        return Message(MessageKind.DONE, {"phases": phases.seconds()})


def _failure_of(bench: Bench, failure: Failure, phases: Stopwatch) -> Message:
    bench.forget()
    return Message(MessageKind.FAILED, {"reason": failure.reason, "detail": failure.detail, "phases": phases.seconds()})


_Called = tuple[BoundKernel, list[float], Failure | None]


def _check(code: CallableCode, bench: Bench) -> _Called:
    """Code on the last case's data, the seconds that its calls took, and what is wrong with them."""
    seconds = []
    for case in (bench.cases.integers, bench.cases.random):
        bench.load(case, *code.scratch)
        bound = code.bind(bench)
        seconds.append(bound.run(1))
        failure = _status(bound) or bench.verify(*code.scratch)
        if failure is not None:
            break
    return bound, seconds, failure


def _call_once(code: CallableCode, bench: Bench) -> _Called:
    """Code that was checked before, on the last case's data, the seconds of one call, and what is wrong with it."""
    if not bench.holds(bench.cases.random):
        bench.load(bench.cases.random, *code.scratch)
    bound = code.bind(bench)
    seconds = bound.run(1)
    return bound, [seconds], _status(bound)


def _status(bound: BoundKernel) -> Failure | None:
    if bound.status == Status.OK:
        return None
    if bound.status == Status.NO_MEMORY:
        return Failure(Reason.OUT_OF_MEMORY.value, "the kernel's workspace")
    return Failure(Reason.STATUS.value, f"the kernel returned {bound.status}")


def _bench_of(data: str, plan: TimingPlan) -> Bench:
    """The memory for a program's data, which begins as `plan` says."""
    return _bench(data, USUAL_OFFSET if plan.surroundings is Surroundings.ALONE else 0)


@lru_cache(maxsize=2)
def _bench(path: str, offset: int) -> Bench:
    return Bench(Cases.load(Path(path)), offset)
