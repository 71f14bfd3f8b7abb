"""What was found for one size of a kind of anchor, and files of it: text that is read as data, and diffs well.

A file begins with `metasched knowledge 1`; then come sections, each for a kind of anchor on a kind of CPU with one
structure, and a line for each size:

    kind y[s0, s1] sum= x0[s0, r0] * x1[r0, s1] of x0: f32, x1: f32, y: f32
    cpu 16 lanes, 2 threads
    structure
      multi_level_tiling({anchor})/fusion := "none"
    numbers
      multi_level_tiling({anchor})/{anchor$0}
      vectorize({writer})/lanes
    found
      512x512x512 in 1210.5 us: [[null,4,1,8],32]

The numbers are decisions in the order of their addresses, as JSON; a size is the extents of the anchor's variables,
with ` by 2x1` its strides and dilations. Names are roles (`metasched.knowledge.roles`). Lines that begin with # are
comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from metasched.errors import MetaschedError
from metasched.knowledge.roles import FOLLOWING
from metasched.lang.decisions import from_json, to_stored
from metasched.lang.instructions import HOLE, Decision, Ref
from metasched.support.data_classes import dataclass

HEADER = "metasched knowledge 1"
_CPU = re.compile(r"(\d+) lanes, (\d+) threads?")
_SIZE_LINE = re.compile(r"(\d+(?:x\d+)*)(?: by (\d+(?:x\d+)*))? in (\d+(?:\.\d+)?(?:e[+-]\d+)?) us: (\[.*\])")
_DECISION_SIGN = " := "

# Decisions by address, both in roles.
Decisions = tuple[tuple[str, Decision], ...]


class KnowledgeError(MetaschedError):
    """A file of knowledge that cannot be read; the message says which and where."""


@dataclass(frozen=True)
class Cpu:
    """The kind of CPU that something was found on: elements of f32 in a vector register, and threads."""

    lanes: int
    threads: int

    def __str__(self) -> str:
        return f"{self.lanes} lanes, {self.threads} thread{'s' * (self.threads != 1)}"


@dataclass(frozen=True)
class Entry:
    """What was found for one size: structural decisions, numbers, and the time of a call on its CPU."""

    kind: str
    cpu: Cpu
    structure: Decisions
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    microseconds: float
    numbers: Decisions

    @property
    def size(self) -> str:
        by = f" by {_times(self.steps)}" if self.steps else ""
        return f"{_times(self.extents)}{by}"

    @property
    def decisions(self) -> Decisions:
        return (*self.structure, *self.numbers)

    @property
    def is_followed(self) -> bool:
        """Whether something was decided about a block after the anchor."""
        return any(name in address for address, _ in self.decisions for name in FOLLOWING)


def print_entries(entries: Iterable[Entry]) -> str:
    """A file of entries, sorted: equal entries give equal texts."""
    lines = [HEADER]
    ordered = sorted(entries, key=lambda e: (*_section(e), e.extents, e.steps, e.microseconds))
    for (kind, cpu, structure, numbers), found in groupby(ordered, key=_section):
        lines += ["", f"kind {kind}", f"cpu {cpu}", "structure", *(f"  {line}" for line in structure)]
        lines += ["numbers", *(f"  {address}" for address in numbers), "found"]
        lines += [f"  {_print_entry(entry)}" for entry in found]
    return "\n".join(lines) + "\n"


def _section(entry: Entry) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    decided = tuple(f"{address}{_DECISION_SIGN}{json.dumps(to_stored(d))}" for address, d in entry.structure)
    return entry.kind, str(entry.cpu), decided, tuple(address for address, _ in entry.numbers)


def _print_entry(entry: Entry) -> str:
    numbers = json.dumps([to_stored(decision) for _, decision in entry.numbers], separators=(",", ":"))
    return f"{entry.size} in {entry.microseconds:.6g} us: {numbers}"


def _decision(stored: Any) -> Decision:
    match stored:
        case {"ref": str() as place} if len(stored) == 1:  # in roles, which is no name
            return Ref(place)
        case list():
            return tuple(HOLE if item is None else from_json(item) for item in stored)
    return from_json(stored)


def _times(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))


def parse_entries(text: str, name: str = "<text>") -> Iterator[Entry]:
    """The entries of a file's text. Raises KnowledgeError with the line for what is none."""
    reader = _Reader(name)
    for number, line in enumerate(text.splitlines(), start=1):
        if number == 1 and line.strip() != HEADER:
            raise KnowledgeError(f"{name} is no file of knowledge: it does not begin with `{HEADER}`")
        if number > 1 and line.strip() and not line.startswith("#"):
            try:
                entry = reader.line(line)
            except (ValueError, TypeError, RecursionError) as error:
                raise KnowledgeError(f"{name}:{number}: {error}: {line.strip()[:80]}") from None
            if entry is not None:
                yield entry


class _Reader:
    """The section that a line belongs to, while a text is read line by line."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kind = ""
        self._cpu: Cpu | None = None
        self._part = ""
        self._structure: list[tuple[str, Decision]] = []
        self._numbers: list[str] = []

    def line(self, line: str) -> Entry | None:
        """Read a line; the entry, where it is one. Raises ValueError."""
        if line.startswith("  "):
            return self._read_entry(line.strip())
        word, _, rest = line.partition(" ")
        match word:
            case "kind":
                self._kind, self._cpu = rest.strip(), None
            case "cpu":
                found = _CPU.fullmatch(rest.strip())
                if found is None:
                    raise ValueError("a CPU is `N lanes, N threads`")
                self._cpu = Cpu(int(found[1]), int(found[2]))
            case "structure":
                self._structure, self._numbers = [], []
            case "numbers" | "found":
                pass
            case _:
                raise ValueError("a line begins with kind, cpu, structure, numbers or found, or is indented")
        self._part = word
        return None

    def _read_entry(self, line: str) -> Entry | None:
        match self._part:
            case "structure":
                address, mark, decided = line.partition(_DECISION_SIGN)
                if not mark:
                    raise ValueError(f"a decision is `ADDRESS{_DECISION_SIGN}JSON`")
                self._structure.append((address, _decision(json.loads(decided))))
            case "numbers":
                self._numbers.append(line)
            case "found":
                return self._entry(line)
            case _:
                raise ValueError("this line belongs to no part")
        return None

    def _entry(self, line: str) -> Entry:
        found = _SIZE_LINE.fullmatch(line)
        if found is None or self._cpu is None or not self._kind:
            raise ValueError("what was found is `16x16x16 in 1.5 us: [NUMBERS]`, under a kind and a CPU")
        decided = [_decision(item) for item in json.loads(found[4])]
        if len(decided) != len(self._numbers):
            raise ValueError(f"it has {len(decided)} numbers, and {len(self._numbers)} are named")
        extents, steps = (tuple(map(int, (text or "").split("x"))) if text else () for text in found.group(1, 2))
        if not all((*extents, *steps)):
            raise ValueError("sizes are positive")
        numbers = tuple(zip(self._numbers, decided, strict=True))
        return Entry(self._kind, self._cpu, tuple(self._structure), extents, steps, float(found[3]), numbers)
