"""Validation of a trace: finds all mistakes in one pass, each with its line."""

from __future__ import annotations

from dataclasses import field, replace
from textwrap import indent

from metasched.errors import MetaschedError, ScheduleError
from metasched.ir.integers.affine import free_vars
from metasched.ir.nodes import Expr, Var
from metasched.ir.program import Program, require_program
from metasched.ir.source_printer import print_params
from metasched.lang import print_instruction
from metasched.lang.instructions import Decision, Instruction, Ref, TraceData
from metasched.schedule.arguments import bind
from metasched.schedule.handlers import DrawFromPrior, Free, Site, out_of_support
from metasched.schedule.interpreter import Interpreter
from metasched.schedule.kinds import ArgumentKind
from metasched.schedule.primitive import Declaration
from metasched.schedule.resolve import Env, resolved_arguments
from metasched.schedule.versions import current_form
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted, with_hint


@dataclass(frozen=True)
class TraceProblem:
    """A mistake in a line of a trace: the line's number in the text (the first is 1), its text, the reason."""

    line: int
    text: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return with_hint(f"line {self.line}: {self.text}\n    {self.reason}", self.hint)


class InvalidTrace(MetaschedError):
    """A trace with mistakes: `problems` has them all."""

    def __init__(self, trace: TraceData, problems: tuple[TraceProblem, ...]) -> None:
        self.problems = problems
        count = counted(len(problems), "mistake")
        lines = "\n".join(indent(str(problem), "  ") for problem in problems)
        super().__init__(f"the trace of {trace.program}{print_params(trace.params)} has {count}\n{lines}")


def problems_of(trace: TraceData, program: Program | None) -> tuple[TraceProblem, ...]:
    """Every mistake of a trace, in the order of its lines.

    Without a program: primitives, versions, arguments, handles and addresses. With one, the trace is run too: every
    decision out of support and every illegal step is reported. Steps that use results of a wrong line are skipped; the
    others are tried on the program without that line, and their messages note this.

    Raises MetaschedError for what is no program.
    """
    found = _Static(trace).problems()
    if program is not None:
        require_program(program)
        found += _Dynamic(trace, program, {problem.line for problem in found}).problems()
    return tuple(sorted(found, key=lambda problem: problem.line))


def _problem(line: int, instruction: Instruction, error: ScheduleError) -> TraceProblem:
    return TraceProblem(line, print_instruction(instruction), error.reason, error.hint)


@dataclass
class _Static:
    trace: TraceData
    env: Env = field(default_factory=Env)
    addresses: dict[str, int] = field(default_factory=dict)

    def problems(self) -> list[TraceProblem]:
        found: list[TraceProblem] = []
        for number, instruction in enumerate(self.trace.instructions, start=2):
            try:
                self._check(number, instruction)
            except ScheduleError as error:
                found.append(_problem(number, instruction, error))
        return found

    def _check(self, number: int, instruction: Instruction) -> None:
        try:
            declaration, current = current_form(instruction)
        except ScheduleError:
            # An unknown primitive may return anything, so lines that use its results are not reported.
            for table in (self.env.blocks, self.env.loops):
                table.update({label: label for label in instruction.outputs})
            self.env.ints.update({label: Var(label) for label in instruction.outputs})
            raise
        try:
            self._check_known(number, declaration, current)
        finally:
            self._define(declaration, current.outputs)

    def _check_known(self, number: int, declaration: Declaration, current: Instruction) -> None:
        if declaration.random != current.random:
            sign, other = ("~", "=") if declaration.random else ("=", "~")
            what = "is a random variable" if declaration.random else "draws nothing"
            raise ScheduleError(declaration.name, f"it {what}, and the line has `{other}`", hint=f"write `{sign}`")
        resolved_arguments(declaration, bind(declaration, current.args, dict(current.kwargs)), self.env)
        self._check_outputs(declaration, current.outputs)
        if current.address is None:
            return
        first = self.addresses.setdefault(current.address, number)
        if first != number:
            raise ScheduleError(
                declaration.name,
                f'the address "{current.address}" is that of line {first} too',
                hint="each random variable has an address of its own",
            )

    def _check_outputs(self, declaration: Declaration, outputs: tuple[str, ...]) -> None:
        if declaration.random or declaration.many_results:
            return  # how many depends on the arguments and the program
        expected = 0 if declaration.result is ArgumentKind.NONE else 1
        if len(outputs) != expected:
            raise ScheduleError(
                declaration.name,
                f"it gives {('nothing', 'one result')[expected]} and the trace names {len(outputs)}",
                hint=f"write `{'' if expected == 0 else 'x = '}{declaration.name}(...)`",
            )

    def _define(self, declaration: Declaration, outputs: tuple[str, ...]) -> None:
        if declaration.random:
            self.env.ints.update({label: Var(label) for label in outputs})
            self.env.loops.update({label: label for label in outputs})
            return
        table = self.env.blocks if declaration.result is ArgumentKind.BLOCK else self.env.loops
        table.update({label: label for label in outputs})


@dataclass
class _RepairDecisions:
    """A handler that takes the decisions of one line at a time; one out of support is repaired, and reported."""

    decision: Decision | None = None
    errors: list[ScheduleError] = field(default_factory=list)

    def take_reports(self) -> list[ScheduleError]:
        """The reports since the last call."""
        out, self.errors = self.errors, []
        return out

    def decide(self, site: Site) -> Decision | Free:
        if self.decision is None:
            return DrawFromPrior(0).decide(site)
        if site.dist.contains(self.decision):
            return self.decision
        self.errors.append(out_of_support(site, self.decision, "change it, or replay with Policy.REPAIR"))
        return site.dist.repair(self.decision)


@dataclass
class _Dynamic:
    """`wrong` are lines with mistakes, which are not run; `missing` are labels that no line has defined."""

    trace: TraceData
    program: Program
    wrong: set[int]
    missing: set[str] = field(default_factory=set)
    left_out: int | None = None  # the first line that is not run

    def problems(self) -> list[TraceProblem]:
        found: list[TraceProblem] = []
        head = f"trace {self.trace.format} of {self.trace.program}{print_params(self.trace.params)}:"
        if (self.trace.program, self.trace.params) != (self.program.name, self.program.params):
            hint = "replay it with Policy.REPAIR to carry it over to another shape"
            found.append(TraceProblem(1, head, f"trace: the program is {self.program.key}", hint))
        handler = _RepairDecisions()
        schedule = Interpreter(self.program, handler=handler)
        for number, instruction in enumerate(self.trace.instructions, start=2):
            if number in self.wrong or not self.missing.isdisjoint(labels_in((*instruction.args, *instruction.kwargs))):
                self._leave_out(number, instruction)
                continue
            handler.decision = instruction.decision
            try:
                schedule.execute(instruction)
            except ScheduleError as error:
                found.append(self._note_left_out(_problem(number, instruction, error)))
                self._leave_out(number, instruction)
                handler.take_reports()
                continue
            self.missing.difference_update(instruction.outputs)
            found.extend(_problem(number, instruction, error) for error in handler.take_reports())
        return found

    def _leave_out(self, number: int, instruction: Instruction) -> None:
        self.missing.update(instruction.outputs)
        self.left_out = self.left_out or number

    def _note_left_out(self, problem: TraceProblem) -> TraceProblem:
        if self.left_out is None:
            return problem
        note = f"this is without line {self.left_out}, which is wrong"
        return replace(problem, hint=f"{problem.hint}; {note}" if problem.hint else note)


def labels_in(value: object) -> set[str]:
    """The labels that an argument of an instruction uses."""
    if isinstance(value, Ref):
        return {value.name}
    if isinstance(value, Expr):
        return set(free_vars(value))
    if isinstance(value, tuple):
        return set().union(*(labels_in(v) for v in value))
    return set()
