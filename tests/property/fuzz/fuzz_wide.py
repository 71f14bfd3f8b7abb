"""Random programs whose index arithmetic has large constants, conditions and divisions.

Some leave 64 bits, and are refused; what is not refused computes what it says. Guards are right, wrong, or right but
for what wraps.
"""

from __future__ import annotations

import re

import numpy as np

from metasched.dtypes import integer_range
from metasched.ir.nodes import Func
from metasched.measure.checking.inputs import arguments
from tests.property.fuzz.fuzz_programs import SIZES, Drawing, Source, pick

_LARGE = (
    *(2**62, 2**62 + 1000, 2**61 + 1, 2**63 - 1, -(2**63), -(2**62), 2**60, 2**48 + 1, 2**32, 2**32 - 1, 2**31),
    *(6364136223846793005, 1442695040888963407, 3037000500, 1_000_000_007),
)
_COMPARE = ("<", "<=", ">", ">=", "==", "!=")


class _Maker(Drawing):
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.shapes: dict[str, list[int]] = {"X": [self._size() for _ in range(int(rng.integers(1, 3)))]}
        self.shapes["I"] = [self._size()]
        # The elements of `I`, which are cast where they are read unless they are i64.
        self.type = str(pick(rng, ["i64", "i64", "i32", "u32", "u64"]))
        self.extents: dict[str, int] = {}

    def _size(self) -> int:
        return int(pick(self.rng, SIZES))

    def source(self) -> Source:
        lines = []
        for number in range(int(self.rng.integers(1, 4))):
            self.extents = {name: self._size() for name in "ijk"[: int(self.rng.integers(1, 4))]}
            axes = ", ".join(f"{name} < {extent}" for name, extent in self.extents.items())
            own = list(self.extents.values())
            value = self._value(2)
            if self.chance(0.25):
                self.extents["r"] = self._size()
                value = f"{pick(self.rng, ['sum', 'max', 'min'])}[r < {self.extents['r']}]({self._value(2)})"
            lines.append(f"    T{number}[{axes}] = {value}\n")
            self.shapes[f"T{number}"] = own
        body = "".join(lines)
        values = " ".join(line.partition(" = ")[2] for line in lines)
        made = [f"T{n}" for n in range(len(lines)) if not re.search(rf"\bT{n}\[", values)]
        types = {"X": "i64", "I": self.type}
        inputs = [f"{n}: {t}{self.shapes[n]}" for n, t in types.items() if re.search(rf"\b{n}\[", values)]
        inputs += ["s: i64"] if re.search(r"\bs\b", values) else []
        outputs = ", ".join(f"{name}: i64{self.shapes[name]}" for name in made)
        results = f"({outputs})" if len(made) > 1 else outputs
        return Source(f"program wide({', '.join(inputs)}) -> {results}:\n{body}")

    # --- numbers

    def _constant(self) -> str:
        """A number, often as large as the indices just allow."""
        if self.chance(0.35):
            return str(int(self.rng.integers(-3, 9)))
        if self.chance(0.5):
            most = (2**63 - 1) // max(1, *(n - 1 for n in self.extents.values()))
            return str(most // int(pick(self.rng, [1, 1, 2, 3, 5])) * int(pick(self.rng, [1, 1, -1])))
        return str(int(pick(self.rng, _LARGE)))

    def _positive(self) -> str:
        return str(int(pick(self.rng, (2, 3, 5, 7, 1000, 2**32, 2**62 + 1, 1_000_000_007))))

    def _index(self, depth: int) -> str:
        """Index arithmetic."""
        if depth == 0 or self.chance(0.15):
            return str(pick(self.rng, list(self.extents)))
        a = self._index(depth - 1)
        kind = pick(
            self.rng,
            ["scaled", "scaled", "moved", "sum", "difference", "//", "%", "extremum", "negated", "product", "cast"],
        )
        if kind == "cast":
            return self._cast(a)
        if kind == "scaled":
            return f"({a}*{self._constant()})"
        if kind == "moved":
            return f"({a} {pick(self.rng, '+-')} {self._constant()})"
        if kind in ("//", "%"):
            return f"({a} {kind} {self._constant() if self.chance(0.2) else self._positive()})"
        if kind == "extremum":
            return f"{pick(self.rng, ['min', 'max'])}({a}, {self._constant()})"
        if kind == "negated":
            return f"(-{a})"
        operator = {"sum": "+", "difference": "-", "product": "*"}[str(kind)]
        return f"({a} {operator} {self._index(depth - 1)})"

    def _data(self, depth: int) -> str:
        """Arithmetic over data, which wraps."""
        if depth == 0 or self.chance(0.2):
            return self._leaf()
        a = self._data(depth - 1)
        kind = pick(self.rng, ["*", "*", "+", "-", "//", "%", "index", "both", "extremum", "cast"])
        if kind in "*+-":
            return f"({a} {kind} {self._constant()})"
        if kind in ("//", "%"):
            return f"({a} {kind} {self._constant()})"
        if kind == "index":
            return f"({a} {pick(self.rng, ['+', '-', '*', '//', '%'])} {self._index(1)})"
        if kind == "both":
            return f"({a} {pick(self.rng, ['+', '-', '*', '//', '%'])} {self._data(depth - 1)})"
        if kind == "extremum":
            return f"{pick(self.rng, ['min', 'max'])}({a}, {pick(self.rng, [self._constant(), self._data(depth - 1)])})"
        return self._cast(a)

    def _cast(self, a: str) -> str:
        """Through another type and back: what it does not hold wraps."""
        kind = pick(self.rng, ["i32", "u32", "u64", "u64 // {0}", "u64 % {0}", "min", "max"])
        if kind in ("min", "max"):
            return f"i64({kind}(u64({a}), {self._positive()}))"
        dtype, _, operation = str(kind).partition(" ")
        return f"i64({dtype}({a}) {operation.format(self._positive())})".replace(" )", ")")

    def _leaf(self) -> str:
        if self.chance(0.3):
            return "s"
        name = "I" if self.chance(0.4) else str(pick(self.rng, [n for n in self.shapes if n != "I"]))
        at = ", ".join(f"{pick(self.rng, list(self.extents))} % {n}" for n in self.shapes[name])
        return f"i64({name}[{at}])" if name == "I" and self.type != "i64" else f"{name}[{at}]"

    # --- reads

    def _read(self) -> str:
        """A read at large arithmetic, brought inside in one way or another."""
        name = str(pick(self.rng, [n for n in self.shapes if n != "I"]))
        indices, guards = [], []
        for n in self.shapes[name]:
            e = self._data(2) if self.chance(0.45) else self._index(2)
            kind = pick(self.rng, ["guarded", "guarded", "guarded", "%", "clamped", "nearly"])
            if kind == "%":
                e = f"{e} % {n}"
            elif kind == "clamped":
                e = f"max(min({e}, {n - 1}), 0)"
            elif kind == "guarded":
                guards += [f"{e} >= 0", f"{e} < {n}"]
            else:
                step = self._constant()
                guards += [f"{e}*{step} >= 0", f"{e} + {step} < {n} + {step}", f"{e} < {n}"][
                    int(self.rng.integers(2)) :
                ]
            indices.append(e)
        read = f"{name}[{', '.join(indices)}]"
        return f"({read} if {' and '.join(guards)} else {int(self.rng.integers(0, 9))})" if guards else read

    # --- values

    def _value(self, depth: int) -> str:
        if depth == 0 or self.chance(0.2):
            return str(pick(self.rng, [self._read, lambda: self._data(1), lambda: self._index(2)])())
        a, b = self._value(depth - 1), self._value(depth - 1)
        kind = pick(self.rng, ["+", "-", "*", "max", "min", "select", "select"])
        if kind == "select":
            return f"({a} if {self._condition()} else {b})"
        return f"({a} {kind} {b})" if kind in "+-*" else f"{kind}({a}, {b})"

    def _condition(self) -> str:
        side = self._data if self.chance(0.4) else self._index
        other = pick(self.rng, [self._constant, lambda: self._index(1), lambda: side(1)])()
        plain = f"{side(2)} {pick(self.rng, _COMPARE)} {other}"
        if self.chance(0.3):
            second = f"{self._index(1)} {pick(self.rng, _COMPARE)} {self._constant()}"
            return f"{plain} {pick(self.rng, ['and', 'or'])} {second}"
        return f"not {plain}" if self.chance(0.1) else plain


def extremes(func: Func) -> dict[str, np.ndarray]:
    """Arguments of integers, small ones, any, and those at the ends of their types; indices in their range."""
    out = {}
    for n, argument in enumerate(arguments(func)):
        rng = np.random.default_rng([n, 7])
        dtype = argument.dtype.numpy
        lo, hi = integer_range(argument.dtype) if argument.below is None else (0, argument.below - 1)
        small = rng.integers(max(lo, -4), min(hi, 8), argument.shape, dtype, endpoint=True)
        ends = rng.choice(np.array([lo, hi, lo // 2, (hi + 1) // 2, (hi - 1) // 2], dtype), argument.shape)
        share = rng.random(argument.shape)
        drawn = rng.integers(lo, hi, argument.shape, dtype, endpoint=True)
        out[argument.name] = np.where(share < 0.5, small, np.where(share < 0.75, drawn, ends))
    return out


def wide(rng: np.random.Generator) -> Source:
    """A random program of 64-bit integers, which may be refused."""
    return _Maker(rng).source()
