"""Random pipelines of images: stencils, borders by `clamp` and `mirror`, pixels by parity, pyramids and tables.

Rows are longer than those of other random programs, so that some lanes are between the borders.
"""

from __future__ import annotations

import re

import numpy as np

from tests.property.fuzz.fuzz_programs import FLOATS, Drawing, Extent, Source, pick

_TYPES = (
    *("f32", "f32", "u8", "u8", "u16", "u16", "i8", "i16", "i32", "i64", "i64", "u32", "u64"),
    *("bf16", "f16", "u4", "i2"),
)
_NARROW = frozenset({"u4", "i2", "u8", "i8", "u16", "i16"})
_HEIGHTS, _WIDTHS = (1, 2, 4, 5, 7), (3, 8, 17, 21, 34, 40)
_SHORTEST = 2  # what a dimension has left, at least, after a filter


class _Maker(Drawing):
    """One random pipeline; every stage has two dimensions, named `i` and `j`."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dtype = str(pick(rng, _TYPES))
        self.sizes = (Extent("H", int(pick(rng, _HEIGHTS))), Extent("W", int(pick(rng, _WIDTHS))))
        self.types = {"X": self.dtype}
        self.shapes: dict[str, tuple[Extent, Extent]] = {"X": self.sizes}
        self.lines: list[str] = []

    def source(self) -> Source:
        kinds = (self._border, self._filter, self._filter, self._beyond, self._beyond, self._pixels, self._pixels)
        for number in range(int(self.rng.integers(2, 7))):
            pick(self.rng, (*kinds, self._coarser, self._finer, self._table))(f"T{number}")
        values = " ".join(line.partition(" = ")[2] for line in self.lines)
        made = [name for name in self.shapes if name != "X"]
        outputs = [name for name in made if not re.search(rf"\b{name}\[", values)]
        given = [f"X: {self.dtype}[H, W]"] if re.search(r"\bX\[", values) else []
        given += [f"L: {self.dtype}[5]"] if re.search(r"\bL\[", values) else []
        results = ", ".join(self._declared(name) for name in outputs)
        rest = f"({', '.join(given)}) -> {results if len(outputs) == 1 else f'({results})'}:\n"
        rest += "".join(f"    {line}\n" for line in self.lines)
        used = [e for e in self.sizes if re.search(rf"\b{e.text}\b", rest)]
        settings = ", ".join(f"{e.text}={e.value}" for e in used)
        return Source(f"program images[{settings}]{rest}", tuple((e.text, e.value) for e in used))

    def _declared(self, name: str) -> str:
        return f"{name}: {self.types[name]}[{', '.join(e.text for e in self.shapes[name])}]"

    def _write(self, name: str, shape: tuple[Extent, Extent], value: str, dtype: str | None = None) -> None:
        dtype = dtype or self.dtype
        if dtype not in FLOATS and dtype != "i64" and self.chance(0.8):
            value = f"{dtype}({value})"
        rows, columns = shape
        self.lines.append(f"{name}[i < {rows.text}, j < {columns.text}] = {value}")
        self.shapes[name], self.types[name] = shape, dtype

    def _before(self) -> str:
        """A stage to go on with, the last one more often than others."""
        names = list(self.shapes)
        return names[-1] if self.chance(0.6) else str(pick(self.rng, names))

    # --- indices

    def _inside(self, text: str, extent: Extent) -> str:
        if self.chance(0.4):
            return f"mirror({text}, {extent.text})"
        return f"clamp({text}, 0, {extent.text} - 1)"

    def _moved(self, name: str) -> str:
        """A read a few places off, brought inside."""
        at = []
        for index, extent in zip("ij", self.shapes[name], strict=True):
            by = int(self.rng.integers(-3, 4))
            at.append(self._inside(f"{index} {'-' if by < 0 else '+'} {abs(by)}", extent) if by else index)
        return f"{name}[{', '.join(at)}]"

    def _like(self, shape: tuple[Extent, Extent]) -> str:
        """A read of any stage by the indices of a stage of this shape."""
        names = [name for name, s in self.shapes.items() if s == shape]
        if names and self.chance(0.7):
            return f"{pick(self.rng, names)}[i, j]"
        name = str(pick(self.rng, list(self.shapes)))
        at = (self._inside(index, extent) for index, extent in zip("ij", self.shapes[name], strict=True))
        return f"{name}[{', '.join(at)}]"

    # --- stages

    def _border(self, name: str) -> None:
        before = self._before()
        shape, at = [], []
        for index, extent in zip("ij", self.shapes[before], strict=True):
            by = int(self.rng.integers(0, 4))
            shape.append(Extent(f"{extent.text} + {2 * by}", extent.value + 2 * by) if by else extent)
            at.append(self._inside(f"{index} - {by}", extent) if by else index)
        self._write(name, (shape[0], shape[1]), f"{before}[{', '.join(at)}]", self.types[before])

    def _filter(self, name: str) -> None:
        """Neighbours added up; the result is smaller."""
        before = self._before()
        shape, most = [], []
        for extent in self.shapes[before]:
            by = int(self.rng.integers(0, 4))
            by = by if extent.value - by >= _SHORTEST else 0
            most.append(by)
            shape.append(Extent(f"({extent.text} - {by})", extent.value - by) if by else extent)
        if max(most) > 1 and self.chance(0.25):
            self._sum(name, f"{before}[i + r, j + s]", (most[0] + 1, most[1] + 1), (shape[0], shape[1]))
            return
        taps = {tuple(int(self.rng.integers(0, by + 1)) for by in most) for _ in range(3)} | {tuple(most)}
        value = " + ".join(f"{before}[i + {a}, j + {b}]" for a, b in sorted(taps))
        self._write(name, (shape[0], shape[1]), self._scaled(f"({value})"))

    def _sum(self, name: str, value: str, terms: tuple[int, int], shape: tuple[Extent, Extent]) -> None:
        """A reduction in a type that holds its sums, and a stage that casts it back."""
        wide = "f32" if self.dtype in ("bf16", "f16") else "i32" if self.dtype in _NARROW else ""
        over, axes = f"r < {terms[0]}, s < {terms[1]}", f"i < {shape[0].text}, j < {shape[1].text}"
        self.lines.append(f"{name}s[{axes}] = sum[{over}]({f'{wide}({value})' if wide else value})")
        self._write(name, shape, f"{self.dtype}({name}s[i, j])")

    def _beyond(self, name: str) -> None:
        """Neighbours added up, some of them beyond the borders."""
        before = self._before()
        value = " + ".join(self._moved(before) for _ in range(int(self.rng.integers(1, 5))))
        self._write(name, self.shapes[before], self._scaled(f"({value})"))

    def _pixels(self, name: str) -> None:
        shape = self.shapes[self._before()]
        a, b = self._like(shape), self._like(shape)
        kind = pick(self.rng, ["+", "-", "*", "max", "min", "parity", "parity", "edge"])
        if kind in "+-*":
            value = f"{a} {kind} {b}"
        elif kind in ("max", "min"):
            value = f"{kind}({a}, {b})"
        elif kind == "parity":
            value = f"{a} if {pick(self.rng, ['i', 'j', '(i + j)'])} % 2 == {int(self.rng.integers(2))} else {b}"
        else:
            value = f"{a} if j >= {int(self.rng.integers(1, 4))} and j < {shape[1].text} - 1 else {b}"
        self._write(name, shape, value)

    def _coarser(self, name: str) -> None:
        before = self._before()
        rows, columns = (Extent(f"(({e.text} + 1) // 2)", (e.value + 1) // 2) for e in self.shapes[before])
        last = [e.text for e in self.shapes[before]]
        value = f"{before}[2*i, 2*j]"
        if self.chance(0.6):
            value += f" + {before}[clamp(2*i + 1, 0, {last[0]} - 1), mirror(2*j - 1, {last[1]})]"
        self._write(name, (rows, columns), value)

    def _finer(self, name: str) -> None:
        before = self._before()
        rows, columns = self.shapes[before]
        if columns.value > 40:
            return self._pixels(name)
        value = f"{before}[i // 2, j // 2]"
        if self.chance(0.6):
            value += f" + {before}[clamp(i // 2 + 1, 0, {rows.text} - 1), mirror((j + 1) // 2, {columns.text})]"
        return self._write(name, (self._twice(rows), self._twice(columns)), value)

    def _twice(self, extent: Extent) -> Extent:
        return Extent(f"(2*({extent.text}))", 2 * extent.value)

    def _table(self, name: str) -> None:
        """A read where data says."""
        before = self._before()
        if self.types[before] in FLOATS:
            return self._beyond(name)
        return self._write(name, self.shapes[before], f"L[clamp(i64({before}[i, j]), 0, 4)]")

    def _scaled(self, value: str) -> str:
        if self.dtype in FLOATS:
            return pick(self.rng, [value, f"{value} * 0.25"])
        # Where integers are narrow their sums wrap, or are taken in a wider type.
        wide = value if self.dtype == "i64" or self.chance(0.3) else re.sub(r"(\w+\[[^\]]*\])", r"i32(\1)", value)
        scaled = pick(self.rng, [wide, wide, f"{wide} // 3", f"{wide} * 2"])
        return scaled if wide == value else f"{self.dtype}({scaled})"


def pipeline(rng: np.random.Generator) -> Source:
    """A random pipeline of images."""
    return _Maker(rng).source()
