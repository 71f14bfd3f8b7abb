"""A schedule and its trace: a straight-line sequence of instructions with the decisions of its random variables."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field, replace

import numpy as np

from metasched.errors import MetaschedError, ScheduleError
from metasched.ir.highlight import html_text, show
from metasched.ir.nodes import Expr, Var
from metasched.ir.notebook import table
from metasched.ir.program import Program
from metasched.ir.source_printer import print_params
from metasched.lang import parse_trace as parse_trace_data
from metasched.lang import print_instruction, print_trace
from metasched.lang.instructions import Decision, Instruction, Ref, TraceData, Value
from metasched.lang.trace_json import trace_from_json, trace_to_json
from metasched.permissions import Permission
from metasched.schedule.handlers import DrawFromPrior, Policy, Replay, checked_decision
from metasched.schedule.interpreter import Interpreter
from metasched.schedule.primitive import registry
from metasched.schedule.trace_check import InvalidTrace, TraceProblem, problems_of
from metasched.schedule.trace_diff import TraceDiff, diff_traces
from metasched.schedule.trace_permissions import permissions_of
from metasched.schedule.trace_python import trace_as_python
from metasched.schedule.trace_python_reader import trace_from_python
from metasched.schedule.versions import normal_form
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an, counted, did_you_mean, listing
from metasched.target import Target

_CARRY = "replay with Policy.REPAIR (--repair) to carry it over to another shape"


class Schedule(Interpreter):
    """A program under transformation.

    Every primitive and sampler of `metasched.schedule.primitives` is a method. Samplers ask `handler`, by default
    a draw from the prior with `seed`. Modules may read the `target`, by default this machine.

        sch = Schedule(program, seed=0)
        i, j, k = sch.get_loops(sch.get_block("dense"))
        i0, i1 = sch.split(i, sch.sample_tile(i, parts=2))

    Methods raise ScheduleError when a step would not be legal, and then leave the schedule unchanged.
    """

    @property
    def trace(self) -> Trace:
        """The instructions and decisions that made this schedule."""
        return Trace(TraceData(self.program.name, self.program.params, self.instructions), self.program)


@dataclass(frozen=True)
class Trace:
    """Instructions and decisions. Prints as text, parses back to an equal trace, and replays exactly.

        >>> sch = ms.Schedule(prog)
        >>> sch.compute_inline(sch.get_block("biased"))
        >>> print(sch.trace)
        trace 1 of bias_gelu[M=4, N=8, T=f32, ACC=f32]:
            biased = get_block("biased")
            compute_inline(biased)
        >>> ms.Trace.parse(str(sch.trace)).apply_to(prog).show()
        func bias_gelu(X: f32[4, 8], const bias: f32[8]) -> Y: f32[4, 8]:
            ...

    `program` is the program that a schedule's trace was made for; a parsed trace has none. Equality ignores it. The
    default address of a random variable comes from what it samples; that of a choice is its name.
    """

    data: TraceData
    program: Program | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if any(i.random and i.address is None for i in self.data.instructions):
            object.__setattr__(self, "data", _add_addresses(self.data))

    @classmethod
    def parse(cls, text: str) -> Trace:
        """The trace that a text says. Raises LanguageError."""
        return cls(parse_trace_data(text))

    @classmethod
    def from_json(cls, text: str, filename: str = "<json>") -> Trace:
        """A trace from what `as_json` wrote. Raises LanguageError, naming the file and the instruction."""
        return cls(trace_from_json(text, filename))

    @classmethod
    def from_python(cls, text: str) -> Trace:
        """A trace from what `as_python` wrote, which is read as data and never run. Raises LanguageError."""
        return cls(trace_from_python(text))

    def __str__(self) -> str:
        return print_trace(self.data)

    def as_json(self, *, indent: int | None = 2) -> str:
        """The trace as a JSON object, of the form that `metasched.lang.trace_json` has: an instruction a line, or with
        `indent` None all on one.
        """
        return trace_to_json(self.data, indent=indent)

    def as_python(self, program: Program | None = None) -> str:
        """The trace as Python: a module with `def schedule(sch)`, which on `ms.Schedule(program)` gives this exact
        trace.

        If the program is known (a schedule's own trace knows it), labels and addresses are written only where they
        differ from the defaults. Arguments equal to their defaults are omitted, so a handwritten trace may come back in
        the form that `canonical` gives it. Raises ScheduleError for an instruction that does not apply.
        """
        return trace_as_python(self.data, program if program is not None else self.program)

    def show(self) -> None:
        """Print it; a terminal gets colour, unless NO_COLOR is set."""
        show(str(self).rstrip())

    def __repr__(self) -> str:
        return f"<trace of {self._key}: {self._counts}>"

    def _repr_html_(self) -> str:
        return table(f"trace of {self._key}: {self._counts}", [], html_text(str(self)))

    @property
    def _key(self) -> str:
        return self.data.program + print_params(self.data.params)

    @property
    def _counts(self) -> str:
        left = f", {len(self.holes)} left open" if self.holes else ""
        return f"{counted(len(self), 'instruction')}, {counted(len(self.decisions), 'decision')}{left}"

    def __len__(self) -> int:
        return len(self.data.instructions)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return self.data.instructions

    @property
    def decisions(self) -> dict[str, Decision]:
        """The decision of each random variable by address, without open ones."""
        return {i.address: i.decision for i in self.instructions if i.address is not None and i.decision is not None}

    @property
    def permissions(self) -> frozenset[Permission]:
        """What its steps let results differ by, besides the order of sums."""
        return permissions_of(self.instructions)

    @property
    def holes(self) -> tuple[str, ...]:
        """Addresses of the random variables that are left open."""
        return tuple(i.address for i in self.instructions if i.address is not None and i.decision is None)

    def with_decisions(self, decisions: Mapping[str, object]) -> Trace:
        """A trace of these instructions with other decisions, by address, as in Python (`[None, 8]`); None leaves one
        open.

        Raises ScheduleError for an address that no line has, and for what is no decision.
        """
        known = [i.address for i in self.instructions if i.address is not None]
        unknown = sorted(decisions.keys() - set(known))
        if unknown:
            hint = did_you_mean(unknown[0], known) or f"it has {listing(known)}"
            raise ScheduleError("trace", f'it has no random variable at "{unknown[0]}"', hint=hint)
        changed = tuple(
            replace(i, decision=_read_decision(i, i.address, decisions[i.address]))
            if i.address is not None and i.address in decisions
            else i
            for i in self.instructions
        )
        return replace(self, data=replace(self.data, instructions=changed))

    def apply_to(
        self,
        program: Program,
        policy: Policy = Policy.STRICT,
        *,
        seed: int = 0,
        target: Target | None = None,
    ) -> Schedule:
        """Run the instructions on a program.

        Under STRICT the program must be the one the trace was made for, and every decision given and in its support.
        Under REPAIR decisions are repaired, missing ones are drawn with `seed`, and `Schedule.repairs` lists both.
        Raises ScheduleError, naming the line.

        `target` is the schedule's target, by default this machine. No instruction uses it, so the result is the same
        for any; `compile` checks that the target has the instruction sets that the schedule uses.
        """
        replay = Replay(self.decisions, policy, DrawFromPrior(seed))
        schedule = Schedule(program, target, handler=replay)
        if policy is Policy.STRICT:
            self.require_program(program)
        self.run_on(schedule)
        schedule.repairs = replay.repairs
        return schedule

    def run_on(self, schedule: Interpreter) -> None:
        """Run the instructions on a schedule, whose handler takes the decisions. Raises ScheduleError, naming the
        line."""
        for number, instruction in enumerate(self.instructions, start=2):
            try:
                schedule.execute(instruction)
            except ScheduleError as error:
                error.line, error.step = number, print_instruction(instruction)
                raise

    def require_program(self, program: Program) -> None:
        """Raise ScheduleError unless the trace was made for exactly this program."""
        if self.data.program != program.name or self.data.params != program.params:
            params = ", ".join(f"{k}={v}" for k, v in self.data.params)
            raise ScheduleError(
                "trace",
                f"it was made for {self.data.program}[{params}], and the program is {program.key}",
                hint=_CARRY,
            )
        if self.program is not None and self.program.structural_hash() != program.structural_hash():
            message = f"it was made for another program of the name {program.key}: what they compute differs"
            raise ScheduleError("trace", message, hint=_CARRY)

    def problems(self, program: Program | None = None) -> tuple[TraceProblem, ...]:
        """The mistakes in the trace, each with its line, text and reason; empty if there are none.

        Without a program only the text is checked; with one, also which decisions are out of support and which steps
        are not legal. An open decision is no mistake.
        """
        return problems_of(self.data, program)

    def validate(self, program: Program | None = None) -> None:
        """Raise InvalidTrace, with all `problems`, unless there are none."""
        found = self.problems(program)
        if found:
            raise InvalidTrace(self.data, found)

    def diff(self, other: Trace) -> TraceDiff:
        """The differences from another trace: lines, arguments and decisions, but not the names of handles.

        Raises MetaschedError for what is no trace.
        """
        require_trace("other", other)
        return diff_traces(self.data, other.data)

    def mutate(
        self, rng: np.random.Generator, program: Program | None = None, *, among: Container[str] | None = None
    ) -> Trace:
        """A trace with one numeric variable moved to a neighbouring decision, and later ones repaired as needed.

        `program` is needed for a parsed trace; `among` are the addresses that may move first, by default all.
        Structural variables stay: they belong to `Space.mutate`. Raises ScheduleError when nothing can move.
        """
        program = program if program is not None else self.program
        if program is None:
            raise ScheduleError("mutate", "a parsed trace does not know its program", hint="mutate(rng, program)")
        schedule = self.apply_to(program, Policy.REPAIR)
        movable = []
        for record in schedule.sites:
            if record.site.dist.structural or not (among is None or record.site.address in among):
                continue
            near = record.site.dist.neighbours(record.decision)  # type: ignore[arg-type]
            if near:
                movable.append((record.site.address, near))
        if not movable:
            raise ScheduleError("mutate", "no numeric variable of the trace can take another value")
        address, near = movable[int(rng.integers(len(movable)))]
        changed = self.with_decisions({address: near[int(rng.integers(len(near)))]})
        return changed.apply_to(program, Policy.REPAIR).trace

    def simplified(self) -> Trace:
        """The trace without queries whose results are unused. Choices to branch on stay."""
        used: set[str] = set()
        kept: list[Instruction] = []
        for instruction in reversed(self.instructions):
            declaration = registry().get(instruction.op)
            needless = declaration is not None and declaration.pure and not declaration.branches
            if needless and used.isdisjoint(instruction.outputs):
                continue
            used -= set(instruction.outputs)
            for value in (*instruction.args, *(v for _, v in instruction.kwargs)):
                used |= _labels(value)
            kept.append(instruction)
        return replace(self, data=replace(self.data, instructions=tuple(reversed(kept))))

    def canonical(self) -> Trace:
        """A trace with handles renamed in order of appearance, instructions in the newest version of their primitives,
        and arguments as a schedule writes them: equivalent traces become equal.

        Decisions are unchanged: a location is the name of a loop in the program, not a handle.
        """
        names: dict[str, str] = {}
        out = []
        for number, written in enumerate(self.instructions):
            instruction = normal_form(written)
            args = tuple(relabel_value(v, names) for v in instruction.args)
            kwargs = tuple((k, relabel_value(v, names)) for k, v in instruction.kwargs)
            outputs = tuple(f"h{number}_{n}" for n in range(len(instruction.outputs)))
            names.update(zip(instruction.outputs, outputs, strict=True))
            out.append(replace(instruction, args=args, kwargs=kwargs, outputs=outputs))
        return replace(self, data=replace(self.data, instructions=tuple(out)))


def _add_addresses(data: TraceData) -> TraceData:
    """Instructions with an address for every random variable, as decisions are matched by address."""
    taken = {i.address for i in data.instructions if i.address is not None}
    out = []
    for instruction in data.instructions:
        if instruction.random and instruction.address is None:
            base = address = _default_name(instruction)
            number = 1
            while address in taken:
                number += 1
                address = f"{base}#{number}"
            taken.add(address)
            instruction = replace(instruction, address=address)
        out.append(instruction)
    return replace(data, instructions=tuple(out))


def _default_name(instruction: Instruction) -> str:
    declaration = registry().get(instruction.op)
    if declaration is not None and declaration.named and instruction.outputs:
        return instruction.outputs[0]
    sampled = (arg.name for arg in instruction.args if isinstance(arg, Ref))
    return next(sampled, instruction.op.removeprefix("sample_"))


def _read_decision(instruction: Instruction, address: str, value: object) -> Decision | None:
    """Convert a line's decision from its Python form to the trace's; None leaves it open."""
    if value is None:
        return None
    declaration = registry().get(instruction.op)
    places = declaration is not None and declaration.places
    return checked_decision(value, "trace", address, places=places)


def require_trace(name: str, trace: object) -> None:
    """Raises MetaschedError, which calls it `name`, for what is no trace, such as the text of one."""
    if not isinstance(trace, Trace):
        given = a_or_an(type(trace).__name__)
        raise MetaschedError(
            f"`{name}` is {given}, not a Trace", hint="make one by parse_trace(text) or Schedule.trace"
        )


def _labels(value: Value) -> set[str]:
    if isinstance(value, Ref):
        return {value.name}
    if isinstance(value, Expr):
        return {n.name for n in value.walk() if isinstance(n, Var)}
    if isinstance(value, tuple):
        return set().union(*(_labels(v) for v in value))
    return set()


def relabel_value(value: Value, names: Mapping[str, str]) -> Value:
    """An argument of an instruction with its handles relabelled; handles not in `names` keep their labels."""
    if isinstance(value, Ref):
        return Ref(names.get(value.name, value.name))
    if isinstance(value, Var):
        return Var(names.get(value.name, value.name), value.type)
    if isinstance(value, Expr):
        return value.map(lambda child: relabel_value(child, names))
    if isinstance(value, tuple):
        return tuple(relabel_value(v, names) for v in value)
    return value
