"""The text of one LLVM function under construction.

Text is built directly: it is several times quicker than building an object per instruction, and LLVM's parser is
quick. A function is a list of chunks. Each loop *level* has a chunk at the top of its body, its head, which stays open
while the body is emitted: what depends on outer loops only is computed there, once per iteration of that level.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from metasched.compiler.cpu.emit.types import SSAValue
from metasched.support.data_classes import dataclass

# Deeper than every level: emitted in place, for what reads memory.
INLINE = 1 << 30
Place = tuple[object, ...]


@dataclass
class AvailableValues:
    """What has been computed at a point: pure instructions by text, and loads by array.

    An array's loads are grouped by *place*: accesses of one place at different offsets do not overlap. `dropped` are
    reads that are no longer kept, since the last barrier.
    """

    names: dict[object, str] = field(default_factory=dict)
    loads: dict[str, dict[Place, dict[int, SSAValue]]] = field(default_factory=dict)
    dropped: set[tuple[str, Place, int]] = field(default_factory=set)

    def copy(self, changed: frozenset[str]) -> AvailableValues:
        """A copy without what is no longer known once the arrays `changed` may have been written."""
        loads = {
            array: {place: dict(values) for place, values in found.items()}
            for array, found in self.loads.items()
            if array not in changed
        }
        return AvailableValues(dict(self.names), loads)

    def find(self, array: str, place: Place, offset: int) -> SSAValue | None:
        found = self.loads.get(array)
        values = None if found is None else found.get(place)
        return None if values is None else values.get(offset)

    def record_load(self, array: str, place: Place, offset: int, value: SSAValue, most: int) -> None:
        """Record a read; the latest `most` values of a place are kept."""
        values = self.loads.setdefault(array, {}).setdefault(place, {})
        values[offset] = value
        if len(values) > most:
            oldest = next(iter(values))
            del values[oldest]
            self.dropped.add((array, place, oldest))

    def record_store(self, array: str, place: Place, offset: int, value: SSAValue, most: int) -> None:
        """Record a write, and forget what it may overlap."""
        values = self.loads.get(array, {}).get(place, {})
        self.loads[array] = {place: values}
        self.record_load(array, place, offset, value, most)

    def forget(self, array: str) -> None:
        self.loads.pop(array, None)


@dataclass
class Level:
    """A loop level: its head, what is computed there, and how many loads were moved there."""

    head: list[str]
    known: AvailableValues = field(default_factory=AvailableValues)
    hoisted: int = 0


class FunctionText:
    """Instructions, basic blocks and loop levels of one function."""

    def __init__(self, metadata: list[str]) -> None:
        self._metadata = metadata
        self._count = 0
        self.label = "entry"
        self.entry: list[str] = []
        self._chunks: list[list[str]] = [["entry:"], self.entry]
        self._lines: list[str] = self.entry
        self.known = AvailableValues()
        self.levels: list[Level] = []
        self.open_level()

    def lines(self) -> Iterator[str]:
        """The whole body, from `entry:` on."""
        for chunk in self._chunks:
            yield from chunk

    def name(self, hint: str = "v") -> str:
        """A fresh local name."""
        self._count += 1
        return f"%{hint}.{self._count}"

    def fresh_label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}.{self._count}"

    @property
    def depth(self) -> int:
        """The depth of the innermost level; 0 is the function itself."""
        return len(self.levels) - 1

    @property
    def is_outside(self) -> bool:
        """Whether what is emitted goes to the head of another level than the innermost."""
        return any(self._lines is level.head for level in self.levels[:-1])

    def open_level(self) -> None:
        """Start a loop body: its head goes here, and stays open until the level is closed."""
        level = Level([])
        self._chunks.append(level.head)
        self.levels.append(level)
        self._fresh_chunk()

    def close_level(self) -> None:
        self.levels.pop()
        self._fresh_chunk()

    def _fresh_chunk(self) -> None:
        self._lines = []
        self._chunks.append(self._lines)

    @contextmanager
    def emit_at(self, depth: int) -> Iterator[Level]:
        """Emit what is inside to the head of a level, or here for `INLINE`; it has no control flow."""
        if depth == INLINE:
            yield self.levels[-1]
            return
        lines, known = self._lines, self.known
        level = self.levels[depth]
        self._lines, self.known = level.head, level.known
        try:
            yield level
        finally:
            self._lines, self.known = lines, known

    @contextmanager
    def conditional_region(self, written: frozenset[str]) -> Iterator[None]:
        """Code that may run never or many times, and writes these arrays: nothing found inside is known after it."""
        outer = self.known
        after = outer.copy(written)
        self.known = outer.copy(written)
        try:
            yield
        finally:
            self.known = after

    def line(self, text: str) -> None:
        """An instruction without a result, or one with a name of its own."""
        self._lines.append("  " + text)

    def emit_pure(self, text: str) -> str:
        """Emit a pure instruction, unless its value is known already; its name."""
        names = self.known.names
        name = names.get(text)
        if name is None:
            self._count += 1
            name = names[text] = f"%v.{self._count}"
            self._lines.append(f"  {name} = {text}")
        return name

    def emit_fresh(self, text: str) -> str:
        """Emit an instruction whose result may differ each time, such as a load; its name."""
        self._count += 1
        name = f"%v.{self._count}"
        self._lines.append(f"  {name} = {text}")
        return name

    @property
    def takes_blocks(self) -> bool:
        """Whether there may be control flow in what is emitted: not in the heads of levels."""
        return not any(self._lines is level.head for level in self.levels)

    def emit_if(self, cond: str, call: str, type_: str) -> str:
        """Emit a call that takes its time whether or not it is wanted, where a condition holds; zeros where it does
        not. Its name.
        """
        before, there, after = self.label, self.fresh_label("wanted"), self.fresh_label("joined")
        self.line(f"br i1 {cond}, label %{there}, label %{after}")
        self.start_block(there)
        made = self.emit_fresh(call)
        self.line(f"br label %{after}")
        self.start_block(after)
        return self.emit_fresh(f"phi {type_} [ {made}, %{there} ], [ zeroinitializer, %{before} ]")

    def barrier(self) -> None:
        """Have LLVM make the reads that follow, though it knows what they read. A fence is no instruction here."""
        self.line('fence syncscope("singlethread") seq_cst')
        self.known.dropped.clear()

    def start_block(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self.label = label

    def reserve(self) -> tuple[list[str], int]:
        """Reserve the place of a line whose text is known later."""
        self._lines.append("")
        return self._lines, len(self._lines) - 1

    def metadata(self, text: str) -> str:
        """A metadata node of the module, by name."""
        nodes = [line.partition(" = ")[2] for line in self._metadata]
        if text not in nodes:
            nodes.append(text)
            self._metadata.append(f"!{len(self._metadata)} = {text}")
        return f"!{nodes.index(text)}"

    def loop_metadata(self) -> str:
        """Metadata of a loop that LLVM is to leave as it is."""
        number = len(self._metadata)
        self._metadata.append(f"!{number} = distinct !{{!{number}, !0, !1}}")
        return f"!llvm.loop !{number}"
