"""A search without programs to build: a task over toys, and a runner that measures at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.model import CostModel
from metasched.database.base import Database
from metasched.database.record import SearchKey, TaskKey, code_version
from metasched.errors import ScheduleError
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.measure.checking.inputs import Inputs
from metasched.measure.records import Failure, Lowered, MeasureCandidate, Measurement
from metasched.measure.timing import Surroundings, TimingPlan
from metasched.report.progress import Progress
from metasched.schedule.trace_outline import Outline
from metasched.search.proposal import Guesses
from metasched.search.report import TuningReport
from metasched.search.session import TuningSession
from metasched.search.space_protocol import Candidate, Strategy, TextOf
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategy_registry import MakeStrategy, StrategyInputs
from metasched.target import Target
from tests.support.toys import Toy, Toys

TEXT = "program add[N=8](A: f32[N]) -> B: f32[N]:\n    add: B[i] = A[i] + 1\n"
TARGET = Target("generic", frozenset({"avx2", "fma"}), 2, 32768, 1 << 20, 1 << 25, 64)


class ToySpace:
    def __init__(self) -> None:
        self.arms = Toys([Toy(), Toy(flavour=1)])
        self.refused: dict[str, int] = {}
        self.illegal: set[int] = set()

    def trace(self, candidate: Candidate) -> str:
        if candidate.row[0] in self.illegal:
            raise ScheduleError("split", "the factor is unlucky")
        return json.dumps([candidate.arm, *candidate.row])

    def locate(self, trace: str) -> Candidate | None:
        arm, *row = json.loads(trace)
        return Candidate(arm, tuple(row)) if arm < len(self.arms) else None

    def locate_all(self, outlines: Sequence[Outline], text_of: TextOf) -> list[Candidate | None]:
        return [self.locate(outline.decisions) for outline in outlines]  # the texts, as they are no traces


class ToyRunner:
    """Measures at once. `stop_at`: the measurement at which Ctrl-C is pressed. `codes` says what a trace's code is,
    which is itself otherwise, `fixed` what it takes. `traces` are those measured for the first time, `again` those
    measured again.
    """

    def __init__(self, space: ToySpace, stop_at: int | None = None, fail: bool = False) -> None:
        self.space = space
        self.stop_at = stop_at
        self.fail = fail
        self.codes: Callable[[str], str] = lambda trace: trace
        self.fixed: dict[str, float] = {}
        self.traces: list[str] = []
        self.again: list[str] = []
        self.raced_against: list[float | None] = []
        self.closed = False
        self.prepared: list[str] = []

    def lower(self, program: Program, trace: str, target: str) -> Future[Lowered]:
        future: Future[Lowered] = Future()
        future.set_result(Lowered(MeasureCandidate(str(program), program.params, trace, target), self.codes(trace)))
        return future

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
        future: Future[Measurement] = Future()
        if len(self.traces) == self.stop_at:
            future.set_exception(KeyboardInterrupt())
            return future
        code = self.codes(trace)
        if lowered is None:
            self.again.append(trace)
        else:
            assert lowered.code == code
            self.traces.append(trace)
            self.raced_against.append(best_s)
        candidate = MeasureCandidate(str(program), program.params, trace, target)
        future.set_result(self.measured(candidate, code, plan or TimingPlan()))
        return future

    def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
        arm, *row = json.loads(code)
        failure = Failure("crash SIGSEGV") if self.fail and row[1] % 3 == 0 else None
        seconds = self.fixed.get(code) or self.space.arms[arm].seconds(tuple(row))
        visits = () if failure else ((seconds,),) * plan.visits
        return Measurement(candidate, visits, False, failure, (("build", 0.5), ("run", 0.25)), code)

    def prepare(self, program: Program, inputs: Inputs | None = None) -> None:
        self.prepared.append(program.key)

    def close(self) -> None:
        self.closed = True


@dataclass
class ToyTask:
    """A task over a toy space. `made` counts how often the space was asked for."""

    space: ToySpace
    guessed: Guesses = Guesses()
    program: Program = field(default_factory=lambda: parse_program(TEXT))
    target: Target = TARGET
    core: Core = DEFAULT_CORE
    inputs: Inputs | None = None
    fingerprint: str = "toy"
    surroundings: Surroundings = Surroundings.ALONE
    made: int = 0

    @property
    def arms(self) -> ToySpace:
        self.made += 1
        return self.space

    def guesses(self) -> Guesses:
        return self.guessed


def key(fingerprint: str = "toy") -> SearchKey:
    """Under which the records of a toy task are stored."""
    return SearchKey(TaskKey.of(parse_program(TEXT), TARGET), fingerprint, code_version())


def strategy(given: StrategyInputs) -> Strategy:
    return Evolution(given.arms, CostModel(), 0, EvolutionConfig(population=64, generations=1), given.phases)


def toy_session(
    database: Database,
    runner: ToyRunner,
    seen: list[Progress] | None = None,
    guesses: Guesses | None = None,
    make: MakeStrategy = strategy,
    fingerprint: str = "toy",
) -> TuningSession:
    """A session of one toy task. Without `guesses` it has no guess to beat."""
    task = ToyTask(runner.space, guesses or Guesses(), fingerprint=fingerprint)
    tell = False if seen is None else seen.append
    return TuningSession([task], db=database, runner=runner, strategy=make, progress=tell, guess=guesses is not None)


def tuned(
    database: Database,
    trials: int,
    runner: ToyRunner,
    seen: list[Progress] | None = None,
    guesses: Guesses | None = None,
    make: MakeStrategy = strategy,
    fingerprint: str = "toy",
) -> TuningReport:
    """A run until there are so many trials."""
    with toy_session(database, runner, seen, guesses, make, fingerprint) as session:
        (report,) = session.run(trials=trials)
    return report
