"""Measuring a batch: lower what is new, measure each code once, and record it as it finishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from enum import Enum

from metasched.database.base import Database
from metasched.database.claims import Claimant
from metasched.database.record import NO_TRIAL, Duplicate, Record, SearchKey, Visit
from metasched.ir.program import Program
from metasched.measure.records import Lowered, Measurement
from metasched.measure.runner import Runner
from metasched.measure.timing import Surroundings, TimingPlan
from metasched.search.budget.pace import BUILDING_PHASES, Pace
from metasched.search.budget.room import Room
from metasched.search.contest import Again, Asked, due_repeat, group_name
from metasched.search.phases import Phase, Phases
from metasched.search.proposal import Proposal
from metasched.search.records.other_names import program_in_its_names
from metasched.search.records.task_records import TaskRecords
from metasched.search.several_tasks.waiting import OutOfTime, Waiting
from metasched.support import interrupts
from metasched.support.data_classes import dataclass

# How long to wait for a measurement that another process has begun, before looking again.
_POLL_S = 0.1
# The number of trials over which repetitions are spread at most: a run may have no end but a time.
_LONG_RUN = 1024
# While it is not known how long candidates take, there is plenty of time where so many times as many would fit.
_PLENTY_FACTOR = 10

_Waiting = tuple[Proposal, Lowered]
# As many trials as wanted, however long they take.
ANY_ROOM = Room()


def _do_nothing() -> None: ...


@dataclass(frozen=True)
class Meanwhile:
    """What else there is to do: `while_lowering`, when nothing is timed, and `once_submitted`, for the builders, or on
    this machine where others time.
    """

    while_lowering: Callable[[], None] = _do_nothing
    once_submitted: Callable[[], None] = _do_nothing


NOTHING_MEANWHILE = Meanwhile()


@dataclass(frozen=True)
class SearchContext:
    """What the search of a task and its measuring share.

    Attributes:
        program: the program of the proposals' traces.
        target: the text of the target.
        key: the key under which records are stored; it says what surroundings kernels are timed in.
        known: what is recorded so far; new records are added to it.
        database: where records are stored.
        claimant: identifies this process to others that tune the same task.
        seed: the seed of the search, by which repetitions are drawn.
        phases: the stopwatch of the search.
        waiting: how it waits for measurements.

    """

    program: Program
    target: str
    key: SearchKey
    known: TaskRecords
    database: Database
    claimant: Claimant
    seed: int
    phases: Phases
    waiting: Waiting


@dataclass(frozen=True)
class _Round:
    """What the candidates of a batch are measured on and within."""

    runner: Runner
    batch: int
    room: Room
    meanwhile: Meanwhile


@dataclass(frozen=True)
class _Claim:
    """The codes that are `mine` to measure now. Of the same task, `others` are so many processes, which have so many
    codes `under_way`; `limit` is how many more may be begun.
    """

    mine: Sequence[str]
    others: int
    under_way: int
    limit: int


class _NextAction(Enum):
    """What to do after what was claimed is measured."""

    GO_ON = "go on"  # with what is left
    WAIT = "wait"  # for what others measure
    END = "end"  # what is left is not wanted
    GIVE_UP = "give up"  # there is no time to wait


class BatchMeasuring:
    """Measures proposals of one task, and records the results.

    Args:
        search: what it shares with the search.
        pace: how long candidates take; what is measured is added.
        tell: called after each recorded trial.

    """

    def __init__(self, search: SearchContext, pace: Pace, tell: Callable[[], None]) -> None:
        self._search = search
        self._pace = pace
        self._tell = tell
        self._begun: dict[str, Future[Lowered]] = {}
        self.measured = 0

    def begin_lowering(self, runner: Runner, traces: Sequence[str]) -> None:
        """Begin to lower what will be measured first, while there is something else to do."""
        new = [trace for trace in traces if trace not in self._begun]
        self._begun |= {trace: runner.lower(self._search.program, trace, self._search.target) for trace in new}

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
        now, left = _Round(runner, batch, room, meanwhile), self._unmeasured_proposals(proposals)
        in_time = True
        while in_time and (first := self._first_of(left, room)):
            lowered = self._lower_proposals(now, first)
            with self._search.phases.timed(Phase.MEASURE):
                in_time = self._measure_new(now, lowered) and len(lowered) == len(first)
            now, left = replace(now, meanwhile=NOTHING_MEANWHILE), left[len(first) :]
            if not left or self._trials_left(room.wanted) <= 0:
                return in_time
        now.meanwhile.while_lowering()
        return not left

    def _unmeasured_proposals(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """The proposals that have no result, each trace once, guesses first."""
        new: dict[str, Proposal] = {}
        for proposal in proposals:
            if proposal.trace is not None and not proposal.is_settled(self._search.known):
                new.setdefault(proposal.trace, proposal)
        return sorted(new.values(), key=lambda proposal: not proposal.role.is_guess)

    def _first_of(self, left: list[Proposal], room: Room) -> list[Proposal]:
        """The proposals that there is time for, guesses in any case.

        Before anything was measured, one tells how long the others take, unless there is plenty of time. As long as all
        have failed, one is tried after the other: those that took long may not be like the next.
        """
        fitting = len(left)
        if room.until is not None:
            fitting = self._pace.candidates_within(room.left_s) - len(self._due_repeats(room))
            if not self._pace.is_known and fitting < _PLENTY_FACTOR * len(left):
                fitting = min(fitting, 1)
            if self._is_untimed and room.left_s > 0:
                fitting = max(fitting, 1)
        guesses = sum(proposal.role.is_guess for proposal in left)
        return left[: max(fitting, guesses)]

    def measure_again(self, runner: Runner, again: Sequence[Again], room: Room = ANY_ROOM) -> list[Record]:
        """Measure recorded candidates again, add the results to their records, and return these; none where there was
        no time.
        """
        with self._search.phases.timed(Phase.CONTEST):
            return self._record_again(self._ask_again(runner, again), room)

    def _trials_left(self, wanted: int) -> int:
        return wanted - self._search.known.trial_count

    def _lower_proposals(self, now: _Round, proposals: Sequence[Proposal]) -> list[_Waiting]:
        """The proposals lowered as far as their code; the first of them, where there is no time for all."""
        begun = [self._begun.pop(str(proposal.trace), None) for proposal in proposals]
        futures = [
            future or now.runner.lower(self._search.program, str(proposal.trace), self._search.target)
            for proposal, future in zip(proposals, begun, strict=True)
        ]
        now.meanwhile.while_lowering()
        found: list[_Waiting] = []
        with self._search.phases.timed(Phase.MEASURE):
            for proposal, future in zip(proposals, futures, strict=True):
                try:
                    found.append((proposal, self._search.waiting.result(future, self._patience(proposal, now.room))))
                except OutOfTime:
                    break
        for future in futures[len(found) :]:
            future.cancel()
        return found

    @property
    def _is_untimed(self) -> bool:
        """Whether no candidate has a time yet."""
        return self._search.known.fastest_s() is None

    def _patience(self, proposal: Proposal, room: Room) -> float | None:
        """How long to wait for a proposal: for a guess, where nothing has a time, as long as it takes."""
        return None if proposal.role.is_guess and self._is_untimed else room.patience_s

    def _measure_new(self, now: _Round, lowered: Sequence[_Waiting]) -> bool:
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
            elif len(waiting) < self._trials_left(now.room.wanted) or proposal.role.is_guess:
                waiting[code] = (proposal, found)
            else:
                break
        in_time = self._measure_claimed(now, dict(waiting), beside)
        # Others may have measured the code of another trace meanwhile.
        same += [(p, code) for code, (p, _) in waiting.items() if not p.is_settled(self._search.known)]
        shared = [(p, code) for p, code in same if self._is_of_known_code(p, code)]
        duplicates = [Duplicate(str(p.trace), code, now.batch, p.place) for p, code in shared]
        if duplicates:
            self._search.database.add_duplicates(self._search.key, duplicates)
            self._search.known.add_duplicates(duplicates)
        return in_time

    def _is_of_known_code(self, proposal: Proposal, code: str) -> bool:
        """Whether it need not be measured because its code was; a guess's in this very space, whose baseline it is."""
        known = self._search.known
        return known.is_recorded(code) if proposal.role.is_guess else known.of_code(code) is not None

    def _measure_claimed(self, now: _Round, waiting: dict[str, _Waiting], beside: Sequence[_Waiting]) -> bool:
        """Measure what no other process is measuring, and wait for the rest, until every result is known, or the time
        is up. Returns whether there was time.

        What is to be measured `beside` it in any case, and a repetition that is due, are submitted with the first part.
        What waits for nothing any more is taken out of `waiting`.
        """
        repeats = self._due_repeats(now.room)
        while waiting or beside:
            claim = self._claim(waiting, now.room)
            chosen = [*beside, *(waiting[code] for code in claim.mine)]
            if not self._measure_round(now, chosen, repeats if claim.mine else []):
                return False
            match self._next_action(claim, bool(chosen), now.room):
                case _NextAction.GO_ON:
                    repeats, beside = [], []
                case _NextAction.WAIT:
                    self._search.waiting.sleep(_POLL_S)
                case ended:
                    self._search.known.pick_up()  # what was recorded by others, which have left by now
                    return ended is _NextAction.END
            if claim.others or len(claim.mine) < len(waiting):
                self._search.known.pick_up()
            self._drop_settled(waiting, claim.mine)
        return True

    def _claim(self, waiting: Mapping[str, _Waiting], room: Room) -> _Claim:
        """Claim this process's share of what waits, as far as trials are wanted; guesses are wanted in any case."""
        database, key, claimant = self._search.database, self._search.key, self._search.claimant
        others = database.others(key, claimant)
        under_way = database.under_way(key, claimant) if others else 0
        guesses = sum(proposal.role.is_guess for proposal, _ in waiting.values())
        limit = max(self._trials_left(room.wanted) - under_way, guesses)
        share = -(-len(waiting) // (1 + others))
        mine = database.claim(key, list(waiting), min(share, limit), claimant)
        return _Claim(mine, others, under_way, limit)

    def _measure_round(self, now: _Round, chosen: Sequence[_Waiting], repeats: Sequence[Again]) -> bool:
        """Measure what was claimed, and repetitions; then nothing is claimed. Returns whether there was time."""
        asked = self._ask_again(now.runner, repeats)
        submitted = [(proposal, self._submit(now.runner, proposal, lowered)) for proposal, lowered in chosen]
        now.meanwhile.once_submitted()
        in_time = self._collect(submitted, now.batch, now.room)
        self._record_again(asked, now.room)
        self._search.database.release(self._search.key, self._search.claimant)
        return in_time

    def _next_action(self, claim: _Claim, measured: bool, room: Room) -> _NextAction:
        """What to do after what was claimed is `measured`, if anything was."""
        if measured:
            return _NextAction.GO_ON
        if not claim.under_way and (claim.limit <= 0 or not claim.others):
            return _NextAction.END
        return _NextAction.GIVE_UP if room.patience_s == 0.0 else _NextAction.WAIT

    def _drop_settled(self, waiting: dict[str, _Waiting], mine: Sequence[str]) -> None:
        """Let go of what waits for nothing any more: it was measured here or elsewhere."""
        for code, (proposal, _) in list(waiting.items()):
            if code in mine or self._is_of_known_code(proposal, code) or proposal.is_settled(self._search.known):
                del waiting[code]

    def _due_repeats(self, room: Room) -> list[Again]:
        """The repetition that is due, if any is."""
        return due_repeat(self._search.known, min(room.planned, _LONG_RUN), self._search.seed)

    def _submit(self, runner: Runner, proposal: Proposal, lowered: Lowered) -> Future[Measurement]:
        """Submit a candidate for measurement. A guess does not race: turns at the end show whether it was disturbed."""
        best_s, plan = self._search.known.fastest_s(), None
        if proposal.role.is_guess:
            best_s, plan = None, TimingPlan().without_race()
        trace, plan = lowered.candidate.trace, self._of_task(plan)
        return runner.submit(self._search.program, trace, self._search.target, best_s, lowered=lowered, plan=plan)

    def _of_task(self, plan: TimingPlan | None) -> TimingPlan | None:
        """A plan, by default the runner's own, in the surroundings of the task's times."""
        surroundings = Surroundings(self._search.key.task.surroundings)
        if surroundings is Surroundings.ALONE:
            return plan
        return replace(plan or TimingPlan(), surroundings=surroundings)

    def _collect(self, futures: list[tuple[Proposal, Future[Measurement]]], batch: int, room: Room) -> bool:
        """Record measurements as they finish. On Ctrl-C, and when the time is up, finished ones are recorded and the
        rest is given up, but for the guesses where nothing has a time. Returns whether there was time.
        """
        try:
            while futures:
                self._record(futures[0][0], self._search.waiting.result(futures[0][1], room.patience_s), batch)
                del futures[0]
        except KeyboardInterrupt:
            self._give_up(futures, batch)
            raise
        except OutOfTime:
            awaited = [one for one in futures if self._patience(one[0], room) is None]
            late = [one for one in futures if self._patience(one[0], room) is not None]
            self._give_up(late, batch)
            for _, future in late:
                if not future.cancelled() and future.done():
                    future.result()  # raises what ended a measurement: it is no lack of time
            self._collect(awaited, batch, ANY_ROOM)  # alone now: visited in turns, they waited for the others
            return False
        return True

    def _give_up(self, futures: Sequence[tuple[Proposal, Future[Measurement]]], batch: int) -> None:
        """Record what has finished, and cancel the rest."""
        for proposal, future in futures:
            if not future.cancel() and future.done() and not future.exception():
                measured = future.result()
                if not proposal.is_settled(self._search.known):
                    self._record(proposal, measured, batch)

    def _record(self, proposal: Proposal, measurement: Measurement, batch: int) -> None:
        record = Record(
            task=self._search.key.task,
            program=str(self._search.program),
            params=self._search.program.params,
            trace=str(proposal.trace),
            visits=tuple(Visit(times) for times in measurement.visits),
            failure=measurement.failure.reason if measurement.failure is not None else None,
            raced=measurement.raced,
            phases=measurement.phases,
            timestamp=time.time(),
            seed=self._search.seed,
            trial=NO_TRIAL if proposal.place == NO_TRIAL else self._search.known.trial_count,
            batch=batch,
            place=max(proposal.place, 0),
            code=measurement.code or "",
            role=proposal.role,
            space=self._search.key.space if proposal.space is None else proposal.space,
            code_version=self._search.key.code_version,
            prologue_seconds=measurement.prologue_seconds,
            expected_seconds=proposal.expected_s,
        )
        is_trial = record.trial != NO_TRIAL
        with interrupts.put_off():  # what is recorded is known and counted, or it would be recorded twice
            self._search.known.add(record, self._search.database.add(record))
            self._count(measurement)
            self._pace.add(measurement.phases)
            self.measured += is_trial
        if is_trial:
            self._tell()

    def _count(self, measurement: Measurement) -> None:
        for name, seconds in measurement.phases:
            self._search.phases.add(Phase.BUILD if name in BUILDING_PHASES else Phase.RUN, seconds)

    # --- measuring again

    def _ask_again(self, runner: Runner, again: Sequence[Again]) -> list[Asked]:
        """Measure records again, each in the names that it was made in."""
        asked = []
        for one in again:
            program, plan = program_in_its_names(one.record, self._search.program), self._of_task(one.plan)
            asked.append((one, runner.submit(program, one.record.trace, self._search.target, plan=plan)))
        return asked

    def _record_again(self, asked: Sequence[Asked], room: Room) -> list[Record]:
        """Add the results of a repetition to the records, all at once: half of a comparison is of no use."""
        group = group_name()
        new: dict[object, Record] = {}
        try:
            for again, future in asked:
                measurement = self._search.waiting.result(future, room.patience_s)
                self._count(measurement)
                identity = again.record.identity
                new[identity] = replace(again, record=new.get(identity, again.record)).with_visits(measurement, group)
        except OutOfTime:
            for _, future in asked:
                future.cancel()
            return []
        if new:
            with interrupts.put_off():
                self._search.database.update(list(new.values()))
                self._search.known.replace(new.values())
        return list(new.values())
