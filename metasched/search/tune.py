"""The tuning loop: propose, lower, measure what is new, record, learn; and time the best again in turns.

The database is the only state. Every finished measurement is committed before the next one counts, so a run that is
interrupted or killed goes on where it stopped: proposals depend on the seed and on the recorded times alone, and a
batch that was cut short is proposed again and its rest is measured.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from metasched.database.base import Database
from metasched.database.best import comparison, noise_of
from metasched.database.claims import Claimant
from metasched.database.record import NO_TRIAL, DatabaseError, Duplicate, Record, Role, TaskKey, Visit, code_version
from metasched.errors import LanguageError, ScheduleError
from metasched.ir.program import Program
from metasched.measure.records import Lowered, Measurement
from metasched.measure.runner import Runner
from metasched.measure.timing import TimingPlan
from metasched.search.contest import Again, Asked, contest, due_repeat, group_name, last_repeats
from metasched.search.known import Known
from metasched.search.phases import Phase, Phases
from metasched.search.progress import Progress, ProgressCallback
from metasched.search.report import TuningReport
from metasched.search.space_protocol import Candidate, Observation, SearchSpace, Strategy

# Batches in a row without new code, after which the space is taken to hold none.
_PATIENCE = 6
# How long to wait for a measurement that another process has begun, before looking again.
_POLL_S = 0.1


def everything(trace: str) -> bool:
    """Any recorded trace."""
    return True


@dataclass(frozen=True)
class Job:
    """What to tune. `target` is the target's text; `trials` counts all records of the task, failures included.

    Of the records only those count whose trace `belongs`: a search in which decisions are given shares measurements
    with one without, where the traces coincide.
    """

    program: Program
    target: str
    threads: int
    trials: int
    seed: int = 0
    belongs: Callable[[str], bool] = everything

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.program.named_hash(), self.target, self.threads, code_version())


@dataclass(frozen=True)
class Guesses:
    """What one would get without measuring: in the space searched, and where nothing is said of a space.

    `own` is the first trial. `default` is measured as well, if it is another, since whoever finds a record of this
    task in the database would have got it; it is no trial. None stands for one that there is not.
    """

    own: str | None
    default: str | None

    def with_roles(self) -> list[tuple[str, Role]]:
        """The traces to measure, the first trial first."""
        roles = {self.own: Role.GUESS} | {self.default: Role.DEFAULT}
        return [(trace, role) for trace, role in roles.items() if trace is not None]


@dataclass(frozen=True)
class Tools:
    """What tuning needs beside the database. Each is opened only if something is left to measure.

    Without `open_guesses` the search has no guess to beat. Without `finals` the best are not timed again: a later
    call does that.
    """

    open_space: Callable[[], SearchSpace]
    open_runner: Callable[[], Runner]
    open_strategy: Callable[[SearchSpace, Phases], Strategy]
    open_guesses: Callable[[SearchSpace], Guesses] | None = None
    finals: Callable[[Sequence[Record]], list[Again]] | None = contest


def batch_size(start: int) -> int:
    """How many candidates are proposed at once after `start` proposals: more as there is more to learn from."""
    if start == 0:
        return 16
    return 8 if start < 64 else 16 if start < 256 else 32


def tune(job: Job, database: Database, tools: Tools, progress: ProgressCallback | None = None) -> TuningReport:
    """Measure until the task has `job.trials` records, time the best again in turns, and report the best.

    Nothing that is recorded is measured again; with enough records, and a best one that is known, the call returns at
    once. On Ctrl-C it returns what there is. Anything but a candidate's own failure is raised.
    """
    run = _Run(job, database, tools, progress)
    return run.report() if run.is_done() else run.go()


@dataclass(frozen=True)
class _Proposal:
    """A candidate of the batch with its trace; None where the trace is of another space, or the candidate illegal."""

    place: int
    candidate: Candidate | None
    trace: str | None
    role: Role = Role.CANDIDATE


class _Run:
    def __init__(self, job: Job, database: Database, tools: Tools, progress: ProgressCallback | None) -> None:
        self.job = job
        self.key = job.key
        self.database = database
        self.tools = tools
        self.progress = progress
        self.phases = Phases()
        self.started = time.perf_counter()
        self.known = Known(database, self.key, job.belongs)
        self.claimant = Claimant.this_process()
        self.rejected: Counter[str] = Counter()
        self.batch = 0
        self.measured = 0
        self.first_s = 0.0
        self.exhausted = False
        self.interrupted = False

    @property
    def left(self) -> int:
        """How many trials are to be made."""
        return self.job.trials - len(self.known.trials)

    def is_done(self) -> bool:
        """Whether there is nothing to measure."""
        guessed = self.tools.open_guesses is None or self.known.has_guess
        return self.left <= 0 and guessed and not self._finalists()

    def _finalists(self) -> list[Again]:
        return [] if self.tools.finals is None else self.tools.finals(self.known.all)

    def go(self) -> TuningReport:
        runner: Runner | None = None
        try:
            # Workers take a while to start, and do so while the space is made.
            runner = self.tools.open_runner()
            try:
                self.database.join(self.key, self.claimant)
                self._search(runner)
            except KeyboardInterrupt:
                self.interrupted = True
            # What was measured before Ctrl-C is worth a second more: which of it is the best.
            self._settle(runner)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.database.leave(self.key, self.claimant)
            if runner is not None:
                runner.close()
        return self.report()

    def report(self) -> TuningReport:
        trials = self.known.trials
        best, guess = self.known.best(), self.known.guess()
        return TuningReport(
            best=best,
            records=len(trials),
            measured=self.measured,
            failures=self.known.failures(),
            rejected=dict(self.rejected.most_common()),
            phases=self.phases.seconds(),
            elapsed_s=time.perf_counter() - self.started,
            exhausted=self.exhausted,
            interrupted=self.interrupted,
            raced=sum(record.raced for record in trials),
            duplicates=self.known.duplicates,
            guess=guess,
            over_guess=None if best is None or guess is None or best is guess else comparison(guess, best),
            noise=noise_of(trials),
        )

    # --- the loop

    def _search(self, runner: Runner) -> None:
        with self.phases.timed(Phase.SPACE):
            space = self.tools.open_space()
            guesses = [] if self.tools.open_guesses is None else self.tools.open_guesses(space).with_roles()
        if self.left <= 0 and (not guesses or self.known.has_guess):
            return  # only the best is to be told
        strategy = self.tools.open_strategy(space, self.phases)
        start, pending = self._resume(space, strategy)
        first = self._guess(space, guesses)
        stale = 0
        while self.left > 0 or first:
            self.database.join(self.key, self.claimant)
            trials = len(self.known.trials)
            # The guess is one of the first batch, when that is proposed again, too.
            size = batch_size(start) - (1 if start == 0 and guesses else 0)
            proposals = [*first, *self._propose(space, strategy, size)]
            if not proposals:
                self.exhausted = True
                return
            results = self._measure(runner, proposals)
            strategy.observe([*results, *pending, *self._picked_up(space)])
            stale = 0 if len(self.known.trials) > trials else stale + 1
            if stale == _PATIENCE:
                self.exhausted = True
                return
            first, pending, start, self.batch = [], [], self.known.observed, self.batch + 1

    def _resume(self, space: SearchSpace, strategy: Strategy) -> tuple[int, list[Observation]]:
        """Tell the strategy of what is recorded, but for the last batch, which may have been cut short.

        It is proposed again. Returns how many proposals there were before it, and the observations in it.
        """
        entries = self.known.in_order()
        self.batch = max((batch for batch, *_ in entries), default=0)
        before = [entry for entry in entries if entry[0] < self.batch]
        strategy.observe(self._located(space, before))
        return len(before), self._located(space, entries[len(before) :])

    def _located(self, space: SearchSpace, entries: Iterable[tuple[int, str, Record]]) -> list[Observation]:
        """Records as observations; those of another space count as trials and teach nothing."""
        found = ((self._candidate(space, trace), record) for _, trace, record in entries)
        return [_observation(candidate, record) for candidate, record in found if candidate is not None]

    def _candidate(self, space: SearchSpace, trace: str) -> Candidate | None:
        try:
            return space.locate(trace)
        except LanguageError as error:
            raise DatabaseError(
                f"`{self.database.url}`: the trace of a record does not parse: {str(error).splitlines()[0]}\n"
                "  hint: `metasched db prune --damaged` removes such records"
            ) from error

    def _picked_up(self, space: SearchSpace) -> list[Observation]:
        """What other processes have recorded in the meantime, if there are any."""
        if not self.database.others(self.key, self.claimant):
            return []
        return self._located(space, [(record.batch, record.trace, record) for record in self.known.pick_up()])

    def _guess(self, space: SearchSpace, guesses: Sequence[tuple[str, Role]]) -> list[_Proposal]:
        """The guesses that were not measured yet, to go before the first candidates."""
        have = {record.trace for record in self.known.trials}
        roles = {record.role for record in self.known.all}
        out = []
        for n, (trace, role) in enumerate(guesses):
            if trace not in have and (n == 0 or role not in roles):
                out.append(_Proposal(n if n == 0 else NO_TRIAL, space.locate(trace), trace, role))
        return out

    def _propose(self, space: SearchSpace, strategy: Strategy, count: int) -> list[_Proposal]:
        if count < 1 or self.left <= 0:
            return []
        with self.phases.timed(Phase.SCORING):
            proposed = strategy.propose(count)
        return [_Proposal(place, c, self._trace(space, c)) for place, c in enumerate(proposed, start=1)]

    def _trace(self, space: SearchSpace, candidate: Candidate) -> str | None:
        with self.phases.timed(Phase.SPACE):
            try:
                return space.trace(candidate)
            except ScheduleError as error:
                self.rejected[error.reason] += 1
                return None

    # --- a batch

    def _measure(self, runner: Runner, proposals: Sequence[_Proposal]) -> list[Observation]:
        """Measure the code that is not known yet, within the budget; observations in the order of proposal."""
        with self.phases.timed(Phase.MEASURE):
            self._measure_new(runner, self._lowered(runner, proposals))
        out = []
        for proposal in proposals:
            record = None if proposal.trace is None else self.known.of(proposal.trace)
            if proposal.candidate is not None and (record is not None or proposal.trace is None):
                out.append(_observation(proposal.candidate, record))
        return out

    def _lowered(self, runner: Runner, proposals: Sequence[_Proposal]) -> list[tuple[_Proposal, Lowered]]:
        """The proposals of which nothing is known, as far as their code."""
        new: dict[str, _Proposal] = {}
        for proposal in proposals:
            if proposal.trace is not None and self.known.of(proposal.trace) is None:
                new.setdefault(proposal.trace, proposal)
        asked = list(new.values())
        futures = [runner.lower(self.job.program, trace, self.job.target) for trace in new]
        return [(proposal, future.result()) for proposal, future in zip(asked, futures, strict=True)]

    def _measure_new(self, runner: Runner, lowered: Sequence[tuple[_Proposal, Lowered]]) -> None:
        """Measure each code once; what has the code of another is a duplicate of it."""
        waiting: dict[str, tuple[_Proposal, Lowered]] = {}
        beside: list[tuple[_Proposal, Lowered]] = []
        same: list[tuple[_Proposal, str]] = []
        for proposal, found in lowered:
            code = found.code or f"none {proposal.place}"
            if proposal.place == NO_TRIAL:
                beside.append((proposal, found))
            elif self.known.of_code(code) is not None or code in waiting:
                same.append((proposal, code))
            elif len(waiting) < self.left or proposal.role is not Role.CANDIDATE:
                waiting[code] = (proposal, found)
            else:
                break
        self._measure_claimed(runner, waiting, beside)
        shared = [(p, code) for p, code in same if self.known.of_code(code) is not None]
        duplicates = [Duplicate(str(p.trace), code, self.batch, p.place) for p, code in shared]
        if duplicates:
            self.database.add_duplicates(self.key, duplicates)
            self.known.add_duplicates(duplicates)

    def _measure_claimed(
        self,
        runner: Runner,
        waiting: dict[str, tuple[_Proposal, Lowered]],
        beside: Sequence[tuple[_Proposal, Lowered]],
    ) -> None:
        """Measure what no other process has begun, and wait for what one has, until all of it is known.

        What is to be measured `beside` it, whoever has, and a repetition that is due go with the first of it.
        """
        repeats = due_repeat(self.known.trials, self.job.trials, self.job.seed)
        while waiting or beside:
            others = self.database.others(self.key, self.claimant)
            under_way = self.database.under_way(self.key, self.claimant) if others else 0
            guesses = sum(proposal.role is not Role.CANDIDATE for proposal, _ in waiting.values())
            limit = max(self.left - under_way, guesses)
            share = -(-len(waiting) // (1 + others))
            mine = self.database.claim(self.key, list(waiting), min(share, limit), self.claimant)
            asked = self._ask_again(runner, repeats if mine else [])
            chosen = [*beside, *(waiting[code] for code in mine)]
            self._collect([(proposal, self._submit(runner, proposal, lowered)) for proposal, lowered in chosen])
            self._record_again(asked)
            self.database.release(self.key, self.claimant)
            if mine or beside:
                repeats, beside = [], []
            elif limit <= 0 and not under_way:
                return
            else:
                time.sleep(_POLL_S)
            if others or len(mine) < len(waiting):
                self.known.pick_up()
            for code, (proposal, _) in list(waiting.items()):
                if code in mine or self.known.of_code(code) or self.known.of(str(proposal.trace)):
                    del waiting[code]

    def _submit(self, runner: Runner, proposal: _Proposal, lowered: Lowered) -> Future[Measurement]:
        """Have a candidate measured. A guess does not race: turns at the end tell whether it was disturbed."""
        program, target, trace = self.job.program, self.job.target, lowered.candidate.trace
        if proposal.role is not Role.CANDIDATE:
            return runner.submit(program, trace, target, lowered=lowered, plan=TimingPlan().without_race())
        return runner.submit(program, trace, target, self.known.fastest_s(), lowered=lowered)

    def _collect(self, futures: list[tuple[_Proposal, Future[Measurement]]]) -> None:
        """Record measurements as they finish. On Ctrl-C, what has finished is recorded and the rest is dropped."""
        try:
            while futures:
                self._record(futures[0][0], futures[0][1].result())
                del futures[0]
        except KeyboardInterrupt:
            for proposal, future in futures:
                if not future.cancel() and future.done() and not future.exception():
                    measured = future.result()
                    if self.known.of(measured.candidate.trace) is None:
                        self._record(proposal, measured)
            raise

    def _record(self, proposal: _Proposal, measurement: Measurement) -> None:
        record = Record(
            task=self.key,
            program=str(self.job.program),
            params=self.job.program.params,
            trace=str(proposal.trace),
            visits=tuple(Visit(times) for times in measurement.visits),
            failure=measurement.failure.reason if measurement.failure is not None else None,
            raced=measurement.raced,
            phases=measurement.phases,
            timestamp=time.time(),
            seed=self.job.seed,
            trial=NO_TRIAL if proposal.place == NO_TRIAL else self.known.numbered,
            batch=self.batch,
            place=max(proposal.place, 0),
            code=measurement.code or "",
            role=proposal.role,
        )
        self.database.add(record)
        self.known.add(record)
        self._count(measurement)
        if record.trial != NO_TRIAL:
            self.measured += 1
            self._tell()

    def _count(self, measurement: Measurement) -> None:
        for name, seconds in measurement.phases:
            self.phases.add(Phase.BUILD if name in _BUILDING else Phase.RUN, seconds)

    # --- measuring again

    def _settle(self, runner: Runner) -> None:
        """Find out which is the best: the finalists in turns, with the repetitions that a short run still owes."""
        if self.tools.finals is None:
            return
        repeats = last_repeats(self.known.trials, self.job.seed) if self.measured else []
        with self.phases.timed(Phase.MEASURE):
            self._record_again(self._ask_again(runner, [*self._finalists(), *repeats]))

    def _ask_again(self, runner: Runner, again: Sequence[Again]) -> list[Asked]:
        program, target = self.job.program, self.job.target
        return [(one, runner.submit(program, one.record.trace, target, plan=one.plan)) for one in again]

    def _record_again(self, asked: Sequence[Asked]) -> None:
        """Add what came of measuring again to the records, all of it at once: half a comparison is none."""
        group = group_name()
        new: dict[object, Record] = {}
        for again, future in asked:
            measurement = future.result()
            self._count(measurement)
            identity = again.record.identity
            new[identity] = replace(again, record=new.get(identity, again.record)).with_visits(measurement, group)
        if new:
            self.database.update(list(new.values()))
            self.known.replace(new.values())

    def _tell(self) -> None:
        if self.progress is None:
            return
        elapsed = time.perf_counter() - self.started
        total = self.job.trials
        # Starting workers and computing the expected result come once, before the first measurement.
        if self.measured == 1:
            self.first_s = elapsed
        each = (elapsed - self.first_s) / (self.measured - 1) if self.measured > 1 else None
        best_s = self.known.fastest_s()
        work = self.job.program.work
        self.progress(
            Progress(
                task=self.job.program.key,
                trials=len(self.known.trials),
                total=total,
                best_s=best_s,
                gflops=None if best_s is None else work.gflops(best_s),
                gops=None if best_s is None else work.gops(best_s),
                failures=self.known.failures(),
                elapsed_s=elapsed,
                left_s=None if each is None else each * max(self.left, 0),
            )
        )


def _observation(candidate: Candidate, record: Record | None) -> Observation:
    """What a record says of a candidate; that it is illegal, where there is none."""
    if record is None:
        return Observation(candidate, None)
    return Observation(candidate, record.search_seconds, record.raced)


_BUILDING = frozenset({"replay", "lower", "emit", "compile", "build"})
