"""Measuring on the machines of a cluster: built where there is room, timed where times compare."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import field, replace
from functools import partial
from typing import Any

from metasched.errors import MetaschedError, ResourceError
from metasched.ir.program import Program
from metasched.measure.checking.inputs import Inputs, given_inputs
from metasched.measure.cluster import remote_calls
from metasched.measure.cluster.connection import Connection
from metasched.measure.cluster.fleet import Fleet, Member
from metasched.measure.cluster.payloads import (
    Greeting,
    MachineFault,
    Payload,
    candidate_to,
    given_to,
    lowered_from,
    lowered_to,
    measurement_from,
    message_from,
    plan_to,
    require_no_fault,
)
from metasched.measure.cluster.work import Job, LowerJob, MeasureJob, PendingWork, Ready
from metasched.measure.records import Failure, Lowered, MeasureCandidate, Measurement, RunnerClosed
from metasched.measure.timing import TimingPlan
from metasched.measure.workers.protocol import MessageKind
from metasched.support.code_version import code_version
from metasched.support.data_classes import dataclass

MACHINE_LOST = "machine-lost"
_BUSY_TICK_S, _IDLE_TICK_S = 0.02, 0.2


@dataclass(frozen=True)
class ClusterSettings:
    """How a `ClusterRunner` works; every duration in seconds.

    `patience_s` is how long it waits for a scheduler, and for a machine that can do what is to be done, before it gives
    up; `silent_s` how long nothing may be heard of a machine that is counted on; `look_s` how often it looks which
    machines there are. A machine that has begun is expected to be done after `first_s`, in which it computes the
    expected results of a program, or `later_s`, and `each_s` more for every candidate. A candidate over which
    `most_losses` machines were lost alone has failed. `seed` is that of the data.
    """

    patience_s: float = 60.0
    silent_s: float = 30.0
    look_s: float = 0.5
    first_s: float = 660.0
    later_s: float = 60.0
    each_s: float = 60.0
    most_losses: int = 3
    seed: int = 0


@dataclass(eq=False)
class _Sent:
    """What a machine was asked to do: `jobs` to time, or one to build. `until` is when it is given up, once begun."""

    number: int
    member: Member
    jobs: list[Job]
    is_timing: bool
    limit_s: float
    cancel: Callable[[], None] = field(default=lambda: None)
    until: float = float("inf")


class ClusterRunner:
    """A `Runner` whose candidates are built and timed by the machines of a dask cluster.

    Candidates submitted together are built on whichever machines have room, and timed on those of their target that
    have one pace: each such machine times a share of them, in turns, and nothing else meanwhile. Where a machine is
    lost, others do what it had to do. May be used from any thread. Raises ResourceError when there is no scheduler, or
    no machine joins.
    """

    def __init__(self, connection: Connection, settings: ClusterSettings | None = None) -> None:
        self._connection = connection
        self._settings = settings or ClusterSettings()
        self._fleet = Fleet(code_version())
        self._work = PendingWork()
        self._inputs: dict[tuple[object, ...], Payload | None] = {}
        self._sent: dict[int, _Sent] = {}
        self._number = 0
        self._greeted: set[str] = set()
        self._heard: dict[str, tuple[float, float]] = {}
        self._looked = 0.0
        self._useful = time.monotonic()  # when something was last being done, or there was nothing to do
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._closing = threading.Lock()  # what was asked before it is closed is answered, if by an exception
        self._joined = threading.Event()
        self._lack: list[Exception] = []  # what ended the coordinator, if anything did
        self._machines = 1
        connection.on_begun(lambda number: self._events.put(partial(self._note_begun, number)))
        self._thread = threading.Thread(target=self._coordinate, name="metasched-cluster", daemon=True)
        self._thread.start()
        joined = self._joined.wait(self._settings.patience_s)
        if not joined or self._lack:
            self.close()
            raise self._lack[0] if self._lack else self._nobody()

    def _nobody(self) -> ResourceError:
        address = self._connection.address
        return ResourceError(
            f"no machine has joined the scheduler at {address} after {self._settings.patience_s:g} s",
            hint=f"on each, `metasched worker {address.host}:{address.port}`",
        )

    @property
    def batches_at_once(self) -> int:
        """How many machines time candidates."""
        return self._machines

    # --- what is asked of it, from any thread

    def lower(self, program: Program, trace: str, target: str) -> Future[Lowered]:
        """The code of a candidate, by whichever machine has room."""
        job = LowerJob(MeasureCandidate(str(program), program.params, trace, target), Future())
        self._ask(partial(self._work.add, job))
        return job.future

    def submit(
        self,
        program: Program,
        trace: str,
        target: str,
        best_s: float | None = None,
        *,
        lowered: Lowered | None = None,
        plan: TimingPlan | None = None,
    ) -> Future[Measurement]:
        """Measure a candidate. `best_s` is the best time known, against which it races."""
        candidate = MeasureCandidate(str(program), program.params, trace, target)
        job = MeasureJob(candidate, Future(), best_s, plan or TimingPlan(), lowered)
        if lowered is not None and lowered.failure is not None:
            job.future.set_result(Measurement(candidate, (), False, lowered.failure, _phases(lowered.body)))
            return job.future
        self.prepare(program)
        self._ask(partial(self._work.add, job))
        return job.future

    def prepare(self, program: Program, inputs: Inputs | None = None) -> None:
        """Say on what data a program's candidates are checked and timed; it keeps those that it was first given.

        Functions of `inputs` are called here: what machines are sent are arrays and ranges. Raises KernelError for
        inputs that do not fit.
        """
        if (str(program), program.params) in self._inputs:
            return
        given = given_inputs(program.func, inputs, self._settings.seed)
        payload = given_to(given) if given.arrays or given.ranges else None
        self._inputs.setdefault((str(program), program.params), payload)

    def close(self) -> None:
        """Leave the cluster; measurements under way end with `RunnerClosed`."""
        self._close_for_questions()
        self._events.put(lambda: None)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        # Also where the coordinator has ended by itself: a client left open goes on looking for its scheduler.
        self._connection.close()

    def _close_for_questions(self) -> None:
        with self._closing:
            self._closed.set()

    def _ask(self, event: Callable[[], None]) -> None:
        with self._closing:
            if not self._closed.is_set():
                self._events.put(event)
                return
        if self._lack:
            raise self._lack[0]
        raise RunnerClosed("this runner is closed", hint="make another to measure more")

    # --- the coordinator's thread

    def _coordinate(self) -> None:
        error: Exception = RunnerClosed("the runner was closed while this was measured")
        try:
            while not self._closed.is_set():
                self._see_machines()
                self._assign()
                self._give_up_late()
                self._require_progress()
                self._count_machines()
                self._next_event()
        except Exception as found:  # noqa: BLE001 - raised to whoever waits for a measurement
            error = found
            self._lack.append(found)
            self._close_for_questions()
            self._joined.set()
        self._fail_all(error)

    def _count_machines(self) -> None:
        self._machines = max(1, self._fleet.timing_machines)

    def _next_event(self) -> None:
        waits = _BUSY_TICK_S if any(True for _ in self._work.ready_groups()) or self._work.targets() else _IDLE_TICK_S
        try:
            self._events.get(timeout=waits)()
            while True:
                self._events.get_nowait()()
        except queue.Empty:
            return

    def _see_machines(self) -> None:
        """See which machines there are, now and then."""
        now = time.monotonic()
        if now - self._looked < self._settings.look_s:
            return
        self._looked = now
        seen = self._connection.machines()
        for address in set(self._greeted) - set(seen):
            self._greeted.discard(address)
            self._heard.pop(address, None)
            self._lose(address)
            self._fleet.leave(address)
        for address, when in seen.items():
            if address not in self._greeted:
                self._greeted.add(address)
                greeted = partial(self._event, self._join, address)
                self._connection.send(address, None, remote_calls.greet, (), greeted)
            if self._heard.get(address, (0.0, 0.0))[0] != when:
                self._heard[address] = (when, now)
            self._note_silence(address, now - self._heard[address][1] > self._settings.silent_s)

    def _note_silence(self, address: str, silent: bool) -> None:
        member = self._fleet.members.get(address)
        if member is None or member.silent == silent:
            return
        member.silent = silent
        if silent:
            self._lose(address)

    def _event(self, act: Callable[..., None], subject: Any, payload: Payload | None) -> None:
        """Have the coordinator act on what came of something; called in dask's threads."""
        self._events.put(partial(act, subject, payload))

    def _join(self, address: str, payload: Payload | None) -> None:
        try:
            if payload is None or "fault" in payload:
                raise ValueError("it does not say what it is" if payload is None else str(payload["text"]))
            self._fleet.join(address, Greeting.from_payload(payload))
        except (KeyError, TypeError, ValueError, MetaschedError) as error:
            self._fleet.refused[address] = f"its greeting is not understood: {error}"
            return
        # Those that are there together are compared before any of them is chosen.
        if all(a in self._fleet.members or a in self._fleet.refused for a in self._greeted):
            self._count_machines()
            self._joined.set()

    # --- giving machines work

    def _assign(self) -> None:
        ready = list(self._work.ready_groups())
        for n, one in enumerate(ready):
            self._assign_timing(one, len(ready) - n)
        reserved = self._reserved_machines()
        for target in self._work.targets():
            for member in self._fleet.builders(target):
                while member.address not in reserved and member.can_build:
                    job = self._work.next_build()
                    if job is None:
                        return
                    self._build(member, job)

    def _assign_timing(self, ready: Ready, groups: int) -> None:
        """Have idle machines time their shares of what is ready of a program: those first that have timed it before.

        Machines that still build are idle soon, and share in it as well. So many `groups` are ready.
        """
        free = [m for m in self._fleet.timers(ready.target) if not m.timing]
        idle = sorted((m for m in free if not m.building), key=lambda m: (ready.program not in m.prepared, m.address))
        share = max(1, len(free) // groups)
        for n, member in enumerate(idle[:share]):
            jobs = self._work.take_jobs(ready.target, ready.program, share - n)
            if not jobs:
                return
            self._time(member, jobs, ready.program)

    def _reserved_machines(self) -> set[str]:
        """The machines that build no more for now: what is ready is timed before, by as many as can share it."""
        wanted = Counter[str]()
        for one in self._work.ready_groups():
            wanted[one.target] += one.machines
        reserved: set[str] = set()
        for target, machines in wanted.items():
            free = sorted((m.building, m.address) for m in self._fleet.timers(target) if not m.timing)
            reserved.update(address for _, address in free[:machines])
        return reserved

    def _build(self, member: Member, job: Job) -> None:
        member.building += 1
        candidate = candidate_to(job.candidate)
        if isinstance(job, LowerJob):
            self._send(member, [job], remote_calls.lower, (candidate,))
        else:
            lowered = None if job.lowered is None else lowered_to(job.lowered)
            self._send(member, [job], remote_calls.build, (candidate, lowered))

    def _time(self, member: Member, jobs: list[MeasureJob], program: tuple[object, ...]) -> None:
        member.timing = True
        is_first = program not in member.prepared
        member.prepared.add(program)
        built = [
            {
                "candidate": candidate_to(job.candidate),
                "frame": job.artefact.encode() if job.artefact is not None else b"",
                "best_s": job.best_s,
                "plan": plan_to(job.plan),
            }
            for job in jobs
        ]
        given = self._inputs.get(program) if is_first else None
        limits = self._settings
        limit_s = (limits.first_s if is_first else limits.later_s) + limits.each_s * len(jobs)
        arguments = (built, given, self._connection.topic, self._number + 1)
        self._send(member, jobs, remote_calls.measure, arguments, limit_s)

    def _send(
        self,
        member: Member,
        jobs: Sequence[Job],
        function: Callable[..., Payload],
        arguments: tuple[Any, ...],
        limit_s: float | None = None,
    ) -> None:
        """Have a machine call a function on jobs; with a limit, it is one that times."""
        self._number += 1
        is_timing = limit_s is not None
        sent = _Sent(self._number, member, list(jobs), is_timing, limit_s or 0.0)
        self._sent[sent.number] = sent
        resource = remote_calls.TIMING if is_timing else remote_calls.BUILDING
        done = partial(self._event, self._note_done, sent.number)
        sent.cancel = self._connection.send(member.address, resource, function, arguments, done)

    # --- what comes of it

    def _note_begun(self, number: int) -> None:
        sent = self._sent.get(number)
        if sent is not None:
            sent.until = time.monotonic() + sent.limit_s

    def _note_done(self, number: int, payload: Payload | None) -> None:
        sent = self._sent.get(number)
        if sent is None:  # given up by now
            return
        if payload is None:
            self._give_up(sent)
            return
        del self._sent[number]
        self._free_member(sent)
        if sent.is_timing:
            self._take_timed([job for job in sent.jobs if isinstance(job, MeasureJob)], payload, sent)
        else:
            (job,) = sent.jobs
            self._take_built(job, payload, sent)

    def _free_member(self, sent: _Sent) -> None:
        if sent.is_timing:
            sent.member.timing = False
        else:
            sent.member.building -= 1

    def _take_built(self, job: Job, payload: Payload, sent: _Sent) -> None:
        try:
            require_no_fault(payload, job.candidate)
            if isinstance(job, LowerJob):
                _settle(job.future, lowered_from(payload, job.candidate))
                return
            answer = message_from(payload["frame"])
        except MachineFault as fault:
            self._unfit(sent, str(fault))
            return
        except Exception as error:  # noqa: BLE001 - raised to whoever waits for it
            self._work.note_built(job)
            _fail(job.future, error)
            return
        if answer.kind is MessageKind.DONE:
            job.artefact = answer
        elif answer.kind is MessageKind.FAILED:
            failure = Failure(str(answer.body["reason"]), str(answer.body["detail"]))
            phases = (*_phases(_body(job)), *_phases(answer.body))
            _settle(job.future, Measurement(job.candidate, (), False, failure, _summed(phases), _code(job)))
        else:
            _fail(job.future, ResourceError(f"building a candidate failed on {sent.member.address}: {answer.body}"))
        self._work.note_built(job)

    def _take_timed(self, jobs: Sequence[MeasureJob], payload: Payload, sent: _Sent) -> None:
        try:
            require_no_fault(payload, jobs[0].candidate)
            results = list(payload["measured"])
            if len(results) != len(jobs):
                raise MachineFault(f"it measured {len(results)} candidates of {len(jobs)}")
        except MachineFault as fault:
            self._unfit(sent, str(fault))
            return
        except Exception as error:  # noqa: BLE001 - raised to whoever waits for them
            for job in jobs:
                _fail(job.future, error)
            return
        for job, result in zip(jobs, results, strict=True):
            self._take_result(job, result, sent)

    def _take_result(self, job: MeasureJob, result: Payload, sent: _Sent) -> None:
        try:
            require_no_fault(result, job.candidate)
            measured = measurement_from(result, job.candidate)
        except MachineFault as fault:
            sent.jobs = [job]
            self._unfit(sent, str(fault))
        except Exception as error:  # noqa: BLE001 - raised to whoever waits for it
            _fail(job.future, error)
        else:
            building = (*_phases(_body(job)), *_phases({} if job.artefact is None else job.artefact.body))
            phases = _summed((*building, *measured.phases))
            _settle(job.future, replace(measured, phases=phases, code=measured.code or _code(job)))

    # --- machines that are lost

    def _unfit(self, sent: _Sent, reason: str) -> None:
        """A machine says that it cannot do it: it is asked for nothing any more, and others are."""
        member = sent.member
        self._fleet.members.pop(member.address, None)
        self._fleet.refused[member.address] = reason
        self._queue_again(sent)

    def _lose(self, address: str) -> None:
        """Have others do what a machine was to do."""
        for sent in [sent for sent in self._sent.values() if sent.member.address == address]:
            self._give_up(sent)

    def _give_up(self, sent: _Sent) -> None:
        del self._sent[sent.number]
        sent.cancel()
        self._free_member(sent)
        self._queue_again(sent)

    def _queue_again(self, sent: _Sent) -> None:
        wanted = [job for job in sent.jobs if job.is_wanted]
        together = isinstance(wanted[0], MeasureJob) and wanted[0].plan.in_turns if wanted else False
        if len(wanted) == 1 or together:  # of several, nobody knows which it was
            for job in wanted:
                job.losses += 1
        for job in [job for job in wanted if job.losses >= self._settings.most_losses]:
            wanted.remove(job)
            self._fail_candidate(job)
        if sent.is_timing:
            self._work.add_alone([job for job in wanted if isinstance(job, MeasureJob)])
        else:
            for job in wanted:
                self._work.add_again(job)

    def _fail_candidate(self, job: Job) -> None:
        failure = Failure(MACHINE_LOST, f"{job.losses} machines were lost over it alone")
        if isinstance(job, LowerJob):
            _settle(job.future, Lowered(job.candidate, None, failure))
        else:
            _settle(job.future, Measurement(job.candidate, (), False, failure, _phases(_body(job)), _code(job)))
            if job.artefact is None:
                self._work.note_built(job)

    def _give_up_late(self) -> None:
        """Count on no machine any more that has not ended what it began."""
        now = time.monotonic()
        for sent in [sent for sent in self._sent.values() if now > sent.until]:
            sent.member.stuck = True
            self._give_up(sent)

    def _require_progress(self) -> None:
        """Raise ResourceError where nothing can be done, and no machine came that changes that."""
        now = time.monotonic()
        stuck = [target for target in self._work.targets() if not self._fleet.timers(target)]
        if not stuck:
            self._useful = now
        elif now - self._useful > self._settings.patience_s:
            raise ResourceError(
                f"no machine of the cluster at {self._connection.address} times candidates for this target\n"
                f"  {stuck[0]}\n{self._fleet.explanation_for(stuck[0])}",
                hint="the same call goes on from here once one has joined; `target=` names another CPU to tune for",
            )

    def _fail_all(self, error: Exception) -> None:
        while True:
            try:
                self._events.get_nowait()()
            except queue.Empty:
                break
        jobs = [*self._work.take_all(), *(job for sent in self._sent.values() for job in sent.jobs)]
        for sent in self._sent.values():
            sent.cancel()
        self._sent.clear()
        for job in jobs:
            _fail(job.future, error)


def _settle(future: Future[Any], result: object) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(result)


def _fail(future: Future[Any], error: BaseException) -> None:
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_exception(error)


def _body(job: MeasureJob) -> dict[str, Any]:
    return {} if job.lowered is None else job.lowered.body


def _code(job: MeasureJob) -> str | None:
    return None if job.lowered is None else job.lowered.code


def _phases(body: dict[str, Any]) -> tuple[tuple[str, float], ...]:
    """The seconds of phases that a worker's answer has."""
    return tuple((str(name), float(seconds)) for name, seconds in dict(body.get("phases", {})).items())


def _summed(phases: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Phases, each once, with the seconds of all parts of that name."""
    found: dict[str, float] = {}
    for name, seconds in phases:
        found[name] = found.get(name, 0.0) + seconds
    return tuple(found.items())
