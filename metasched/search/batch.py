"""Measuring a batch: lower what is new, measure each code once, and record it as it finishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from metasched.database.base import Database
from metasched.database.claims import Claimant
from metasched.database.record import NO_TRIAL, Duplicate, Record, SearchKey, Visit
from metasched.ir.program import Program
from metasched.measure.records import Lowered, Measurement
from metasched.measure.runner import Runner
from metasched.measure.timing import Surroundings, TimingPlan
from metasched.search.budget.pace import BUILDING, Pace
from metasched.search.budget.room import Room
from metasched.search.contest import Again, Asked, due_repeat, group_name
from metasched.search.phases import Phase, Phases
from metasched.search.proposal import Proposal
from metasched.search.records.other_names import program_of
from metasched.search.records.task_records import TaskRecords
from metasched.search.several_tasks.waiting import OutOfTime, Waiting
from metasched.support import interrupts
from metasched.support.data_classes import dataclass

# How long to wait for a measurement that another process has begun, before looking again.
_POLL_S = 0.1
# The number of trials over which repetitions are spread at most: a run may have no end but a time.
_LONG_RUN = 1024
# While it is not known how long candidates take, there is plenty of time where so many times as many would fit.
_PLENTY = 10

_Waiting = tuple[Proposal, Lowered]
# As many trials as wanted, however long they take.
ANY_ROOM = Room()


def _nothing() -> None: ...


@dataclass(frozen=True)
class Meanwhile:
    """What else there is to do: `while_lowering`, when nothing is timed, and `once_submitted`, for the builders, or on
    this machine where others time.
    """

    while_lowering: Callable[[], None] = _nothing
    once_submitted: Callable[[], None] = _nothing


NOTHING = Meanwhile()


class BatchMeasuring:
    """Measures proposals of one task, and records the results.

    Args:
        program: the program of the proposals' traces.
        target: the text of the target.
        key: the key under which records are stored.
        known: what is recorded so far; new records are added to it.
        database: where records are stored.
        claimant: identifies this process to others that tune the same task.
        seed: the seed of the search, by which repetitions are drawn.
        phases: the stopwatch of the search.
        pace: how long candidates take; what is measured is added.
        tell: called after each recorded trial.
        waiting: how it waits for measurements.

    The key says what surroundings kernels are timed in.
    """

    def __init__(
        self,
        program: Program,
        target: str,
        key: SearchKey,
        known: TaskRecords,
        database: Database,
        claimant: Claimant,
        seed: int,
        phases: Phases,
        pace: Pace,
        tell: Callable[[], None],
        waiting: Waiting,
    ) -> None:
        self._program = program
        self._target = target
        self._key = key
        self._known = known
        self._database = database
        self._claimant = claimant
        self._seed = seed
        self._phases = phases
        self._pace = pace
        self._tell = tell
        self._waiting = waiting
        self._begun: dict[str, Future[Lowered]] = {}
        self.measured = 0

    def begin(self, runner: Runner, traces: Sequence[str]) -> None:
        """Begin to lower what will be measured first, while there is something else to do."""
        new = [trace for trace in traces if trace not in self._begun]
        self._begun |= {trace: runner.lower(self._program, trace, self._target) for trace in new}

    def measure(
        self,
        runner: Runner,
        proposals: Sequence[Proposal],
        batch: int,
        room: Room,
        meanwhile: Meanwhile,
    ) -> bool:
        """Measure code that was not measured yet, as far as there is room for it. Returns whether there was time.

        A guess is measured however little time there is.
        """
        left = self._unmeasured(proposals)
        in_time = True
        while in_time and (first := self._first_of(left, room)):
            lowered = self._lowered(runner, first, room, meanwhile)
            with self._phases.timed(Phase.MEASURE):
                in_time = self._measure_new(runner, lowered, batch, room, meanwhile) and len(lowered) == len(first)
            left, meanwhile = left[len(first) :], NOTHING
            if not left or self._left(room.wanted) <= 0:
                return in_time
        meanwhile.while_lowering()
        return not left

    def _unmeasured(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """The proposals that have no result, each trace once, guesses first."""
        new: dict[str, Proposal] = {}
        for proposal in proposals:
            if proposal.trace is not None and not proposal.is_settled(self._known):
                new.setdefault(proposal.trace, proposal)
        return sorted(new.values(), key=lambda proposal: not proposal.role.is_guess)

    def _first_of(self, left: list[Proposal], room: Room) -> list[Proposal]:
        """Those that there is time for, guesses in any case.

        Before anything was measured, one tells how long the others take, unless there is plenty of time.
        """
        fitting = len(left)
        if room.until is not None:
            fitting = self._pace.fitting(room.left_s) - len(self._due(room))
            if not self._pace.is_known and fitting < _PLENTY * len(left):
                fitting = min(fitting, 1)
        guesses = sum(proposal.role.is_guess for proposal in left)
        return left[: max(fitting, guesses)]

    def measure_again(self, runner: Runner, again: Sequence[Again], room: Room = ANY_ROOM) -> list[Record]:
        """Measure recorded candidates again, add the results to their records, and return these; none where there was
        no time.
        """
        with self._phases.timed(Phase.CONTEST):
            return self._record_again(self._ask_again(runner, again), room)

    def _left(self, wanted: int) -> int:
        return wanted - self._known.made

    def _lowered(
        self, runner: Runner, proposals: Sequence[Proposal], room: Room, meanwhile: Meanwhile
    ) -> list[_Waiting]:
        """The proposals lowered as far as their code; the first of them, where there is no time for all."""
        begun = [self._begun.pop(str(proposal.trace), None) for proposal in proposals]
        futures = [
            future or runner.lower(self._program, str(proposal.trace), self._target)
            for proposal, future in zip(proposals, begun, strict=True)
        ]
        meanwhile.while_lowering()
        found: list[_Waiting] = []
        with self._phases.timed(Phase.MEASURE):
            for proposal, future in zip(proposals, futures, strict=True):
                try:
                    found.append((proposal, self._waiting.result(future, self._patience(room))))
                except OutOfTime:
                    break
        for future in futures[len(found) :]:
            future.cancel()
        return found

    def _patience(self, room: Room) -> float | None:
        """How long to wait: for the first time, as long as it takes."""
        return None if self._known.fastest_s() is None else room.patience_s

    def _measure_new(
        self, runner: Runner, lowered: Sequence[_Waiting], batch: int, room: Room, meanwhile: Meanwhile
    ) -> bool:
        """Measure each code once; a proposal with another's code is a duplicate. Returns whether there was time."""
        waiting: dict[str, _Waiting] = {}
        beside: list[_Waiting] = []
        same: list[tuple[Proposal, str]] = []
        for proposal, found in lowered:
            code = found.code or f"none {proposal.place}"
            if proposal.place == NO_TRIAL:
                beside.append((proposal, found))
            elif code in waiting or self._is_of_known_code(proposal, code):
                same.append((proposal, code))
            elif len(waiting) < self._left(room.wanted) or proposal.role.is_guess:
                waiting[code] = (proposal, found)
            else:
                break
        in_time = self._measure_claimed(runner, waiting, beside, batch, room, meanwhile)
        same += [(proposal, code) for code, (proposal, _) in waiting.items()]
        shared = [(p, code) for p, code in same if self._known.of_code(code) is not None]
        duplicates = [Duplicate(str(p.trace), code, batch, p.place) for p, code in shared]
        if duplicates:
            self._database.add_duplicates(self._key, duplicates)
            self._known.add_duplicates(duplicates)
        return in_time

    def _is_of_known_code(self, proposal: Proposal, code: str) -> bool:
        """Whether it need not be measured because its code was. A guess is measured anyway."""
        return not proposal.role.is_guess and self._known.of_code(code) is not None

    def _measure_claimed(
        self,
        runner: Runner,
        waiting: dict[str, _Waiting],
        beside: Sequence[_Waiting],
        batch: int,
        room: Room,
        meanwhile: Meanwhile,
    ) -> bool:
        """Measure what no other process is measuring, and wait for the rest, until every result is known, or the time
        is up. Returns whether there was time.

        What is to be measured `beside` it in any case, and a repetition that is due, are submitted with the first part.
        What stays `waiting` has a record of its code in this search: a guess may be another trace of the same code.
        """
        repeats = self._due(room)
        while waiting or beside:
            others = self._database.others(self._key, self._claimant)
            under_way = self._database.under_way(self._key, self._claimant) if others else 0
            guesses = sum(proposal.role.is_guess for proposal, _ in waiting.values())
            limit = max(self._left(room.wanted) - under_way, guesses)
            share = -(-len(waiting) // (1 + others))
            mine = self._database.claim(self._key, list(waiting), min(share, limit), self._claimant)
            asked = self._ask_again(runner, repeats if mine else [])
            chosen = [*beside, *(waiting[code] for code in mine)]
            submitted = [(proposal, self._submit(runner, proposal, lowered)) for proposal, lowered in chosen]
            meanwhile.once_submitted()
            in_time = self._collect(submitted, batch, room)
            self._record_again(asked, room)
            self._database.release(self._key, self._claimant)
            if not in_time:
                return False
            if mine or beside:
                repeats, beside = [], []
            elif not under_way and (limit <= 0 or not others):
                return True
            elif room.patience_s == 0.0:
                return False
            else:
                self._waiting.sleep(_POLL_S)
            if others or len(mine) < len(waiting):
                self._known.pick_up()
            for code, (proposal, _) in list(waiting.items()):
                if code in mine or self._is_of_known_code(proposal, code) or proposal.is_settled(self._known):
                    del waiting[code]
        return True

    def _due(self, room: Room) -> list[Again]:
        """The repetition that is due, if any is."""
        return due_repeat(self._known, min(room.planned, _LONG_RUN), self._seed)

    def _submit(self, runner: Runner, proposal: Proposal, lowered: Lowered) -> Future[Measurement]:
        """Submit a candidate for measurement. A guess does not race: turns at the end show whether it was disturbed."""
        trace = lowered.candidate.trace
        if proposal.role.is_guess:
            plan = self._of_task(TimingPlan().without_race())
            return runner.submit(self._program, trace, self._target, lowered=lowered, plan=plan)
        best_s = self._known.fastest_s()
        return runner.submit(self._program, trace, self._target, best_s, lowered=lowered, plan=self._of_task(None))

    def _of_task(self, plan: TimingPlan | None) -> TimingPlan | None:
        """A plan, by default the runner's own, in the surroundings of the task's times."""
        surroundings = Surroundings(self._key.task.surroundings)
        if surroundings is Surroundings.ALONE:
            return plan
        return replace(plan or TimingPlan(), surroundings=surroundings)

    def _collect(self, futures: list[tuple[Proposal, Future[Measurement]]], batch: int, room: Room) -> bool:
        """Record measurements as they finish. On Ctrl-C, and when the time is up, finished ones are recorded and the
        rest is given up. Returns whether there was time.
        """
        try:
            while futures:
                self._record(futures[0][0], self._waiting.result(futures[0][1], self._patience(room)), batch)
                del futures[0]
        except KeyboardInterrupt:
            self._give_up(futures, batch)
            raise
        except OutOfTime:
            self._give_up(futures, batch)
            for _, future in futures:
                if not future.cancelled() and future.done():
                    future.result()  # raises what ended a measurement: it is no lack of time
            return False
        return True

    def _give_up(self, futures: Sequence[tuple[Proposal, Future[Measurement]]], batch: int) -> None:
        """Record what has finished, and cancel the rest."""
        for proposal, future in futures:
            if not future.cancel() and future.done() and not future.exception():
                measured = future.result()
                if not proposal.is_settled(self._known):
                    self._record(proposal, measured, batch)

    def _record(self, proposal: Proposal, measurement: Measurement, batch: int) -> None:
        record = Record(
            task=self._key.task,
            program=str(self._program),
            params=self._program.params,
            trace=str(proposal.trace),
            visits=tuple(Visit(times) for times in measurement.visits),
            failure=measurement.failure.reason if measurement.failure is not None else None,
            raced=measurement.raced,
            phases=measurement.phases,
            timestamp=time.time(),
            seed=self._seed,
            trial=NO_TRIAL if proposal.place == NO_TRIAL else self._known.made,
            batch=batch,
            place=max(proposal.place, 0),
            code=measurement.code or "",
            role=proposal.role,
            space=self._key.space if proposal.space is None else proposal.space,
            code_version=self._key.code_version,
            prologue_seconds=measurement.prologue_seconds,
            expected_seconds=proposal.expected_s,
        )
        is_trial = record.trial != NO_TRIAL
        with interrupts.put_off():  # what is recorded is known and counted, or it would be recorded twice
            self._known.add(record, self._database.add(record))
            self._count(measurement)
            self._pace.add(measurement.phases)
            self.measured += is_trial
        if is_trial:
            self._tell()

    def _count(self, measurement: Measurement) -> None:
        for name, seconds in measurement.phases:
            self._phases.add(Phase.BUILD if name in BUILDING else Phase.RUN, seconds)

    # --- measuring again

    def _ask_again(self, runner: Runner, again: Sequence[Again]) -> list[Asked]:
        """Measure records again, each in the names that it was made in."""
        asked = []
        for one in again:
            program, plan = program_of(one.record, self._program), self._of_task(one.plan)
            asked.append((one, runner.submit(program, one.record.trace, self._target, plan=plan)))
        return asked

    def _record_again(self, asked: Sequence[Asked], room: Room) -> list[Record]:
        """Add the results of a repetition to the records, all at once: half of a comparison is of no use."""
        group = group_name()
        new: dict[object, Record] = {}
        try:
            for again, future in asked:
                measurement = self._waiting.result(future, room.patience_s)
                self._count(measurement)
                identity = again.record.identity
                new[identity] = replace(again, record=new.get(identity, again.record)).with_visits(measurement, group)
        except OutOfTime:
            for _, future in asked:
                future.cancel()
            return []
        if new:
            with interrupts.put_off():
                self._database.update(list(new.values()))
                self._known.replace(new.values())
        return list(new.values())
