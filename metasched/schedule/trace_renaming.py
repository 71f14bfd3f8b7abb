"""Translates a trace to another program of the same structure: the names of blocks, buffers and loops, and addresses.

The trace is run on both programs in lockstep. At each step, the n-th block, loop or buffer of one program corresponds
to the n-th of the other.
"""

from __future__ import annotations

from dataclasses import field, replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Block, For, Func
from metasched.ir.program import Program
from metasched.lang.instructions import Decision, Instruction, Ref, Value
from metasched.schedule.handlers import DrawFromPrior, Free, Policy, Replay, Site
from metasched.schedule.kinds import Named
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Schedule, Trace, relabel_value
from metasched.support.data_classes import dataclass

# What follows a name in an option of a choice, such as "B in tiles".
_NAME_END = " in "


def in_names_of(trace: Trace, written_for: Program, program: Program) -> Trace:
    """Translate a trace to another program that differs only in names.

    Raises ScheduleError where the two programs differ, or the trace does not apply to its own.
    """
    if program.structural_hash() != written_for.structural_hash():
        raise ScheduleError("trace", f"{written_for.key} and {program.key} differ in more than names")
    return _SideBySide(trace, written_for, program).trace()


@dataclass
class _FollowDecisions:
    """A handler that takes the decisions of the other schedule."""

    decision: Decision | None = None

    def decide(self, site: Site) -> Decision | Free:
        assert self.decision is not None
        return self.decision


@dataclass
class _Names:
    """Maps current and earlier names of the first program to those of the second."""

    blocks: dict[str, str] = field(default_factory=dict)
    loops: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)

    def add(self, one: Func, other: Func) -> None:
        self.blocks.update(zip((b.name for b in query.blocks(one)), (b.name for b in query.blocks(other)), strict=True))
        self.loops.update(zip((f.var for f in query.loops(one)), (f.var for f in query.loops(other)), strict=True))
        self.buffers.update(zip((b.name for b in one.buffers()), (b.name for b in other.buffers()), strict=True))

    def address(self, written: str, op: str) -> str:
        """Translate an address such as `tile(dense)/i#2`: its blocks and the sampled name; the name of a choice
        stays."""
        *scopes, last = written.split("/")
        name, number, count = last.partition("#")
        if not registry()[op].named:
            name = self.loops.get(name) or self.blocks.get(name) or name
        return "/".join([*map(self._scope, scopes), name + number + count])

    def option(self, written: str) -> str:
        """Translate an option of a choice: rules name some `NAME`, or `NAME in ...`, after a buffer or a block."""
        name, within, rest = written.partition(_NAME_END)
        return (self.buffers.get(name) or self.blocks.get(name) or name) + within + rest

    def decision(self, made: Instruction) -> Decision | None:
        """Translate an instruction's decision: a location is the name of a loop."""
        taken = made.decision
        if isinstance(taken, Ref):
            return Ref(self.loops.get(taken.name, taken.name))
        return self.option(taken) if isinstance(taken, str) else taken

    def _scope(self, written: str) -> str:
        """Translate a scope such as `tile(dense)#2`: a module, its block arguments, and a number unless it is the
        first."""
        module, opening, inside = written.partition("(")
        given, closing, number = inside.rpartition(")")
        if not (opening and closing):
            return written
        blocks = (block.strip() for block in given.split(","))
        return f"{module}({', '.join(self.blocks.get(b, b) for b in blocks)}){number}"


class _SideBySide:
    def __init__(self, trace: Trace, written_for: Program, program: Program) -> None:
        self._given = trace
        self._taking = _FollowDecisions()
        self._one = Schedule(written_for, handler=Replay(trace.decisions, Policy.STRICT, DrawFromPrior(0)))
        self._other = Schedule(program, handler=self._taking)
        self._names = _Names()
        self._labels: dict[str, str] = {}
        self._addresses: set[str] = set()

    def trace(self) -> Trace:
        for instruction in self._given.instructions:
            self._names.add(self._one.func, self._other.func)
            self._one.execute(instruction)
            made = self._one.trace.instructions[-1]
            if made.decision is not None:
                self._taking.decision = self._names.decision(made)
            self._other.execute(self._rename_instruction(made))
            outputs = self._other.trace.instructions[-1].outputs
            self._labels.update(zip(made.outputs, outputs, strict=True))
        if _nests(self._one.func) != _nests(self._other.func):
            program = self._other.program.key
            raise ScheduleError("trace", f"it has another meaning in the names of {program}")
        return self._other.trace

    def _rename_instruction(self, written: Instruction) -> Instruction:
        return replace(
            written,
            args=tuple(self._argument(written.op, place, value) for place, value in enumerate(written.args)),
            kwargs=tuple((name, relabel_value(value, self._labels)) for name, value in written.kwargs),
            outputs=(),
            address=None if written.address is None else self._address(written.address, written.op),
            decision=None,
        )

    def _argument(self, op: str, place: int, value: Value) -> Value:
        if not isinstance(value, str):
            return relabel_value(value, self._labels)
        if registry()[op].branches:
            return self._names.option(value)
        named = registry()[op].naming.get(place)
        if named is None:
            return value
        return (self._names.blocks if named is Named.BLOCK else self._names.buffers).get(value, value)

    def _address(self, written: str, op: str) -> str:
        found = address = self._names.address(written, op)
        number = 1
        while address in self._addresses:
            number += 1
            address = f"{found}#{number}"
        self._addresses.add(address)
        return address


def _nests(func: Func) -> list[object]:
    """The loops and blocks in order, without names, and without indices, whose terms are sorted by name."""
    places = {buffer.name: n for n, buffer in enumerate(func.buffers())}
    out: list[object] = []
    for stmt in query.walk_stmts(func.body):
        if isinstance(stmt, For):
            out.append((stmt.kind, as_int(stmt.extent)))
        elif isinstance(stmt, Block):
            out.append(places[query.writes(stmt)])
    return out
