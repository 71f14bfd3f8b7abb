"""What a runner process does: load a candidate's machine code, check it twice, time it, and check it again."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from metasched.compiler.cpu.emit.runtime import Status
from metasched.measure.check import Bench, Cases, Guarded
from metasched.measure.load import BoundKernel, LoadedKernel
from metasched.measure.protocol import Message, MessageKind
from metasched.measure.records import Artefact, Failure, Reason
from metasched.measure.timing import TimingPlan, take_samples
from metasched.runtime.threads import state
from metasched.support.stopwatch import Stopwatch


class Executor:
    """Runs candidates, on at most `threads` threads."""

    def __init__(self, threads: int) -> None:
        state.start(threads)

    def run(self, request: Message) -> Message:
        """Visit the candidate of a RUN request: the first time (`first`) it is checked twice, then timed.

        Where `verify` says so it is compared once more after that: a race between threads may show in one call of
        many.
        """
        body = request.body
        phases = Stopwatch()
        artefact = Artefact.from_json(body["artefact"])
        with phases.timed("load"):
            bench = _bench(body["data"])
            kernel = LoadedKernel(artefact, request.blob)
            workspace = Guarded(artefact.workspace_bytes, offset=0)
        with phases.timed("check"):
            bound, seconds, failure = (_check if body["first"] else _called)(kernel, bench, workspace)
        times: tuple[float, ...] = ()
        if failure is None:
            with phases.timed("run"):
                times = take_samples(bound.run, TimingPlan(**body["plan"]), seconds, body["best_s"])
            with phases.timed("check"):
                failure = _status(bound) or (bench.verify(workspace) if body["verify"] else None)
        if failure is not None:
            bench.forget()
            return Message(
                MessageKind.FAILED, {"reason": failure.reason, "detail": failure.detail, "phases": phases.seconds()}
            )
        return Message(MessageKind.DONE, {"times": times, "phases": phases.seconds()})


_Called = tuple[BoundKernel, list[float], Failure | None]


def _check(kernel: LoadedKernel, bench: Bench, workspace: Guarded) -> _Called:
    """The kernel on the last case's data, the seconds that its calls took, and what is wrong with it."""
    seconds = []
    for case in (bench.cases.integers, bench.cases.random):
        bench.load(case, workspace)
        bound = kernel.bind(bench.addresses, workspace.address)
        seconds.append(bound.run(1))
        failure = _status(bound) or bench.verify(workspace)
        if failure is not None:
            break
    return bound, seconds, failure


def _called(kernel: LoadedKernel, bench: Bench, workspace: Guarded) -> _Called:
    """The same for a kernel that was checked before, which is called once on the last case's data."""
    if not bench.holds(bench.cases.random):
        bench.load(bench.cases.random, workspace)
    bound = kernel.bind(bench.addresses, workspace.address)
    seconds = bound.run(1)
    return bound, [seconds], _status(bound)


def _status(bound: BoundKernel) -> Failure | None:
    if bound.status == Status.OK:
        return None
    if bound.status == Status.NO_MEMORY:
        return Failure(Reason.OUT_OF_MEMORY.value, "the kernel's workspace")
    return Failure(Reason.STATUS.value, f"the kernel returned {bound.status}")


@lru_cache(maxsize=2)
def _bench(path: str) -> Bench:
    return Bench(Cases.load(Path(path)))
