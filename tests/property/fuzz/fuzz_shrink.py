"""Making a failure small: fewer steps, smaller sizes, a simpler program, while it fails in the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from metasched.lang.instructions import Instruction, Ref, TraceData, Value
from tests.property.fuzz.fuzz_case import Failure
from tests.property.fuzz.fuzz_programs import Source

# What is wrong with a program and a trace: a kind and a detail.
Check = Callable[[Source, TraceData], "tuple[str, str] | None"]


def shrink(failure: Failure, check: Check, seconds: float) -> Failure:
    """The smallest variant found within `seconds` that fails with the same kind; each step of it was checked."""
    until = time.monotonic() + seconds
    best = failure
    progress = True
    while progress and time.monotonic() < until:
        progress = False
        for source, trace in _smaller(best):
            if time.monotonic() > until:
                break
            wrong = check(source, trace)
            if wrong is not None and wrong[0] == failure.kind:
                best = Failure(*wrong, source, trace)
                progress = True
                break
    return best


def _smaller(f: Failure) -> Iterator[tuple[Source, TraceData]]:
    for trace in _fewer_steps(f.trace):
        yield f.source, trace
    for name, value in f.source.sizes:
        if isinstance(value, str):
            continue
        for less in sorted({1, 2, 3, value // 2, value - 1}):
            if 0 < less < value:
                sizes = tuple((k, less if k == name else v) for k, v in f.source.sizes)
                yield replace(f.source, sizes=sizes), replace(f.trace, params=sizes)
    for text in _simpler_programs(f.source.text):
        yield _resized(replace(f.source, text=text), f.trace)
    for trace in _simpler_steps(f.trace):
        yield f.source, trace


def _resized(source: Source, trace: TraceData) -> tuple[Source, TraceData]:
    """A simpler program may use fewer of its parameters, and unused ones are an error."""
    head, _, rest = source.text.partition("]")
    used = [(k, v) for k, v in source.sizes if re.search(rf"\b{k}\b", rest)]
    opening = head.partition("[")[0]
    text = f"{opening}[{', '.join(f'{k}={v}' for k, v in used)}]{rest}" if used else opening + rest
    return Source(text, tuple(used)), replace(trace, params=tuple(used))


# --- traces


def _fewer_steps(trace: TraceData) -> Iterator[TraceData]:
    """Without a half, a quarter, ... of the steps, last ones first, and without what needs their results."""
    steps = trace.instructions
    size = len(steps) // 2
    while size:
        for at in range(len(steps) - size, -1, -size):
            yield replace(trace, instructions=tuple(_usable([*steps[:at], *steps[at + size :]])))
        size //= 2


def _usable(steps: list[Instruction]) -> Iterator[Instruction]:
    made: set[str] = set()
    for step in steps:
        if _needs((*step.args, *(v for _, v in step.kwargs))) <= made:
            made |= set(step.outputs)
            yield step


def _needs(value: Value) -> set[str]:
    if isinstance(value, Ref):
        return {value.name} - {"root", "inline"}
    if isinstance(value, tuple):
        return set().union(*(_needs(v) for v in value))
    return set()


def _simpler_steps(trace: TraceData) -> Iterator[TraceData]:
    """With one number made smaller."""
    for at, step in enumerate(trace.instructions):
        for n, arg in enumerate(step.args):
            for less in _less(arg):
                yield _with(trace, at, replace(step, args=(*step.args[:n], less, *step.args[n + 1 :])))
        if isinstance(step.decision, tuple | int):
            for less in _less(step.decision):  # type: ignore[arg-type]
                yield _with(trace, at, replace(step, decision=less))  # type: ignore[arg-type]


def _less(value: Value) -> Iterator[Value]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield from range(1, min(value, 4))
    elif isinstance(value, tuple):
        for n, item in enumerate(value):
            for less in _less(item):
                yield (*value[:n], less, *value[n + 1 :])


def _with(trace: TraceData, at: int, step: Instruction) -> TraceData:
    return replace(trace, instructions=(*trace.instructions[:at], step, *trace.instructions[at + 1 :]))


# --- programs


def _simpler_programs(text: str) -> Iterator[str]:
    """Without a stage, without an output, or with a part of an expression in its place."""
    head, *lines = text.strip().splitlines()
    for at in range(len(lines) - 1, -1, -1):
        yield _rebuilt(head, lines[:at] + lines[at + 1 :])
    for at, line in enumerate(lines):
        left, mark, value = line.partition(" = ")
        if mark and not left.strip().startswith("let"):
            for simpler in _simpler_values(value):
                yield _rebuilt(head, [*lines[:at], f"{left} = {simpler}", *lines[at + 1 :]])


def _simpler_values(value: str) -> Iterator[str]:
    """With a bracketed part replaced by one of its operands, or by 1."""
    for start, end in _brackets(value):
        before, inside, after = value[:start], value[start + 1 : end], value[end + 1 :]
        named = re.search(r"[\w\]]+$", before)
        if named and named.group().endswith("]"):
            continue  # a reduction
        outer = before[: named.start()] if named else before
        for operand in _operands(inside):
            yield f"{outer}{operand}{after}"
        yield f"{outer}1{after}"


def _brackets(value: str) -> Iterator[tuple[int, int]]:
    """Where round brackets open and close, widest first."""
    open_, pairs = [], []
    for at, c in enumerate(value):
        if c == "(":
            open_.append(at)
        elif c == ")" and open_:
            pairs.append((open_.pop(), at))
    yield from sorted(pairs, key=lambda p: p[0] - p[1])


def _operands(inside: str) -> Iterator[str]:
    """What is between the operators of the outermost level."""
    depth, start = 0, 0
    for at, c in enumerate(inside):
        depth += (c in "([") - (c in ")]")
        for operator in (" + ", " - ", " * ", " / ", ", ", " if ", " else "):
            if depth == 0 and inside.startswith(operator, at):
                yield inside[start:at].strip()
                start = at + len(operator)
    if start:
        yield inside[start:].strip()


def _rebuilt(head: str, lines: list[str]) -> str:
    """A program of these stages, its arguments and outputs made to fit: the declarations are kept where still used."""
    body = "\n".join(lines)
    match = re.match(r"(program \w+(?:\[[^\]]*\])?)\((.*)\) -> (.*):$", head)
    if match is None:
        return "\n".join([head, body])
    opening, inputs, outputs = match.groups()
    declared = dict(_declarations(outputs))
    kept = [text for name, text in _declarations(inputs) if re.search(rf"\b{name}\[", body)]
    written = re.findall(r"^\s*(?:\w+: )?(\w+)\[([^\]]*)\] = ", body, re.MULTILINE)
    values = " ".join(line.partition(" = ")[2] for line in lines)
    dtype = next(iter(re.findall(r": (\w+)", outputs)), "f32")
    results = []
    for name, indices in written:
        if name in declared:
            results.append(declared[name])
        elif not re.search(rf"\b{name}\[", values):
            shape = ", ".join(i.partition("<")[2].strip() or "1" for i in indices.split(","))
            results.append(f"{name}: {dtype}[{shape}]")
    made = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f"{opening}({', '.join(kept)}) -> {made}:\n{body}\n"


def _declarations(text: str) -> Iterator[tuple[str, str]]:
    for item in re.findall(r"(?:const )?\w+: \w+\[[^\]]*\]|(?:const )?\w+: \w+", text):
        yield re.sub(r"^const ", "", item).partition(":")[0], item
