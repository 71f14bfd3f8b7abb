"""Traces as they are printed, read line by line: what a line says is kept, as the candidates of a search share most.

Two candidates of one structure differ in the decisions of some lines, and parsing all lines by the grammar takes as
long as replaying them. What is not in the printed form, and what is wrong, is left to the grammar
(`metasched.lang.text.traces`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from metasched.ir.integers.affine import free_vars
from metasched.ir.nodes import Expr
from metasched.lang.instructions import Decision, Instruction, Ref, TraceData, Value
from metasched.support.data_classes import dataclass

_MARGIN = "    "
_DECISION = " := "
# The first lines of a trace of nothing, and a random variable, that lines and decisions are read with.
_HEAD = "trace 1 of _:\n"
_VARIABLE = "x ~ f()"
# The lines, and the decisions, that are kept.
_MOST_CACHED_LINES = 8192

# Reads a whole trace, whose lines may use any handle, by the grammar; raises LanguageError.
Read = Callable[[str], TraceData]


@dataclass(frozen=True)
class _Line:
    """The instruction of a line, and the handles that it uses."""

    instruction: Instruction
    uses: frozenset[str]


class TraceLines:
    """Reads traces line by line, by what `read` says of a line that was not met before."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._head = lru_cache(_MOST_CACHED_LINES)(self._read_head)
        self._line = lru_cache(_MOST_CACHED_LINES)(self._read_line)
        self._decision = lru_cache(_MOST_CACHED_LINES)(self._read_decision)

    def trace(self, text: str, known: frozenset[str]) -> TraceData | None:
        """The trace of a text in which no line uses a handle that is not defined above, or `known`.

        None where this is not so, or a line is not as it is printed. Raises LanguageError where one is wrong.
        """
        head, *lines = text.removesuffix("\n").split("\n")
        if head[:1].isspace() or not all(map(_is_indented_once, lines)):
            return None
        start = self._head(head)
        defined, instructions = set(known), []
        for line in lines:
            found = self._read_decided_line(line[len(_MARGIN) :])
            if found is None or not found.uses <= defined:
                return None
            defined.update(found.instruction.outputs)
            instructions.append(found.instruction)
        return replace(start, instructions=tuple(instructions))

    def _read_decided_line(self, line: str) -> _Line | None:
        """The instruction of a line whose decision is read separately; None where it is no line by itself."""
        undecided, sign, decision = line.rpartition(_DECISION)
        # A comment may hold anything, and so may a text.
        if not sign or "#" in line or ('"' in decision and _DECISION in undecided):
            return self._line(line)
        found = self._line(undecided)
        if found is None or not found.instruction.random or found.instruction.decision is not None:
            return None
        return replace(found, instruction=replace(found.instruction, decision=self._decision(decision)))

    def _read_head(self, head: str) -> TraceData:
        return self._read(head + "\n")

    def _read_line(self, line: str) -> _Line | None:
        """The instruction of a line; None for what is no line by itself."""
        read = self._read(f"{_HEAD}{_MARGIN}{line}\n").instructions
        return _Line(read[0], frozenset(_used_names(read[0]))) if len(read) == 1 else None

    def _read_decision(self, decision: str) -> Decision | None:
        (read,) = self._read(f"{_HEAD}{_MARGIN}{_VARIABLE}{_DECISION}{decision}\n").instructions
        return read.decision


def _is_indented_once(line: str) -> bool:
    return line.startswith(_MARGIN) and not line[len(_MARGIN) :][:1].isspace()


def _used_names(instruction: Instruction) -> Iterator[str]:
    """The names that the arguments of an instruction have of others."""
    for value in (*instruction.args, *(value for _, value in instruction.kwargs)):
        yield from _names(value)


def _names(value: Value) -> Iterator[str]:
    match value:
        case Ref(name=name):
            yield name
        case tuple():
            for item in value:
                yield from _names(item)
        case Expr():
            yield from free_vars(value)
