"""The expert traces that can be replayed on a program, and the best of them by the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, prod

from metasched.compiler.cpu.emit.tensor import require_features
from metasched.compiler.lower import lower
from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.expectation import Expectation, expectation_of
from metasched.errors import BuildError, ScheduleError
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Func
from metasched.ir.program import Program
from metasched.operators.matching import Fit, fits
from metasched.permissions import BY_DEFAULT, Allowed
from metasched.schedule.annotation import known_annotations
from metasched.schedule.annotations.blocked_sum import blocked_sum
from metasched.schedule.annotations.non_temporal import non_temporal
from metasched.schedule.handlers import Policy
from metasched.schedule.primitive import registry
from metasched.schedule.primitives.annotate import OP as ANNOTATE
from metasched.schedule.summation import blocks_to_cut
from metasched.schedule.tensor import Intrinsic, intrinsics, tensorized, tensorized_by
from metasched.schedule.trace import Schedule, Trace
from metasched.support.data_classes import dataclass
from metasched.target import Target

# Estimates so near to the best count as equal: the trace that was written for the nearest shape is taken then.
_TIE_RATIO = 1.02
# The estimated gain that threads need: the estimate does not know whether the other cores are idle.
_WORTH_THREADS = 0.8
# How many expert traces besides the guess a search measures first. One whose estimate is so many times the best's is
# not among them: estimates are that wrong now and then.
_MOST_MEASURED = 5
_HOPELESS_RATIO = 4.0
# With so many cycles, the cost of starting threads does not matter for choosing between traces.
_LARGE_CYCLES = 1e5


@dataclass(frozen=True)
class ExpertCandidate:
    """An expert trace replayed on the program.

    `expected` is the roofline's estimate, `distance` how far the shape is from the one it was written for.
    `carried_over` says to what: a batch, transposed operands.
    """

    name: str
    written: Trace
    schedule: Schedule
    expected: Expectation
    distance: float
    carried_over: str

    @property
    def cycles(self) -> float:
        return self.expected.cycles


@dataclass(frozen=True)
class ExpertChoice:
    """The best expert trace for a program on a target, if any applies, `why` it is, and why each other one is not.

    `others` are those that can be replayed as well, the most promising first.
    """

    taken: ExpertCandidate | None
    why: str
    passed_over: Mapping[str, str]
    others: tuple[ExpertCandidate, ...] = ()


def best_expert(
    program: Program, target: Target, core: Core = DEFAULT_CORE, allowed: Allowed = BY_DEFAULT
) -> ExpertChoice:
    """The best expert trace that the machine can run, by estimates with the constants of `core`.

    Steps of it that let results differ otherwise than is allowed are left out.
    """
    reasons: dict[str, str] = {}
    candidates = _candidates(program, target, core, allowed, reasons)
    ranked = _rank_candidates(candidates)
    for candidate in ranked:
        chosen = _with_threads_decided(program, candidate, target, core)
        obstacle = obstacle_to(chosen.schedule.func, target)
        if obstacle is None:
            others = {c.name: _why_not(c, candidate) for c in candidates if c is not candidate}
            left = tuple(c for c in ranked if c is not candidate and c.name not in reasons)
            return ExpertChoice(chosen, _choice_reason(candidate, left), {**others, **reasons}, left)
        reasons[candidate.name] = obstacle
    why = (
        "no expert trace for what it computes can be taken"
        if reasons
        else "no expert wrote a trace for what it computes"
    )
    return ExpertChoice(None, why, reasons)


def traces_worth_measuring(
    program: Program, target: Target, core: Core, candidates: Sequence[ExpertCandidate], best_cycles: float
) -> list[Trace]:
    """The traces of the most promising of some candidates that the machine can run, with threads where they pay."""
    found: list[Trace] = []
    for candidate in candidates:
        if len(found) < _MOST_MEASURED and candidate.cycles <= _HOPELESS_RATIO * best_cycles:
            chosen = _with_threads_decided(program, candidate, target, core)
            func = chosen.schedule.func
            # What has no intrinsics needs nothing that a machine may lack; lowering it here would take 0.03 s.
            if not _intrinsics(func) or obstacle_to(func, target) is None:
                found.append(chosen.schedule.trace)
    return found


def _choice_reason(chosen: ExpertCandidate, rivals: Sequence[ExpertCandidate]) -> str:
    if not rivals:
        return "no other expert trace can be replayed"
    near = sum(c.cycles <= _TIE_RATIO * chosen.cycles for c in rivals)
    if near:
        return f"of {near + 1} with about the shortest estimate, it was written for the nearest shape"
    return f"it has the shortest estimate of {len(rivals) + 1} expert traces"


def _rank_candidates(candidates: Sequence[ExpertCandidate]) -> list[ExpertCandidate]:
    """Order candidates by the estimate, and by distance among those that are nearly equal to the best."""
    best = min((c.cycles for c in candidates), default=0.0)
    near = {c.name: c.cycles <= _TIE_RATIO * best for c in candidates}
    return sorted(candidates, key=lambda c: (not near[c.name], c.distance if near[c.name] else 0.0, c.cycles, c.name))


def _why_not(other: ExpertCandidate, chosen: ExpertCandidate) -> str:
    ratio = other.cycles / chosen.cycles
    return "it was written for another shape" if ratio <= _TIE_RATIO else f"the estimate is {ratio:.1f} times as long"


def _candidates(
    program: Program, target: Target, core: Core, allowed: Allowed, reasons: dict[str, str]
) -> list[ExpertCandidate]:
    found = []
    for fit in fits(program):
        reason = _other_types(fit, program)
        if reason is None:
            try:
                trace = _without_disallowed_steps(fit.trace_for(program, target.threads), program, target, allowed)
                found.append(_candidate(program, fit, trace, target, core))
                continue
            except ScheduleError as error:
                reason = error.reason
        reasons[fit.expert.name] = reason
    return found


def _other_types(fit: Fit, program: Program) -> str | None:
    """Why a trace for other element types does not fit (tiles depend on their size); None if they are the program's."""
    for a, b in ((a.dtype, b.dtype) for a, b in fit.tensors(program)):
        if a.bytes != b.bytes:
            return f"it was written for elements of {a}, not {b}"
    return None


def _distance(fit: Fit, program: Program) -> float:
    """The distance between the shapes of all tensors, in factors of e."""
    pairs = ((as_int(x), as_int(y)) for a, b in fit.tensors(program) for x, y in zip(a.shape, b.shape, strict=True))
    return sum(abs(log(x / y)) for x, y in pairs if x and y)


def _without_disallowed_steps(trace: Trace, program: Program, target: Target, allowed: Allowed) -> Trace:
    """The trace without steps for results that are not allowed, and with streaming stores only where they may pay."""
    granted = (None, *allowed.in_program(program.func))
    dropped = {key for key, known in known_annotations().items() if known.permission not in granted}
    if not _exceeds_caches(program.func, target):
        dropped.add(non_temporal.name)
    kept = tuple(i for i in trace.instructions if not (i.op == ANNOTATE and dropped & set(map(str, i.args))))
    return replace(trace, data=replace(trace.data, instructions=kept))


def _exceeds_caches(func: Func, target: Target) -> bool:
    """Whether arguments and results together are larger than the last-level cache."""
    sizes = (prod(as_int(extent) or 1 for extent in b.shape) * b.dtype.bytes for b in (*func.inputs, *func.outputs))
    return sum(sizes) > target.l3


def _candidate(program: Program, fit: Fit, trace: Trace, target: Target, core: Core) -> ExpertCandidate:
    schedule = _replay_trace(trace, program)
    estimate = expectation_of(schedule.func, target, core)
    carried_over = "" if fit.batch is None else str(fit.batch)
    found = ExpertCandidate(fit.expert.name, trace, schedule, estimate, _distance(fit, program), carried_over)
    return found if found.cycles > _LARGE_CYCLES else _with_threads_where_they_pay(program, found, target, core)


def _replay_trace(trace: Trace, program: Program) -> Schedule:
    """A trace replayed on a program; sums that are longer than in the trace's own program are computed in blocks."""
    schedule = trace.apply_to(program, Policy.REPAIR)
    for name, length in blocks_to_cut(schedule.func).items():
        schedule.annotate(schedule.get_block(name), blocked_sum.name, length)
    return schedule


def _intrinsics(func: Func) -> list[Intrinsic]:
    return [intrinsics()[name] for loop in tensorized(func).values() if (name := tensorized_by(loop)) is not None]


def _with_threads_decided(program: Program, candidate: ExpertCandidate, target: Target, core: Core) -> ExpertCandidate:
    """A candidate with threads where they pay. Of small ones that was found out with their estimates."""
    if candidate.cycles <= _LARGE_CYCLES:
        return candidate
    return _with_threads_where_they_pay(program, candidate, target, core)


def _with_threads_where_they_pay(
    program: Program, candidate: ExpertCandidate, target: Target, core: Core
) -> ExpertCandidate:
    """The candidate, or the same without threads unless they gain enough."""
    instructions = tuple(i for i in candidate.written.instructions if not registry()[i.op].threads)
    if len(instructions) == len(candidate.written.instructions):
        return candidate
    written = replace(candidate.written, data=replace(candidate.written.data, instructions=instructions))
    schedule = _replay_trace(written, program)
    alone = expectation_of(schedule.func, target, core)
    if candidate.cycles < _WORTH_THREADS * alone.cycles:
        return candidate
    return replace(candidate, written=written, schedule=schedule, expected=alone)


def obstacle_to(func: Func, target: Target) -> str | None:
    """Why the target cannot run a scheduled program, as far as is known here; None when it can."""
    try:
        require_features(lower(func, target), target)
    except BuildError as error:
        return error.reason
    return None
