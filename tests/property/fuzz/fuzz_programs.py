"""Random programs: small, with odd extents, and every way of reading a buffer that schedules can get wrong.

A program is text with its sizes as parameters, so that a failure prints as a file and its sizes can be shrunk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from metasched import operators
from metasched.dtypes import DType
from metasched.errors import MetaschedError
from metasched.ir.nodes import IterKind
from metasched.ir.program import Program
from metasched.ir.query import blocks
from metasched.ir.source import Setting
from metasched.lang import parse_program
from tests.property.fuzz import fuzz_classics

T = TypeVar("T")

SIZES = (1, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 13)
# Types that are computed in, the commonest more often than others, and those of storage alone.
COMPUTED = ("f32", "f32", "f32", "f64", "i32", "i64", "i8", "u8", "i16", "u16", "u32", "u64")
STORED = tuple(d.value for d in DType if d.is_storage)
FLOATS = frozenset(d.value for d in DType if d.is_float)
# Element types of an operator of the library, of its second operand, and of its sums.
ELEMENTS = (
    *(("f32", "f32", "f32"),) * 4,
    *(("f64", "f64", "f64"), ("i32", "i32", "i32"), ("i8", "i8", "i32"), ("u8", "i8", "i32"), ("i16", "i16", "i32")),
    *(("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("f8e4m3fn", "f8e5m2", "f32"), ("f8e5m2", "f32", "f32")),
    *(("i4", "i4", "i32"), ("u4", "i8", "i32"), ("i2", "u2", "i32"), ("u16", "u16", "u32"), ("u64", "u64", "u64")),
)
# What may run per case: the reference is an interpreter.
MOST_INSTANCES = 3000
_OF_CLASSICS = ("f32", "f32", "f32", "f64", "i32", "i64", "f16", "bf16", "i8", "u16", "u64", "f8e4m3fn", "i4", "u2")
_LETTERS = "ijklmn"
SCALAR = "s"


@dataclass(frozen=True)
class Source:
    """A program's text and its sizes."""

    text: str
    sizes: tuple[tuple[str, Setting], ...] = ()

    def program(self) -> Program:
        """Raises LanguageError."""
        return parse_program(self.text, **dict(self.sizes))


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    return options[int(rng.integers(len(options)))]


@dataclass(frozen=True)
class Extent:
    """A size as the text has it, and as a number."""

    text: str
    value: int


@dataclass(frozen=True)
class Index:
    name: str
    extent: Extent


@dataclass
class _Stage:
    indices: list[Index]
    reduced: list[Index]


class Drawing:
    """What draws from a random stream, `rng`."""

    rng: np.random.Generator

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)


class _Maker(Drawing):
    """One random program."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.sizes = [Extent(name, int(pick(rng, SIZES))) for name in "NMKLP"[: int(rng.integers(2, 5))]]
        self.dtype = pick(rng, STORED if self.chance(0.25) else COMPUTED)
        self.buffers: dict[str, tuple[str, tuple[Extent, ...]]] = {}
        self.inputs: list[str] = []
        self.lines: list[str] = []

    def source(self) -> Source:
        made = [self._stage(number) for number in range(int(self.rng.integers(1, 5)))]
        body = "".join(f"    {line}\n" for line in self.lines)
        values = " ".join(line.partition(" = ")[2] for line in self.lines)
        read = {name for name in self.buffers if re.search(rf"\b{name}\[", values)}
        outputs = [name for name in made if name not in read or self.chance(0.15)]
        arguments = [self._declared(name, const=self.chance(0.2)) for name in self.inputs if name in read]
        arguments += [f"{SCALAR}: i64"] if re.search(rf"\b{SCALAR}\b", values) else []
        given = ", ".join(arguments)
        results = ", ".join(self._declared(name) for name in outputs)
        rest = f"({given}) -> {results if len(outputs) == 1 else f'({results})'}:\n{body}"
        # A size that nothing uses is an error.
        used = [e for e in self.sizes if re.search(rf"\b{e.text}\b", rest)]
        settings = ", ".join(f"{e.text}={e.value}" for e in used)
        return Source(f"program made[{settings}]{rest}", tuple((e.text, e.value) for e in used))

    def _declared(self, name: str, *, const: bool = False) -> str:
        dtype, shape = self.buffers[name]
        return f"{'const ' if const else ''}{name}: {dtype}[{', '.join(e.text for e in shape)}]"

    # --- stages

    def _stage(self, number: int) -> str:
        name = f"T{number}"
        rank = int(self.rng.integers(1, 4))
        indices = [Index(_LETTERS[n], pick(self.rng, self.sizes)) for n in range(rank)]
        reduced = [Index("rst"[n], pick(self.rng, self.sizes)) for n in range(int(self.rng.integers(1, 3)))]
        before = [b for b in self.buffers if b not in self.inputs]
        if before and self.chance(0.75):
            # Follow a stage before, so that the two can be scheduled together.
            _, shape = self.buffers[pick(self.rng, before)]
            indices = [Index(_LETTERS[n], e) for n, e in enumerate(shape)]
            if len(indices) > 1 and self.chance(0.4):
                reduced = [Index("r", indices.pop(int(self.rng.integers(len(indices)))).extent)]
            elif self.chance(0.2):
                indices = indices[::-1]
        special = pick(self.rng, [self._padding, self._window, self._product]) if self.chance(0.3) else None
        if special is not None and special(name, number):
            return name
        if not self.chance(0.45):
            reduced = []
        stage = _Stage(indices, reduced)
        value = self._expr(stage, 2 if not reduced else 1)
        if reduced:
            value = self._reduction(stage, value)
        self._write(name, number, indices, value)
        return name

    def _write(self, name: str, number: int, indices: list[Index], value: str) -> None:
        target = f"{name}[{', '.join(f'{i.name} < {i.extent.text}' for i in indices)}]"
        self.buffers[name] = (self.dtype, tuple(i.extent for i in indices))
        self.lines.append(f"{f's{number}: ' if self.chance(0.7) else ''}{target} = {value}")

    # Stages that some primitives are for.

    def _before(self) -> str | None:
        """A buffer to go on with."""
        names = [b for b in self.buffers if b not in self.inputs] or self.inputs
        return pick(self.rng, names) if names else None

    def _padding(self, name: str, number: int) -> bool:
        """Zeros, or another constant, around a buffer."""
        source = self._before()
        if source is None:
            return False
        indices, guards, at = [], [], []
        for n, e in enumerate(self.buffers[source][1]):
            low, high = int(self.rng.integers(0, 3)), int(self.rng.integers(0, 3))
            indices.append(Index(_LETTERS[n], Extent(f"{e.text} + {low + high}", e.value + low + high)))
            guards += [f"{_LETTERS[n]} >= {low}", f"{_LETTERS[n]} < {e.text} + {low}"] if low + high else []
            at.append(f"{_LETTERS[n]} - {low}")
        if not guards:
            return False
        value = f"{self._at(source, at)} if {' and '.join(guards)} else {int(self.rng.integers(0, 2))}"
        self._write(name, number, indices, value)
        return True

    def _window(self, name: str, number: int) -> bool:
        """A few neighbours along one dimension, added up one way or the other."""
        source = self._before()
        if source is None:
            return False
        shape = self.buffers[source][1]
        axis = int(self.rng.integers(len(shape)))
        taps, step = int(self.rng.integers(2, 4)), int(self.rng.integers(1, 3))
        count = (shape[axis].value - taps) // step + 1
        if count < 1:
            return False
        text = f"{shape[axis].text} - {taps - 1}" if step == 1 else f"({shape[axis].text} - {taps}) // {step} + 1"
        extents = [*shape[:axis], Extent(text, count), *shape[axis + 1 :]]
        indices = [Index(_LETTERS[n], e) for n, e in enumerate(extents)]

        def read(tap: object) -> str:
            at = [i.name for i in indices]
            at[axis] = f"{step}*{at[axis]} + {tap}"
            return self._at(source, at)

        plain = " + ".join(read(tap) for tap in range(taps))
        self._write(name, number, indices, f"sum[r < {taps}]({read('r')})" if self.chance(0.5) else plain)
        return True

    def _product(self, name: str, number: int) -> bool:
        """A product of two matrices, the first perhaps computed before."""
        source = self._before()
        if source is None or len(self.buffers[source][1]) < 2 or len(self.inputs) == 4:
            return False
        *outer, last = self.buffers[source][1]
        column = pick(self.rng, self.sizes)
        other = "ABCD"[len(self.inputs)]
        self.inputs.append(other)
        swapped = self.chance(0.5)
        self.buffers[other] = (self.dtype, (column, last) if swapped else (last, column))
        indices = [Index(_LETTERS[n], e) for n, e in enumerate([*outer, column])]
        names = [i.name for i in indices]
        b = f"{other}[{names[-1]}, r]" if swapped else f"{other}[r, {names[-1]}]"
        self._write(name, number, indices, f"sum[r < {last.text}]({self._at(source, [*names[:-1], 'r'])} * {b})")
        return True

    def _reduction(self, stage: _Stage, value: str) -> str:
        kind = pick(self.rng, ["sum", "sum", "sum", "max", "min", "prod"])
        over = ", ".join(f"{i.name} < {i.extent.text}" for i in stage.reduced)
        if self.chance(0.3):
            over += f" if {self._condition(stage) if self.chance(0.3) else self._index_condition(stage)}"
        return f"{kind}[{over}]({value})"

    # --- values

    def _expr(self, stage: _Stage, depth: int) -> str:
        if depth == 0 or self.chance(0.15):
            return self._term(stage)
        a, b = self._expr(stage, depth - 1), self._expr(stage, depth - 1)
        kind = pick(self.rng, ["+", "+", "-", "*", "*", "max", "min", "select", "index", "call", "literal"])
        if kind in "+-*":
            return f"({a} {kind} {b})"
        if kind in ("max", "min"):
            return f"{kind}({a}, {b})"
        if kind == "select":
            return f"({a} if {self._condition(stage)} else {b})"
        if kind == "index":
            return f"({a} if {self._index_condition(stage)} else {pick(self.rng, [b, '0', '1'])})"
        if kind == "literal":
            return f"({a} + {int(self.rng.integers(0, 4))})"
        return self._call(a, b)

    def _call(self, a: str, b: str) -> str:
        if self.dtype not in FLOATS:
            bits = [f"({a} {op} {b})" for op in ("&", "|", "^", "<<", ">>")] + [f"(~{a})", f"({a} & 7)", f"({a} >> 2)"]
            return pick(self.rng, [f"(0 - {a})", f"(-{a})", f"({a} // {b})", f"({a} % {b})", f"({a} // 3)", *bits])
        return pick(
            self.rng,
            [f"abs({a})", f"(-{a})", f"tanh({a})", f"sqrt(abs({a}))", f"exp(min({a}, 2))", f"({a} / (abs({b}) + 1))"],
        )

    def _term(self, stage: _Stage) -> str:
        if self.chance(0.06):
            return str(int(self.rng.integers(0, 4)))
        if self.chance(0.04) and self.dtype in FLOATS:
            return f"{self.dtype}({pick(self.rng, [*stage.indices, *stage.reduced]).name})"
        return self._read(stage, self._buffer(stage))

    def _condition(self, stage: _Stage) -> str:
        """A comparison of data: of an input's element with a constant that no input takes, which rounding leaves be."""
        if self.dtype not in FLOATS and self.chance(0.5):
            return self._index_condition(stage)
        read = self._read(stage, self._input(stage), guarded=False)
        return f"{read} {pick(self.rng, ['<', '>='])} {self._border()}"

    def _border(self) -> str:
        """A constant to compare with; of types without a sign, one beyond what their signed ones hold, too."""
        if self.dtype in FLOATS:
            return "0.1"
        return pick(self.rng, ["1", str(2 ** (int(self.dtype[1:]) - 1) + 1)]) if self.dtype.startswith("u") else "1"

    def _index_condition(self, stage: _Stage) -> str:
        index = pick(self.rng, [*stage.indices, *stage.reduced])
        text, value = index.name, int(self.rng.integers(0, index.extent.value + 1))
        plain = f"{text} {pick(self.rng, ['<', '>=', '=='])} {value}"
        if self.chance(0.3):
            other = pick(self.rng, [*stage.indices, *stage.reduced])
            return f"{plain} {pick(self.rng, ['and', 'or'])} {other.name} <= {text}"
        return f"{text} % 2 == 0" if self.chance(0.2) else plain

    # --- reads

    def _buffer(self, stage: _Stage) -> str:
        before = [b for b in self.buffers if b not in self.inputs]
        if before and self.chance(0.6):
            return before[-1] if self.chance(0.6) else pick(self.rng, before)
        if self.inputs and self.chance(0.4):
            return pick(self.rng, self.inputs)
        return self._input(stage)

    def _input(self, stage: _Stage) -> str:
        """A new input, of a shape that the stage's indices fit in one way or another."""
        if len(self.inputs) == 4:
            return pick(self.rng, self.inputs)
        name = "ABCD"[len(self.inputs)]
        indices = [*stage.indices, *stage.reduced]
        chosen = [indices[n] for n in self.rng.permutation(len(indices))[: int(self.rng.integers(1, 4))]]
        if self.chance(0.6):
            chosen.sort(key=indices.index)
        shape = []
        for index in chosen:
            e = index.extent
            if self.chance(0.15):
                e = Extent(f"2*{e.text} + 1", 2 * e.value + 1)
            elif self.chance(0.15) and len(indices) > 1:
                other = pick(self.rng, indices).extent
                e = Extent(f"{e.text} + {other.text} - 1", e.value + other.value - 1)
            elif self.chance(0.08):
                e = pick(self.rng, self.sizes)
            shape.append(e)
        self.inputs.append(name)
        self.buffers[name] = (self._stored() if self.chance(0.15) else self.dtype, tuple(shape))
        return name

    def _stored(self) -> str:
        """A type of storage of what the program computes."""
        return pick(self.rng, STORED if self.dtype in FLOATS else [name for name in STORED if name not in FLOATS])

    def _at(self, buffer: str, at: Sequence[str]) -> str:
        """An element of a buffer, in the type of the program."""
        read = f"{buffer}[{', '.join(at)}]"
        return read if self.buffers[buffer][0] == self.dtype else f"{self.dtype}({read})"

    def _read(self, stage: _Stage, buffer: str, *, guarded: bool = True) -> str:
        _, shape = self.buffers[buffer]
        indices = [*stage.indices, *stage.reduced]
        unused = list(indices)
        texts, guards = [], []
        for e in shape:
            same = [i for i in unused if i.extent == e]
            index = pick(self.rng, same) if same and self.chance(0.9) else pick(self.rng, indices)
            if index in unused:
                unused.remove(index)
            text, guard = self._index(index, e, pick(self.rng, indices))
            if guard and not guarded:
                text, guard = f"{index.name} % ({e.text})", None
            texts.append(text)
            guards += [guard] if guard else []
        read = self._at(buffer, texts)
        return f"({read} if {' and '.join(guards)} else 0)" if guards else read

    def _index(self, index: Index, e: Extent, other: Index) -> tuple[str, str | None]:
        """An index expression that stays within `e`, or a condition under which it does."""
        name, n = index.name, index.extent.value
        if index.extent == e and self.chance(0.85):
            return name, None
        options: list[tuple[str, str | None]] = [(f"{name} % ({e.text})", None)]
        if n <= e.value:
            options += [(f"{e.text} - 1 - {name}", None)]
            slack = e.value - n
            if slack:
                # Bare, the index would take its extent from here.
                options += [(f"0 + {name}", None)]
                options += [(f"{name} + {int(self.rng.integers(1, slack + 1))}", None)] * 2
        if 2 * (n - 1) < e.value:
            options += [(f"2*{name}", None)] * 2
        if other is not index and n + other.extent.value - 2 < e.value:
            options += [(f"{name} + {other.name}", None)] * 6
        if other is not index and 2 * (n - 1) + other.extent.value - 1 < e.value:
            options += [(f"2*{name} + {other.name}", None)] * 4
        if n > e.value:
            options.append((f"{name} // {-(-n // e.value)}", None))
        options.append((f"{name} ^ 1", f"{name} ^ 1 < {e.text}"))
        if 2 ** int(n - 1).bit_length() <= e.value:
            options.append((f"{name} ^ {other.name} & {2 ** int(n - 1).bit_length() - 1}", None))
            options.append((f"{name} >> 1", None))
        options.append((SCALAR, f"{SCALAR} >= 0 and {SCALAR} < {e.text}"))
        shift = int(self.rng.integers(0, 3))
        options.append((f"{name} - {shift}", f"{name} >= {shift} and {name} - {shift} < {e.text}"))
        return pick(self.rng, options)


def made(rng: np.random.Generator) -> Source:
    """A random program."""
    return _Maker(rng).source()


def classic(rng: np.random.Generator) -> Source:
    """One of the programs written by hand, at odd sizes."""
    text = pick(rng, list(fuzz_classics.SIZES))
    sizes = tuple((name, int(pick(rng, [1, 2, 5, 7, 8, 13]))) for name in fuzz_classics.SIZES[text])
    return Source(text.format(pick(rng, _OF_CLASSICS)), sizes)


def from_library(rng: np.random.Generator) -> Source:
    """An operator of the library at a small random shape."""
    name = pick(rng, operators.names())
    text = operators.source(name)
    defaults = operators.load(name).params
    types = dict(zip(("T", "U", "ACC"), pick(rng, ELEMENTS), strict=True))
    settings = ((k, types.get(k, v) if isinstance(v, str) else _small(rng, v)) for k, v in defaults)
    return Source(text, tuple(settings))


def _small(rng: np.random.Generator, value: int) -> int:
    """Sizes become small ones; what may be a stride, a padding or a flag stays near what it was."""
    if value <= 3:
        return value if rng.random() < 0.7 else max(0, value + int(rng.integers(-1, 2)))
    return int(pick(rng, SIZES[:10]))


def small(source: Source) -> bool:
    """Whether a program parses and is quick to interpret."""
    try:
        func = source.program().func
    except MetaschedError:
        return False
    total = 0
    for block in blocks(func):
        instances = 1
        for it in block.iters:
            instances *= int(it.extent.value)  # type: ignore[attr-defined]
        total += instances * (1 + sum(it.kind is IterKind.REDUCE for it in block.iters))
    return 0 < total <= MOST_INSTANCES
