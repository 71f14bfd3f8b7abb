"""The search of one task, step by step: propose, lower, measure what is new, record, learn.

The database is the only state. Every finished measurement is committed before the next one counts, so a search that is
interrupted or killed goes on where it stopped: proposals depend on the seed and on the recorded times alone, and a
batch that was cut short is proposed again and its rest is measured.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np

from metasched.cost.features import Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import GetsReady, LearnsFromOthers, Model
from metasched.cost.model_registry import MODELS, MakeModel
from metasched.database.base import Database
from metasched.database.best import FINALISTS, comparison, is_faster
from metasched.database.claims import Claimant
from metasched.database.record import NO_TRIAL, Record, Role, SearchKey, TaskKey, code_version
from metasched.errors import ScheduleError
from metasched.measure.machines import batches_at_once, require_able
from metasched.measure.runner import Runner
from metasched.report.progress import ProgressCallback
from metasched.report.source import RecordSource
from metasched.schedule.trace_outline import Outline, outline_of
from metasched.search.batch import BatchMeasuring, Meanwhile, SearchContext
from metasched.search.budget.goal import Goal
from metasched.search.budget.pace import Pace, build_seconds
from metasched.search.budget.room import Room
from metasched.search.budget.stagnation import Stagnation
from metasched.search.budget.wider_strategy import Proposed, WiderStrategy
from metasched.search.checked_model import CheckedModel
from metasched.search.phases import Phase, Phases
from metasched.search.proposal import Guesses, Proposal, unmeasured_guesses, with_expectations
from metasched.search.records.earlier_searches import EarlierSearches, locate_entries
from metasched.search.records.other_tasks import OtherTasks
from metasched.search.records.resume import Resumed, resume
from metasched.search.records.task_records import TaskRecords
from metasched.search.report import TuningReport
from metasched.search.settling import Settling
from metasched.search.several_tasks.task_progress import TaskFacts
from metasched.search.several_tasks.waiting import Waiting
from metasched.search.several_tasks.yielding_model import YieldingModel
from metasched.search.short_list import SHORT_LIST
from metasched.search.space_protocol import Candidate, Observation, SearchSpace
from metasched.search.strategy_registry import STRATEGIES, MakeStrategy, StrategyInputs
from metasched.search.task_protocol import SearchableTask
from metasched.search.telling import Telling
from metasched.support import collection
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

# What other tasks teach a model.
Lessons = tuple[TaskTimes, ...]
# Batches in a row without new code, after which the space is taken to hold none.
_PATIENCE_BATCHES = 6
# What proposes half of a batch where a search has stagnated.
_STAGNATION_STRATEGY = "random"
# Candidates of the short list that are proposed in one batch, with nothing learned in between.
_SHORT_LIST_BATCH = 6


@dataclass(frozen=True)
class Parts:
    """What a search is made with. `runner` opens the runner at its first call, and returns the same one later.

    Without `guess` a search has no guess to beat.
    """

    database: Database
    runner: Callable[[], Runner]
    strategy: MakeStrategy
    model: MakeModel
    seed: int
    claimant: Claimant
    tell: ProgressCallback
    waiting: Waiting
    others: OtherTasks
    guess: bool = True


@dataclass(frozen=True)
class Step:
    """The result of a step: the position of its `task` in the session, the number of its batch, how many trials were
    `measured`, and whether the space turned out to be `exhausted`.
    """

    task: int
    batch: int
    measured: int
    exhausted: bool


@dataclass(frozen=True)
class _Prepared:
    """The space, and the guesses."""

    space: SearchSpace
    guesses: Guesses


@dataclass
class _Open:
    """A search that has begun.

    `model` is the strategy's own. `guesses` and `proposals` are those of the next batch; the strategy's `proposals` are
    None until it was called, and `seeds` precede them. `before` is the number of earlier proposals, `pending` the known
    results of the batch that were not proposed. `lessons` are what other tasks have taught the model.
    """

    space: SearchSpace
    strategy: WiderStrategy
    model: CheckedModel
    resumed: Resumed
    guesses: list[Proposal]
    seeds: list[Proposal] = field(default_factory=list)
    proposals: list[Proposal] | None = None
    lessons: Lessons = ()

    def __post_init__(self) -> None:
        self.batch = self.resumed.batch
        self.before = self.resumed.before
        self.pending: Sequence[Observation] = self.resumed.pending


def _leave_unbuilt(_: Sequence[Proposal]) -> None: ...


class TaskSearch:
    """The search of a task. Nothing is opened before the first step."""

    def __init__(self, task: SearchableTask, number: int, parts: Parts) -> None:
        self.task = task
        self.number = number
        key = TaskKey.of(task.program, task.target, task.surroundings)
        self.key = SearchKey(key, task.fingerprint, code_version())
        self.phases = Phases()
        self.rejected: Counter[str] = Counter()
        self.exhausted = False
        self._parts = parts
        self._started = time.perf_counter()
        self._goal = Goal()
        self._spent_patience: Stagnation | None = None
        self.is_out_of_time = False
        self._proposing_s = 0.0
        self._prepared: _Prepared | None = None
        self._open: _Open | None = None
        self._stale = 0
        self._has_joined = False
        parts.others.join(self.key)

    @cached_property
    def known(self) -> TaskRecords:
        """The records of the task."""
        return TaskRecords(self._parts.database, self.key, self.task.program)

    @cached_property
    def _measuring(self) -> BatchMeasuring:
        task, parts = self.task, self._parts
        search = SearchContext(
            program=task.program,
            target=str(task.target),
            key=self.key,
            known=self.known,
            database=parts.database,
            claimant=parts.claimant,
            seed=parts.seed,
            phases=self.phases,
            waiting=parts.waiting,
        )
        return BatchMeasuring(search, Pace(self._facts.least_s), self._tell)

    @cached_property
    def _settling(self) -> Settling:
        return Settling(self.known, self._measuring, self._parts.seed, self._runner)

    @cached_property
    def _telling(self) -> Telling:
        return Telling(self.task.program, self.known, self._parts.tell, self._started)

    def begin_run(self, goal: Goal) -> None:
        """A run with a new goal begins."""
        self._goal, self.is_out_of_time, self._spent_patience = goal, False, None

    def end_run(self, goal: Goal) -> None:
        """The steps of a run are over; `goal` says whether that is for lack of time."""
        self.is_out_of_time |= goal.is_over and self.wants_step(replace(goal, until=None))

    def trials_left(self, goal: Goal) -> int:
        """The number of trials to be made, as long as none of them is faster than the best by more than noise."""
        left = (
            min(goal.wanted_trials, goal.wanted_trials if goal.pause is None else goal.pause) - self.known.trial_count
        )
        return left if goal.patience is None else min(left, goal.patience - self.known.stagnation().since)

    def is_out_of_patience(self, goal: Goal) -> bool:
        """Whether it made as many trials without a gain as it may."""
        return goal.patience is not None and self.known.stagnation().since >= goal.patience

    def wants_step(self, goal: Goal) -> bool:
        """Whether a step would measure anything, as far as that is known before it."""
        if self.exhausted or (self.is_out_of_time and goal.until is not None):
            return False
        return self._lacks_guess() or (self.trials_left(goal) > 0 and not goal.is_over)

    def _lacks_guess(self) -> bool:
        if not self._parts.guess or self.known.has_guess:
            return False
        return self._open is None or not all(guess.is_settled(self.known) for guess in self._open.guesses)

    # --- getting ready

    def _runner(self) -> Runner:
        """What measures. Raises TargetError where it cannot measure for the task's target."""
        runner = self._parts.runner()
        require_able(runner, self.task.target)
        return runner

    @cached_property
    def _facts(self) -> TaskFacts:
        return TaskFacts.of_program(self.task.program, self.task.target)

    def facts(self) -> TaskFacts:
        """What is known of the task before anything is measured."""
        return self._facts

    @property
    def has_new_trials(self) -> bool:
        """Whether this session has measured anything of the task."""
        return self._measuring.measured > 0

    @property
    def next_trials(self) -> int:
        """How many trials the next step is expected to make at most: those of its batch."""
        at = self._open
        if at is None:
            return max(SHORT_LIST, batch_size(self.known.proposal_count))
        beside = len(at.guesses) + len(at.seeds)
        return beside + batch_size(at.before, len(self.prepare().guesses.traces))

    def make_ready(self, goal: Goal) -> None:
        """Prepare, and propose the next batch if there is to be one."""
        at = self._open_search()
        if at.proposals is None and self._wants_proposals(at, goal):
            at.proposals = self._propose(at, Phase.AHEAD, _leave_unbuilt)

    def lower_ahead(self) -> None:
        """Begin to build what `make_ready` proposed; the runner knows when."""
        if self._open is not None and self._open.proposals:
            self._begin_lowering(self._open.proposals)

    def _begin_lowering(self, proposals: Sequence[Proposal]) -> None:
        new = [p.trace for p in proposals if p.trace is not None and not p.is_settled(self.known)]
        self._measuring.begin_lowering(self._runner(), new)

    def prepare(self) -> _Prepared:
        """Make the guesses and the space, while workers compute the expected results and lower the former.

        Further calls do nothing.
        """
        if self._prepared is None:
            runner = self._runner()
            runner.prepare(self.task.program, self.task.inputs)
            with self.phases.timed(Phase.GUESS):
                guesses = self.task.guesses() if self._parts.guess else Guesses()
            self._parts.waiting.give_way()
            if not self.known.proposal_count:
                self._measuring.begin_lowering(runner, guesses.traces)
            with self.phases.timed(Phase.SPACE):
                space = self.task.arms
            self._prepared = _Prepared(space, guesses)
        return self._prepared

    def _open_search(self) -> _Open:
        if self._open is None:
            prepared, parts = self.prepare(), self._parts
            space = prepared.space
            model = CheckedModel(MODELS.make(parts.model, parts.seed))
            alone = batches_at_once(self._runner()) == 1
            asked = model if alone else YieldingModel(model, parts.waiting.give_way)
            given = StrategyInputs(space.arms, asked, parts.seed, self.phases)
            own = STRATEGIES.make(parts.strategy, given)
            strategy = WiderStrategy(own, STRATEGIES.get_own(_STAGNATION_STRATEGY)(given), space.arms)
            earlier = EarlierSearches(self.known, space, self.task.program)
            lessons: list[TaskTimes] = []

            def look_ahead(batch: int) -> None:
                lessons[:] = self._teach(model.own, (), batch)
                strategy.look_ahead()

            with self.phases.timed(Phase.SCORING), collection.pause_gc():
                resumed = resume(self.known, space, strategy, earlier, look_ahead)
            guesses = with_expectations(unmeasured_guesses(prepared.guesses, self.known, space), space.arms, model)
            self._open = _Open(space, strategy, model, resumed, guesses, lessons=tuple(lessons))
            if resumed.before == 0:
                self._fill_first_batch(self._open, prepared.guesses, earlier)
        return self._open

    def _fill_first_batch(self, at: _Open, guesses: Guesses, earlier: EarlierSearches) -> None:
        """Put what is known beforehand, and results from other spaces and other versions, into the first batch."""
        earlier.adopt(self._parts.database, self.key, at.batch)
        known = [*((t, Role.NEIGHBOUR) for t in guesses.neighbours), *((t, Role.EXPERT) for t in guesses.experts)]
        places = enumerate(known, start=1)
        at.seeds = [Proposal(place, at.space.locate(trace), trace, role) for place, (trace, role) in places]
        seeds = enumerate(earlier.seeds(), start=1 + len(at.seeds))
        at.seeds += [Proposal(place, candidate, self._trace(at.space, candidate)) for place, candidate in seeds]
        found = earlier.best_elsewhere()
        if found is not None:
            at.guesses.append(Proposal(NO_TRIAL, None, found.trace, space=found.space))

    # --- a step

    def step(self, goal: Goal, meanwhile: Meanwhile) -> Step:
        """Propose a batch, or resume one that was cut short; measure it, record it and learn from it.

        A batch that reaches the goal is cut short.
        """
        self._goal, self._spent_patience = goal, None
        parts, room = self._parts, self._room(goal)
        self._has_joined = True
        parts.database.join(self.key, parts.claimant)  # before workers start: it may be one that can only be read
        runner = self._runner()
        made, trials = self._measuring.measured, self.known.trial_count
        at = self._open_search()
        batch = at.batch
        if at.proposals is None and self._wants_proposals(at, goal):
            at.proposals = self._propose(at, Phase.SCORING, self._begin_lowering)
        self.is_out_of_time = at.proposals is None and self._lacks_time(goal)
        if at.proposals == [] and not at.guesses:
            self.exhausted = True
        else:
            proposals = [*at.guesses, *(at.proposals or ())]
            with parts.others.measuring_batch(self.key, batch):
                beside = self._work_beside(at, goal, meanwhile, batches_at_once(runner))
                self.is_out_of_time |= not self._measuring.measure(runner, proposals, batch, room, beside)
        if at.proposals is not None and not self.exhausted:
            self._learn(at, goal)
            if not self.is_out_of_time:
                self._wear_out(trials)
        return Step(self.number, batch, self._measuring.measured - made, self.exhausted)

    def _room(self, goal: Goal) -> Room:
        return Room(self.known.trial_count + self.trials_left(goal), goal.wanted_trials, goal.until, goal.deadline)

    def _wants_proposals(self, at: _Open, goal: Goal) -> bool:
        """Whether more is to be measured than the guesses, which are in the batch in any case."""
        trials = [guess for guess in at.guesses if guess.place != NO_TRIAL and not guess.is_settled(self.known)]
        return self.trials_left(goal) > len(trials) and not self._lacks_time(goal)

    def _lacks_time(self, goal: Goal) -> bool:
        """Whether proposing takes as long as there is time for."""
        return goal.until is not None and time.perf_counter() + self._proposing_s >= goal.until

    def _propose(self, at: _Open, phase: Phase, begin: Callable[[Sequence[Proposal]], None]) -> list[Proposal]:
        """The next batch. `begin` is called with each part of it as soon as that is chosen: builders are at work while
        the next is looked for. `phase` is what the time before that counts as.
        """
        self._parts.waiting.give_way()
        started = time.perf_counter()
        made = list(at.seeds)
        # New structures are very many objects, which live as long as the search.
        with collection.pause_gc():
            parts = self._proposed_parts(at)
            while (part := self._next_part(parts, phase)) is not None:
                places = enumerate(part, start=1 + len(made))
                new = [Proposal(place, one, self._trace(at.space, one), role) for place, (one, role) in places]
                begin(new)
                made += new
                phase = Phase.AHEAD
            with self.phases.timed(phase):
                batch = with_expectations(made, at.space.arms, at.model)
        self._proposing_s = time.perf_counter() - started
        return batch

    def _proposed_parts(self, at: _Open) -> Iterator[list[Proposed]]:
        at.lessons = self._teach(at.model.own, at.lessons, at.batch)
        count = batch_size(at.before, len(self.prepare().guesses.traces))
        propose = at.strategy.propose_wider if self._looks_elsewhere(at) else at.strategy.propose
        yield from propose(count)

    def _next_part(self, parts: Iterator[list[Proposed]], phase: Phase) -> list[Proposed] | None:
        with self.phases.timed(phase):
            return next(parts, None)

    def _work_beside(self, at: _Open, goal: Goal, meanwhile: Meanwhile, machines: int) -> Meanwhile:
        """What to do beside a batch: before it is timed, as that takes this machine; several are not kept waiting."""

        def ahead() -> None:
            self._look_ahead(at, goal, meanwhile)

        return replace(meanwhile, while_lowering=ahead) if machines == 1 else replace(meanwhile, once_submitted=ahead)

    def _look_ahead(self, at: _Open, goal: Goal, meanwhile: Meanwhile) -> None:
        """While this batch is built, do what the next one needs, of another task and of this one."""
        meanwhile.while_lowering()
        new = sum(not proposal.is_settled(self.known) for proposal in at.proposals or ())
        if at.proposals is not None and self.trials_left(goal) > new and not self._lacks_time(goal):
            with self.phases.timed(Phase.AHEAD), collection.pause_gc():
                if isinstance(at.model.own, GetsReady):
                    at.model.own.get_ready()
                at.strategy.look_ahead()

    def _looks_elsewhere(self, at: _Open) -> bool:
        """Whether half of the batch is drawn at random: as it was begun, or where the search has stagnated."""
        return self.known.has_drawn(at.batch) if self.known.is_begun(at.batch) else self.known.stagnation().is_reached

    def _teach(self, model: Model, before: Lessons, batch: int) -> Lessons:
        """Have the model learn what is recorded of other tasks for a batch, unless it has learned that `before`."""
        if not isinstance(model, LearnsFromOthers) or self._parts.others.core != self.task.core:
            return before
        lessons = self._parts.others.lessons(self.key, self.task.program, self.known, batch)
        if len(lessons) != len(before) or any(a is not b for a, b in zip(lessons, before, strict=True)):
            with self.phases.timed(Phase.MODEL):
                model.teach(lessons)
        return lessons

    def _trace(self, space: SearchSpace, candidate: Candidate) -> str | None:
        with self.phases.timed(Phase.SPACE):
            try:
                return space.trace(candidate)
            except ScheduleError as error:
                self.rejected[error.reason] += 1
                return None

    def _learn(self, at: _Open, goal: Goal) -> None:
        """Have the strategy observe a complete batch, and go on to the next."""
        batch = [*at.guesses, *(at.proposals or ())]
        if (self.trials_left(goal) <= 0 or self.is_out_of_time) and not all(
            proposal.is_settled(self.known) for proposal in batch
        ):
            return
        found = (proposal.find_observation(self.known) for proposal in batch)
        results = {result.candidate: result for result in found if result is not None}
        # A guess that was measured when the batch was begun comes before the rest of it.
        earlier = {result.candidate: result for result in at.pending if result.candidate not in results}
        observed = {**earlier, **results}
        for result in self._picked_up(at.space):
            observed.setdefault(result.candidate, result)
        at.strategy.observe(list(observed.values()))
        self._note(at, batch)
        at.guesses, at.seeds, at.proposals, at.pending = [], [], None, ()
        at.before, at.batch = self.known.proposal_count, at.batch + 1

    def _note(self, at: _Open, batch: Sequence[Proposal]) -> None:
        """Keep the features of what was measured, by which it teaches other tasks."""
        if self._parts.others.core != self.task.core:
            return
        of_arms: defaultdict[int, list[Proposal]] = defaultdict(list)
        for proposal in batch:
            if proposal.candidate is not None and proposal.trace is not None and proposal.is_settled(self.known):
                of_arms[proposal.candidate.arm].append(proposal)
        found: dict[Outline, Features] = {}
        for arm, members in of_arms.items():
            rows = np.array([p.candidate.row for p in members if p.candidate], np.int64).reshape(len(members), -1)
            features = at.space.arms[arm].features(rows)
            found.update(zip((outline_of(str(p.trace)) for p in members), features, strict=True))
        self._parts.others.note(self.key.task, found)

    def _picked_up(self, space: SearchSpace) -> list[Observation]:
        """Read what other processes have recorded in the meantime, if there are any."""
        database = self._parts.database
        if not database.others(self.key, self._parts.claimant):
            return []
        found = locate_entries(space, self.known, [(s.batch, s.outline, s) for s in self.known.pick_up()])
        return [observation for observation in found if observation is not None]

    def _wear_out(self, trials: int) -> None:
        self._stale = 0 if self.known.trial_count > trials else self._stale + 1
        self.exhausted = self._stale == _PATIENCE_BATCHES

    # --- the end

    def settle(self, most: int = FINALISTS, until: float | None = None) -> None:
        """Find the best: time the guesses and the `most` fastest in turns. Nothing is done that would take longer than
        `until`.
        """
        # What is timed again tells more of noise, by which the last gain may have been another than patience went by.
        if self._spent_patience is None and self.is_out_of_patience(self._goal):
            self._spent_patience = self.known.stagnation()
        self._settling.settle(most, until)

    def settling_s(self, most: int) -> tuple[float, float]:
        """What `settle` is expected to take, and the least with which it can tell the best from the guess."""
        return self._settling.expected_s(most)

    @property
    def build_s(self) -> float:
        """What making the machine code of the best takes."""
        fastest = self.known.fastest_trial()
        return 0.0 if fastest is None else build_seconds(fastest)

    def leave(self) -> None:
        """Release this process's claims, if it has made any, so that other processes may measure them."""
        if self._has_joined:
            self._parts.database.leave(self.key, self._parts.claimant)
            self._has_joined = False

    def report(self, interrupted: bool) -> TuningReport:
        """The report of the records so far."""
        best, guess = self.known.best(), self.known.guess()
        refused = self._prepared.space.refused if self._prepared is not None else {}
        return TuningReport(
            best=best,
            records=self.known.trial_count,
            measured=self._measuring.measured,
            failures=self.known.failures(),
            rejected=dict((self.rejected + Counter(refused)).most_common()),
            phases=self.phases.seconds(),
            elapsed_s=self._telling.elapsed_s,
            exhausted=self.exhausted,
            interrupted=interrupted,
            raced=self.known.raced,
            duplicates=self.known.duplicates,
            guess=guess,
            over_guess=None if best is None or guess is None or best == guess else comparison(guess, best),
            noise=self.known.noise(),
            roles=self.known.roles(),
            stagnation=self._spent_patience or self.known.stagnation(),
            out_of_patience=self._spent_patience is not None,
            task=self.task.program.key,
            source=RecordSource.of_search(self._parts.database, self.key),
            default=self._better_default(best),
            out_of_time=self.is_out_of_time,
        )

    def _better_default(self, best: Record | None) -> Record | None:
        """The guess for a caller who names no space, where it is faster for sure than the best and of another space."""
        default = self.known.default()
        if best is None or default is None or default == best or not is_faster(default, best):
            return None
        return default if self.task.arms.locate(default.trace) is None else None

    def _tell(self) -> None:
        self._telling.tell(self._measuring.measured, self._goal.trials, self._left_s)

    def _left_s(self, each: float | None) -> float | None:
        """The estimated remaining seconds, by trials or by the clock, whichever ends first."""
        goal = self._goal
        ends = [] if goal.until is None else [max(goal.until - time.perf_counter(), 0.0)]
        if goal.trials is not None and each is not None:
            ends.append(each * max(self.trials_left(goal), 0))
        return min(ends, default=None)


def batch_size(start: int, beside: int = 1) -> int:
    """How many a strategy is to propose after `start` proposals: more as there are more results to learn from.

    In the first batch there are a guess and expert traces `beside` them, and maybe results of other versions. What the
    former leave of the short list is proposed in two halves, of which the second has learned from the first: what the
    model is wrong about, it is wrong about in all that it proposes at once. Where it is little, it is one batch, since
    another takes a second.
    """
    if start == 0:
        left = max(4, SHORT_LIST - beside)
        return left if left <= _SHORT_LIST_BATCH else (left + 1) // 2
    if start < SHORT_LIST:
        return min(8, max(4, SHORT_LIST - start))
    return 8 if start < 64 else 16 if start < 256 else 32
