"""One case: a program, a way to schedule it, and everything that has to hold of the result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from metasched.compiler.lower import lower
from metasched.errors import BuildError, MetaschedError, ScheduleError
from metasched.ir.program import Program
from metasched.ir.validate import InvalidProgram, validate
from metasched.lang.instructions import Instruction, TraceData
from metasched.measure.checking.arithmetic import AS_WRITTEN, AllowedArithmetic, arithmetic_of
from metasched.measure.checking.check import Bench, Cases, Guarded, mismatch, prepare
from metasched.measure.checking.inputs import Given
from metasched.measure.records import CheckError
from metasched.runtime.compiled import build
from metasched.schedule.handlers import DrawFromPrior, Policy, Replay, Symbolic
from metasched.schedule.trace import Schedule, Trace
from metasched.space.registry import resolve
from metasched.space.rule import Rule
from metasched.space.sketch import Sketch
from metasched.space.source import FromRules
from metasched.target import Target
from tests.property.fuzz.fuzz_actions import attempt
from tests.property.fuzz.fuzz_invariants import invariants
from tests.property.fuzz.fuzz_meaning import is_plain, meaning
from tests.property.fuzz.fuzz_pipelines import pipeline
from tests.property.fuzz.fuzz_places import places
from tests.property.fuzz.fuzz_programs import Source, classic, from_library, made, pick, small
from tests.property.fuzz.fuzz_wide import extremes, wide
from tests.property.fuzz.fuzz_windows import windows
from tests.support.lir_interpreter import can_run, run_lir

# What a schedule may ask of the machine and not get.
UNBUILDABLE = frozenset(
    {
        "register tile does not fit",
        "register buffers too large",
        "register buffer crosses a parallel loop",
        "unroll too large",
        "index arithmetic leaves 64 bits",
        "parallel loop too long",
    }
)
MOST_WORKSPACE = 1 << 26
_WIDE = Target.detect(threads=2)
_NO_AVX = _WIDE.without(f for f in _WIDE.features if f.startswith("avx") or f in {"fma", "f16c"})
_NO_512 = _WIDE.without(f for f in _WIDE.features if f.startswith("avx512"))
TARGETS = (_WIDE, _WIDE, _NO_512, _NO_AVX)
# Shares of the cases whose traces go through text, and whose low-level program is interpreted, too: strictly, element
# by element.
PRINTED = 0.4
INTERPRETED = 0.1


@dataclass(frozen=True)
class Failure:
    """What went wrong, and the trace that shows it on the program."""

    kind: str
    detail: str
    source: Source
    trace: TraceData

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}\n\n{text_of(self.source, self.trace)}"


def text_of(source: Source, trace: TraceData) -> str:
    """A file that `read_text` takes: the program, and the trace, whose first line has the sizes."""
    from metasched.lang import print_trace

    return f"{source.text.strip()}\n\n{print_trace(trace).strip()}\n"


def read_text(text: str) -> tuple[Source, TraceData]:
    """A program and a trace from a file; lines before them may be comments."""
    program, mark, trace = text.partition("\ntrace ")
    data = Trace.parse(mark.lstrip() + trace).data
    return Source(program, data.params), data


class Oracle:
    """A program's right results, and the memory in which schedules of it are tried."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.program: Program = source.program()
        given = Given(extremes(self.program.func) if is_plain(self.program.definition) else {}, {})
        self._given = given
        self._cases: dict[AllowedArithmetic, Cases] = {}
        self.cases = self.cases_by(AS_WRITTEN)

    def cases_by(self, arithmetic: AllowedArithmetic) -> Cases:
        """The results, with the tolerance of a way to compute them."""
        if arithmetic not in self._cases:
            by = arithmetic.computation_of(self.program)
            self._cases[arithmetic] = prepare(self.program.func, self._given, 0, by=by)
        return self._cases[arithmetic]

    def wrong_result(self, schedule: Schedule, target: Target) -> str | None:
        """What machine code gets wrong; None when nothing, and where the machine cannot do what is asked."""
        try:
            kernel = build(schedule.func, target)
        except BuildError as error:
            allowed = error.reason in UNBUILDABLE or error.reason.startswith("target lacks")
            return None if allowed else f"BuildError: {error}"
        if kernel.workspace_bytes > MOST_WORKSPACE:
            return None
        kernel.prepare()
        workspace = Guarded(kernel.workspace_bytes, offset=0)
        cases = self.cases_by(arithmetic_of(str(schedule.trace)))
        bench = Bench(cases)
        for case in (cases.integers, cases.random):
            bench.load(case, workspace)
            scalars = [
                None if p.shape is not None else a.item() for p, a in zip(kernel.parameters, case.inputs, strict=False)
            ]
            scalars += [None] * len(case.expected)
            values = [a if s is None else s for s, a in zip(scalars, bench.addresses, strict=True)]
            status = kernel.function(*values, workspace.address)
            failure = bench.verify(workspace)
            if status or failure is not None:
                return f"status {status}, {failure}"
        return None

    def wrong_meaning(self) -> str | None:
        """What the reference gets wrong of what the text says; None where it says what is not evaluated here."""
        definition = self.program.definition
        if not is_plain(definition):
            return None
        case, order = self.cases.integers, self.program.func.order
        given = dict(zip(order, map(np.asarray, case.inputs), strict=True))
        found = meaning(definition, {k: v for k, v in self.program.params if isinstance(v, int)}, given)
        for (name, _), expected in zip(self.cases.outputs, case.expected, strict=True):
            if not np.array_equal(found[name], expected):
                return f"`{name}` is {expected.ravel()[:8]} by the reference, and {found[name].ravel()[:8]} by its text"
        return None

    def wrong_when_interpreted(self, schedule: Schedule, target: Target) -> str | None:
        """What the low-level program gets wrong, run in Python."""
        try:
            kernel = lower(schedule.func, target)
        except BuildError:
            return None
        if not can_run(kernel):
            return None
        case = self.cases_by(arithmetic_of(str(schedule.trace))).integers
        given = dict(zip(self.program.func.order, case.inputs, strict=True))
        scalars = {s.name: given.pop(s.name)[()] for s in self.program.func.scalars}
        ran = run_lir(kernel, list(given.values()), scalars)
        for (name, dtype), expected, tolerance in zip(self.cases.outputs, case.expected, case.tolerance, strict=True):
            found = ran.data[name].reshape(expected.shape).astype(dtype)
            wrong = mismatch(found, expected, tolerance)
            if wrong is not None:
                return f"`{name}`, interpreted: {wrong}"
        return None


@lru_cache(maxsize=8)
def oracle_of(source: Source) -> Oracle:
    return Oracle(source)


class Watched(Schedule):
    """A schedule that knows what was last tried on it, and checks the program after every change."""

    attempted: Instruction | None = None

    def _execute(self, *args: object, **kwargs: object) -> object:
        self.attempted = next(a for a in args if isinstance(a, Instruction))
        before = self.func
        result = super()._execute(*args, **kwargs)  # type: ignore[arg-type]
        if self.func is not before:
            validate(self.func, self.context.free)
        return result


# --- what has to hold


@dataclass(frozen=True)
class Checks:
    """What to look at besides the results of machine code."""

    text: bool = True
    interpreted: bool = True


def problem(oracle: Oracle, schedule: Schedule, target: Target, checks: Checks) -> tuple[str, str] | None:
    """What is wrong with a schedule, as a kind and a detail."""
    try:
        wrong = text_problem(oracle.program, schedule) if checks.text else None
        if wrong is not None:
            return "text", wrong
        wrong = oracle.wrong_result(schedule, target)
        if wrong is None and checks.interpreted:
            wrong = oracle.wrong_when_interpreted(schedule, target)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        return _kind_of(error), str(error)
    return None if wrong is None else ("result", wrong)


def _kind_of(error: Exception) -> str:
    return "invalid" if isinstance(error, InvalidProgram) else type(error).__name__


def text_problem(program: Program, schedule: Schedule) -> str | None:
    """Whether text and replay give the same trace and program again."""
    trace = schedule.trace
    parsed = Trace.parse(str(trace))
    if parsed != trace:
        return "the trace's text parses to another trace"
    if parsed.canonical() != trace.canonical().canonical():
        return "renaming twice is not renaming once"
    for how, other in (("", parsed), ("simplified ", trace.simplified())):
        again = other.apply_to(program)
        if again.func != schedule.func:
            return f"the {how}trace replays to another program"
        if again.trace != other:
            return f"the {how}trace replays to another trace"
    if parsed.apply_to(program, Policy.REPAIR).repairs:
        return "a trace that needs no repair is repaired"
    return None


REFUSED = "refused"


def replayed_problem(source: Source, data: TraceData, target: Target) -> tuple[str, str] | None:
    """What is wrong when a trace is run on a program, as a kind and a detail; of kind REFUSED where it is not legal."""
    try:
        oracle = oracle_of(source)
    except MetaschedError as error:
        return REFUSED, str(error)
    wrong = oracle.wrong_meaning()
    if wrong is not None:
        return "meaning", wrong
    schedule = Watched(oracle.program, handler=Replay(Trace(data).decisions, Policy.STRICT, DrawFromPrior(0)))
    try:
        for instruction in data.instructions:
            schedule.execute(instruction)
    except ScheduleError as error:
        return REFUSED, str(error)
    except Exception as error:  # noqa: BLE001
        return _kind_of(error), str(error)
    return problem(oracle, schedule, target, Checks())


# --- making cases


@dataclass(frozen=True)
class Case:
    """Number `number` of the stream of `seed`: the same numbers give the same case, alone or among others."""

    seed: int
    number: int

    @property
    def source(self) -> Source:
        """Computing a program's right results takes longer than trying a schedule, so cases come in groups."""
        return _source(self.seed, self.number // PER_PROGRAM)

    def run(self) -> tuple[int, Failure | None]:
        """How many schedules were tried, and the first that is wrong."""
        source = self.source
        try:
            oracle = oracle_of(source)
        except CheckError:
            return 0, None  # Nothing of the result is finite on random data.
        wrong = oracle.wrong_meaning() if self.number % PER_PROGRAM == 0 else None
        if wrong is not None:
            return 0, Failure("meaning", wrong, source, Schedule(oracle.program).trace.data)
        rng = np.random.default_rng([self.seed, self.number, 2])
        target = TARGETS[int(rng.integers(len(TARGETS)))]
        tried = 0
        watched = Watched(oracle.program, target, seed=int(rng.integers(1 << 16)))
        current: Schedule = watched
        try:
            for current in schedules(oracle.program, watched, rng):
                tried += 1
                checks = Checks(text=rng.random() < PRINTED, interpreted=rng.random() < INTERPRETED)
                wrong = problem(oracle, current, target, checks)
                if wrong is not None:
                    return tried, Failure(*wrong, source, current.trace.data)
        except ScheduleError as error:
            return tried, Failure("ScheduleError", str(error), source, current.trace.data)
        except Exception as error:  # noqa: BLE001
            return tried, Failure(_kind_of(error), str(error), source, _with_last(watched))
        return tried, None


PER_PROGRAM = 8
SOURCES = (
    made,
    made,
    made,
    made,
    from_library,
    from_library,
    classic,
    wide,
    wide,
    pipeline,
    pipeline,
    places,
    windows,
    windows,
    invariants,
)
RULES = 0.25
# The sizes from which rules think that threads, lanes of sums and stores past the caches pay.
AS_IF_LARGE = {"small": 64, "tiny": 8, "shortest": 2, "cache": 64}


@lru_cache(maxsize=2)
def _source(seed: int, group: int) -> Source:
    rng = np.random.default_rng([seed, group, 1])
    while True:
        source = pick(rng, SOURCES)(rng)
        if small(source):
            return source


def _with_last(schedule: Watched) -> TraceData:
    """The trace, with the step that ended in an exception."""
    data = schedule.trace.data
    last = schedule.attempted
    if last is None:
        return data
    if data.instructions and (data.instructions[-1].op, data.instructions[-1].args) == (last.op, last.args):
        return data
    return replace(data, instructions=(*data.instructions, last))


def schedules(program: Program, schedule: Watched, rng: np.random.Generator) -> Iterator[Schedule]:
    """Schedules of a program in one of the ways that schedules come about."""
    if rng.random() < RULES:
        yield from _by_rules(program, schedule.target, rng)
        return
    if rng.random() < 0.2:
        FromRules(_some_rules(rng)).run(schedule)
    for _ in range(int(rng.integers(2, 16))):
        with suppress(ScheduleError):
            attempt(schedule, rng)
    yield schedule
    if schedule.sites and rng.random() < 0.4:
        with suppress(ScheduleError):
            mutant = schedule.trace.mutate(rng, program)
            yield mutant.apply_to(program)


def _some_rules(rng: np.random.Generator) -> tuple[Rule, ...]:
    """Some of the preset's rules, at times as they are for programs as small as these."""
    rules = [r for r in resolve(None) if rng.random() < 0.85]
    sizes: dict[str, int] = AS_IF_LARGE if rng.random() < 0.6 else {}
    return tuple(r(**{k: v for k, v in sizes.items() if k in r.parameters}) for r in rules)


def _by_rules(program: Program, target: Target, rng: np.random.Generator) -> Iterator[Schedule]:
    """Rows of a sketch, those that its mask lets through, and they must all replay."""
    schedule = Watched(program, target, handler=Symbolic(DrawFromPrior(int(rng.integers(1 << 16)))))
    FromRules(_some_rules(rng)).run(schedule)
    sketch = Sketch.of(schedule)
    rows = sketch.sample(rng, 3)
    rows = np.concatenate([rows, sketch.repair(sketch.mutate(rng, rows))])
    for row, legal in zip(rows, sketch.mask(rows), strict=True):
        if legal:
            yield sketch.trace_of(row).apply_to(program)
        if not sketch.columns:
            return
