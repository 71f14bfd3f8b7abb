"""The differences between two traces, up to the names of handles.

Lines are aligned by operation and by the blocks and loops operated on; a loop is identified by the steps that made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from metasched.ir.nodes import Expr, Var
from metasched.ir.source_printer import print_params
from metasched.lang import print_decision, print_instruction
from metasched.lang.instructions import Decision, Instruction, Ref, TraceData, Value
from metasched.schedule.versions import normal_form
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Line:
    """An instruction and its line in the trace's text (the first line is 1)."""

    number: int
    instruction: Instruction

    def __str__(self) -> str:
        return print_instruction(self.instruction)


@dataclass(frozen=True)
class DecisionChange:
    """Two decisions at one address; None is an open one."""

    address: str
    before: Decision | None
    after: Decision | None

    def __str__(self) -> str:
        return f'"{self.address}": {_decision_text(self.before)} -> {_decision_text(self.after)}'


@dataclass(frozen=True)
class TraceDiff:
    """The differences between two traces; false if there are none.

    `programs` are the two programs with their parameters, if they differ. `removed` and `added` are lines in only one
    of the traces, `changed` lines in both with different arguments, `decisions` addresses with different decisions. A
    renamed handle is no difference.
    """

    programs: tuple[str, str] | None
    removed: tuple[Line, ...]
    added: tuple[Line, ...]
    changed: tuple[tuple[Line, Line], ...]
    decisions: tuple[DecisionChange, ...]

    def __bool__(self) -> bool:
        return bool(self.programs or self.removed or self.added or self.changed or self.decisions)

    def __str__(self) -> str:
        """As text: the programs, the decisions, then lines with `-` and `+`, by their numbers."""
        out: list[str] = []
        if self.programs:
            out.append(f"program: {self.programs[0]} -> {self.programs[1]}")
        out += [f"decision {change}" for change in self.decisions]
        steps = [(line.number, 0, f"- {line.number:>3}  {line}") for line in self.removed]
        steps += [(line.number, 2, f"+ {line.number:>3}  {line}") for line in self.added]
        for before, after in self.changed:
            text = f"- {before.number:>3}  {before}\n+ {after.number:>3}  {after}"
            steps.append((before.number, 1, text))
        out += [text for _, _, text in sorted(steps)]
        return "\n".join(out) if out else "the traces say the same"


def diff_traces(before: TraceData, after: TraceData) -> TraceDiff:
    """The differences between two traces. Cost: about the product of their lengths."""
    a, b = _NumberedLines(before), _NumberedLines(after)
    same = _align_lines(a.keys, b.keys)
    labels: dict[str, str] = {}
    changed, decisions = [], []
    partner = dict(same)
    for n, line in enumerate(a.lines):
        m = partner.get(n)
        if m is None:
            continue
        other = b.lines[m]
        if not _equal(line.instruction, other.instruction, labels):
            changed.append((line, other))
        labels.update(zip(line.instruction.outputs, other.instruction.outputs, strict=False))
        if line.instruction.decision != other.instruction.decision and line.instruction.address is not None:
            pair = (line.instruction.decision, other.instruction.decision)
            decisions.append(DecisionChange(line.instruction.address, *pair))
    kept = set(partner.values())
    programs = (_program(before), _program(after))
    return TraceDiff(
        programs if programs[0] != programs[1] else None,
        tuple(line for n, line in enumerate(a.lines) if n not in partner),
        tuple(line for n, line in enumerate(b.lines) if n not in kept),
        tuple(changed),
        tuple(decisions),
    )


def _program(trace: TraceData) -> str:
    return trace.program + print_params(trace.params)


def _decision_text(decision: Decision | None) -> str:
    return "open" if decision is None else print_decision(decision)


def _align_lines(a: Sequence[object], b: Sequence[object]) -> list[tuple[int, int]]:
    """Pairs of positions of matching lines; between these, lines of the same operation are paired in order."""
    out: list[tuple[int, int]] = []
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal":
            out.extend(zip(range(a0, a1), range(b0, b1), strict=True))
        elif tag == "replace":
            out.extend(_pair_lines([(n, a[n]) for n in range(a0, a1)], [(m, b[m]) for m in range(b0, b1)]))
    return out


def _pair_lines(a: Sequence[tuple[int, object]], b: Sequence[tuple[int, object]]) -> list[tuple[int, int]]:
    blocks = SequenceMatcher(None, _abouts(a), _abouts(b), autojunk=False).get_matching_blocks()
    return [(a[i + n][0], b[j + n][0]) for i, j, size in blocks for n in range(size)]


def _abouts(side: Sequence[tuple[int, object]]) -> list[tuple[object, ...]]:
    return [key.about for _, key in side if isinstance(key, _Key)]


@dataclass(frozen=True)
class _Key:
    """The key that lines are matched by: `about` is the operation and its target handle, or the address."""

    about: tuple[object, ...]
    rest: tuple[object, ...]


class _NumberedLines:
    """The lines of a trace, each with the key that it is matched by."""

    def __init__(self, trace: TraceData) -> None:
        self.lines = [Line(n, normal_form(i)) for n, i in enumerate(trace.instructions, start=2)]
        self._ids: dict[str, tuple[object, ...]] = {}
        self.keys = [self._key(line.instruction) for line in self.lines]

    def _key(self, i: Instruction) -> _Key:
        fields = [*i.args, *(value for _, value in i.kwargs)]
        about = (
            (i.op, i.address) if i.address is not None else (i.op, self._number_value(i.args[0] if i.args else None))
        )
        rest = (tuple(name for name, _ in i.kwargs), tuple(self._number_value(value) for value in fields))
        source = (i.op, i.address, tuple(self._number_value(v) for v in i.args[:1]) if i.address is None else ())
        self._ids.update({label: (source, n) for n, label in enumerate(i.outputs)})
        return _Key(about, rest)

    def _number_value(self, value: Value) -> object:
        """A value with each handle replaced by the step that made it."""
        if isinstance(value, Ref):
            return self._ids.get(value.name, value.name)
        if isinstance(value, Expr):
            return Expr
        if isinstance(value, tuple):
            return tuple(self._number_value(item) for item in value)
        return (type(value), value)


def _equal(a: Instruction, b: Instruction, labels: Mapping[str, str]) -> bool:
    """Whether two lines are equal up to their decisions, with handles renamed by `labels`."""
    if (a.op, a.version, a.random, a.address, len(a.outputs)) != (b.op, b.version, b.random, b.address, len(b.outputs)):
        return False
    if len(a.args) != len(b.args) or [k for k, _ in a.kwargs] != [k for k, _ in b.kwargs]:
        return False
    pairs = [*zip(a.args, b.args, strict=True), *((x, y) for (_, x), (_, y) in zip(a.kwargs, b.kwargs, strict=True))]
    return all(_are_same(x, y, labels) for x, y in pairs)


def _are_same(a: Value, b: Value, labels: Mapping[str, str]) -> bool:
    if isinstance(a, Ref) and isinstance(b, Ref):
        return labels.get(a.name, a.name) == b.name
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_are_same(x, y, labels) for x, y in zip(a, b, strict=True))
    if isinstance(a, Expr):
        return _relabel_expr(a, labels) == b
    return type(a) is type(b) and a == b


def _relabel_expr(e: Expr, labels: Mapping[str, str]) -> Expr:
    if isinstance(e, Var):
        return Var(labels.get(e.name, e.name), e.type)
    return e.map(lambda child: _relabel_expr(child, labels) if isinstance(child, Expr) else child)
