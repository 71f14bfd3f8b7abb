"""How a schedule's results are computed, where it was allowed that they be computed otherwise than the program says.

A step that makes results differ by more than the order of sums is in the trace, so what it lets them differ by is known
from there. Steps that compute something else, such as `winograd`, are replayed: the program as it is after the last of
them is the one whose roundings are counted, and each of them says how much larger it makes them. Results are compared
with those of the program as it was written: a transform that is wrong is no rounding.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from metasched.ir.nodes import Func
from metasched.ir.program import Program
from metasched.lang.instructions import Ref
from metasched.permissions import Permission
from metasched.schedule.primitive import Declaration, registry
from metasched.schedule.trace import Trace
from metasched.schedule.trace_permissions import permissions_of_text
from metasched.schedule.values import BlockRV
from metasched.schedule.versions import normal_form
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class AllowedArithmetic:
    """`steps` is the text of a trace, up to the last step that computes something else; empty where none does.

    `fastmath`: quotients may have more roundings.
    """

    steps: str = ""
    fastmath: bool = False

    def computation_of(self, program: Program) -> Computation:
        """The computation of a program's results. Raises ScheduleError where the steps are not legal on it."""
        if not self.steps:
            return Computation(program.func, self.fastmath)
        trace = Trace.parse(self.steps)
        amplified = [_amplification(trace, n, program) for n, _ in _otherwise(trace)]
        any_signs, independent = (sum(numbers) for numbers in zip(*amplified, strict=True))
        return Computation(trace.apply_to(program).func, self.fastmath, any_signs, independent)


@dataclass(frozen=True)
class Computation:
    """What computes a program's results: `func`, which may be another than the program, with or without `fastmath`.

    `amplification` is how much larger its rounding errors are than its sums' terms tell, 0 where they are not; and
    `amplification_of_drawn` the same for data whose signs are independent.
    """

    func: Func
    fastmath: bool = False
    amplification: float = 0.0
    amplification_of_drawn: float = 0.0


def _otherwise(trace: Trace) -> list[tuple[int, Declaration]]:
    """The steps that compute something else: their numbers, and their primitives."""
    known = registry()
    return [
        (n, known[i.op])
        for n, i in enumerate(trace.instructions)
        if i.op in known and known[i.op].amplification is not None
    ]


def _amplification(trace: Trace, number: int, program: Program) -> tuple[float, float]:
    """How much larger a step makes rounding errors. Those of several add up, to first order."""
    schedule = _first_steps(trace, number).apply_to(program)
    step = trace.instructions[number]
    declared = registry()[step.op].amplification
    assert declared is not None
    label, *others = normal_form(step).args
    assert isinstance(label, Ref)
    return declared(schedule.func, schedule.name_of(BlockRV(label.name)), *others)


def _first_steps(trace: Trace, count: int) -> Trace:
    return replace(trace, data=replace(trace.data, instructions=trace.instructions[:count]))


AS_WRITTEN = AllowedArithmetic()


@lru_cache(maxsize=1024)
def arithmetic_of(trace: str) -> AllowedArithmetic:
    """How the results of a trace's schedule are computed; of a text that is no trace, as written."""
    if permissions_of_text(trace) <= {Permission.FLUSH_DENORMALS}:
        return AS_WRITTEN
    parsed = Trace.parse(trace)
    otherwise = _otherwise(parsed)
    steps = str(_first_steps(parsed, otherwise[-1][0] + 1)) if otherwise else ""
    return AllowedArithmetic(steps, Permission.FASTMATH in parsed.permissions)
