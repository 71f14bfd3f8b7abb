"""The best guess for a program: a schedule chosen without measuring.

For what an operator of the library computes, experts wrote traces, each for a kind of shape and of CPU. Those that can
be replayed on this program are compared by the roofline, which takes about 0.1 s for matmul's seven float traces, and
0.2 s more when a process first looks at a program that was not loaded from the library. Any other program gets the
candidate that the untrained cost model likes best in the space of the rules, which takes 0.2 to 3 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, prod

from metasched.backend.emit.tensor import require_features
from metasched.backend.lower import lower
from metasched.backend.permission import tiles_are_given
from metasched.backend.target import Target
from metasched.cost.baseline import analytic_score
from metasched.cost.features import features_of
from metasched.errors import BuildError, NoRecord, ScheduleError
from metasched.ir.affine import as_int
from metasched.ir.nodes import Buffer, Func
from metasched.ir.notes import Note
from metasched.ir.program import Program
from metasched.operators.matching import Fit, fits
from metasched.schedule.handlers import Policy, Repairs
from metasched.schedule.schedule import Schedule
from metasched.schedule.summation import blocks_to_cut
from metasched.schedule.tensor import Intrinsic, intrinsics, tensorized, tensorized_by
from metasched.schedule.trace import Trace
from metasched.search.arms import MAX_ARMS, SpaceArms
from metasched.search.phases import Phases
from metasched.search.strategies import StrategyName, make_strategy
from metasched.space.conditions import space_of
from metasched.space.registry import RuleSpec

# What an expert may allow and nobody asked for here: results would not be those that IEEE arithmetic has.
_UNASKED = frozenset({Note.FASTMATH, Note.FLUSH_DENORMALS})
# Estimates so near to the best are not told apart: there, the trace that was written for the nearer shape is taken.
_TIE = 1.02
# Threads have to gain this much by the estimate: whether others are idle, it does not know.
_WORTH_THREADS = 0.8
# Cycles beside which it makes no difference between traces what starting threads takes.
_LARGE = 1e5


@dataclass(frozen=True)
class Guess:
    """A schedule that was chosen without measuring, and why: the `report` of a kernel whose origin is a guess.

    `expert` is the trace of the operator library that was replayed, `OPERATOR.VARIANT`, or None where the cost model
    chose in the space of the rules. `repairs` is what the replay changed. `passed_over` are expert traces for what the
    program computes that were not taken, each with the reason.
    """

    trace: Trace
    expert: str | None = None
    repairs: Repairs = Repairs()
    passed_over: tuple[tuple[str, str], ...] = ()

    def counts(self) -> dict[str, int]:
        """How many expert traces were passed over for each reason."""
        return dict(Counter(reason for _, reason in self.passed_over))

    def __str__(self) -> str:
        chosen = "by the cost model" if self.expert is None else f"the expert trace {self.expert}"
        lines = [f"a guess: {chosen}"]
        if self.repairs:
            lines.append(str(self.repairs))
        lines += [f"not {name}: {reason}" for name, reason in self.passed_over]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Candidate:
    """An expert trace replayed on the program. `terms` is what an instruction of its intrinsic sums, `cycles` what the
    roofline expects, and `distance` how far the shape is from the one that it was written for.
    """

    name: str
    written: Trace
    schedule: Schedule
    terms: int
    cycles: float
    distance: float


def guess(program: Program, target: Target, rules: RuleSpec = None, seed: int = 0) -> Guess:
    """The best guess. Where rules are named, it is in their space; otherwise experts are asked first.

    Raises RuleError for a rule that is not there, NoRecord for an empty space.
    """
    reasons: dict[str, str] = {}
    if rules is None:
        found = _by_experts(program, target, reasons)
        if found is not None:
            return found
    return Guess(_by_cost_model(program, target, rules, seed), passed_over=_sorted(reasons))


def _sorted(reasons: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(reasons.items()))


def _by_cost_model(program: Program, target: Target, rules: RuleSpec, seed: int) -> Trace:
    arms = SpaceArms(space_of(program, rules, max_sketches=MAX_ARMS, seed=seed), target)
    strategy = make_strategy(StrategyName.EVOLUTIONARY, arms.arms, seed, Phases())
    found = strategy.propose(1)
    if not found:
        raise NoRecord(f"the space of {program.key} is empty")
    return Trace.parse(arms.trace(found[0]))


# --- by experts


def _by_experts(program: Program, target: Target, reasons: dict[str, str]) -> Guess | None:
    """The best expert trace that the machine can run; `reasons` is told why others are not taken."""
    candidates = _candidates(program, target, reasons)
    for candidate in _ranked(candidates):
        chosen = _with_threads_where_they_pay(program, candidate, target)
        obstacle = _obstacle(chosen.schedule.func, target)
        if obstacle is None:
            others = {c.name: _why_not(c, candidate) for c in candidates if c is not candidate}
            passed_over = _sorted({**others, **reasons})
            return Guess(chosen.schedule.trace, candidate.name, Repairs(chosen.schedule.repairs), passed_over)
        reasons[candidate.name] = obstacle
    return None


def _ranked(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Intrinsics first, those that do most; then by the estimate, and by nearness where that is much the same."""
    best: dict[int, float] = {}
    for c in candidates:
        best[c.terms] = min(c.cycles, best.get(c.terms, c.cycles))
    near = {c.name: c.cycles <= _TIE * best[c.terms] for c in candidates}
    return sorted(
        candidates, key=lambda c: (-c.terms, not near[c.name], c.distance if near[c.name] else 0.0, c.cycles, c.name)
    )


def _why_not(other: _Candidate, chosen: _Candidate) -> str:
    if other.terms < chosen.terms:
        return "its instructions do less"
    ratio = other.cycles / chosen.cycles
    return "it was written for another shape" if ratio <= _TIE else f"the estimate is {ratio:.1f} times as long"


def _candidates(program: Program, target: Target, reasons: dict[str, str]) -> list[_Candidate]:
    found = []
    for fit in fits(program):
        reason = _other_types(fit, program)
        if reason is None:
            try:
                found.append(_candidate(program, fit, _asked(fit.trace_for(program), program, target), target))
                continue
            except ScheduleError as error:
                reason = error.reason
        reasons[fit.expert.name] = reason
    return found


def _tensors(fit: Fit, program: Program) -> list[tuple[Buffer, Buffer]]:
    """The tensors that the trace was written for, each with the program's."""
    written, given = fit.written.func, program.func
    return [(b, given.buffer(fit.names.tensors.get(b.name, b.name))) for b in written.buffers()]


def _other_types(fit: Fit, program: Program) -> str | None:
    """Tiles are made for elements of a size; None where it is the program's."""
    for a, b in ((a.dtype, b.dtype) for a, b in _tensors(fit, program)):
        if a.bytes != b.bytes:
            return f"it was written for elements of {a}, not {b}"
    return None


def _distance(fit: Fit, program: Program) -> float:
    """Between the shapes of all tensors, in factors of e."""
    pairs = ((as_int(x), as_int(y)) for a, b in _tensors(fit, program) for x, y in zip(a.shape, b.shape, strict=True))
    return sum(abs(log(x / y)) for x, y in pairs if x and y)


def _asked(trace: Trace, program: Program, target: Target) -> Trace:
    """A trace without notes that allow what nobody asked for, and with those on streams only where they may pay."""
    dropped = _UNASKED if _exceeds_caches(program.func, target) else _UNASKED | {Note.NON_TEMPORAL}
    kept = tuple(i for i in trace.instructions if not (i.op == "annotate" and dropped & set(map(str, i.args))))
    return replace(trace, data=replace(trace.data, instructions=kept))


def _exceeds_caches(func: Func, target: Target) -> bool:
    """Whether the last cache cannot hold the arguments and the results."""
    sizes = (prod(as_int(extent) or 1 for extent in b.shape) * b.dtype.bytes for b in (*func.inputs, *func.outputs))
    return sum(sizes) > target.l3


def _candidate(program: Program, fit: Fit, trace: Trace, target: Target) -> _Candidate:
    schedule = _applied(trace, program)
    terms, cycles = _terms(schedule.func), _cycles(schedule.func, target)
    found = _Candidate(fit.expert.name, trace, schedule, terms, cycles, _distance(fit, program))
    return found if cycles > _LARGE else _with_threads_where_they_pay(program, found, target)


def _applied(trace: Trace, program: Program) -> Schedule:
    """A trace replayed on a program, with sums that are longer here than where it was written taken in blocks."""
    schedule = trace.apply_to(program, Policy.REPAIR)
    for name, length in blocks_to_cut(schedule.func).items():
        schedule.annotate(schedule.get_block(name), Note.BLOCKED_SUM.value, length)
    return schedule


def _cycles(func: Func, target: Target) -> float:
    return float(2.0 ** -analytic_score(features_of(func, target)[None, :])[0])


def _terms(func: Func) -> int:
    """How many products an instruction of the widest tensor intrinsic sums; 0 without intrinsics."""
    return max((prod(i.extent(it.name) for it in i.block.iters) for i in _intrinsics(func)), default=0)


def _intrinsics(func: Func) -> list[Intrinsic]:
    return [intrinsics()[name] for loop in tensorized(func).values() if (name := tensorized_by(loop)) is not None]


def _with_threads_where_they_pay(program: Program, candidate: _Candidate, target: Target) -> _Candidate:
    """The candidate, or the same without threads unless they gain enough."""
    instructions = tuple(i for i in candidate.written.instructions if i.op != "parallel")
    if len(instructions) == len(candidate.written.instructions):
        return candidate
    written = replace(candidate.written, data=replace(candidate.written.data, instructions=instructions))
    schedule = _applied(written, program)
    cycles = _cycles(schedule.func, target)
    if candidate.cycles < _WORTH_THREADS * cycles:
        return candidate
    return replace(candidate, written=written, schedule=schedule, cycles=cycles)


def _obstacle(func: Func, target: Target) -> str | None:
    """Why the target cannot run a scheduled program; None when it can."""
    try:
        require_features(lower(func, target), target)
    except BuildError as error:
        return error.reason
    if any(intrinsic.tiles for intrinsic in _intrinsics(func)) and not tiles_are_given():
        return "the system gives no tile registers"
    return None
