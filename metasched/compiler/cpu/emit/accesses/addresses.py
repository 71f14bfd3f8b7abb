"""Addresses: a base pointer plus a part for every loop level, each computed once in the head of its level, plus a
constant that x86 folds into the instruction.
"""

from __future__ import annotations

from itertools import groupby

from metasched.compiler.cpu.emit.scope import ArrayPointer, FunctionScope
from metasched.compiler.cpu.emit.text import INLINE
from metasched.compiler.cpu.emit.types import SSAValue, constant, lane_numbers, memory_text
from metasched.dtypes import INDEX
from metasched.ir.integers.linear import Linear
from metasched.ir.nodes import Expr, Var


class Addresses:
    """Emits indices and addresses in a scope. Subclasses know how to compute an atom of an index."""

    def __init__(self, scope: FunctionScope, declarations: dict[str, str]) -> None:
        self.scope = scope
        self.text = scope.text
        self.arith = scope.arith
        self.declarations = declarations

    def atom(self, atom: Expr) -> SSAValue:
        """The value of what an index is made of."""
        raise NotImplementedError

    def split_lane(self, form: Linear) -> tuple[Linear, int, tuple[tuple[Expr, int], ...]]:
        """A form as (the part all lanes share, step from lane to lane, terms that vary in no such simple way)."""
        lane = self.scope.lane
        if lane is None:
            return form, 0, ()
        own, names = lane.name, self.scope.indices.names
        step = 0
        shared, varying = [], []
        for term in form.terms:
            atom, c = term
            if isinstance(atom, Var):
                if atom.name == own:
                    step = c
                else:
                    shared.append(term)
            elif own in names(atom):
                varying.append(term)
            else:
                shared.append(term)
        return Linear(form.const, tuple(shared)), step, tuple(varying)

    def index(self, form: Linear) -> SSAValue:
        """A linear form in a register: a scalar, or a vector where it depends on the lane."""
        shared, step, varying = self.split_lane(form)
        scalar = self._form_sum(shared)
        if not step and not varying:
            return scalar
        assert self.scope.lane is not None
        width = self.scope.lane.width
        parts = [(lane_numbers(INDEX, width), step)] if step else []
        parts += [(self.arith.widen(self.atom(atom), width), c) for atom, c in varying]
        out = self.arith.widen(scalar, width)
        for part, c in parts:
            out = self._add(out, self._multiply(part, c))
        return out

    def _multiply(self, value: SSAValue, c: int) -> SSAValue:
        if c == 1:
            return value
        flag = "" if self.scope.wraps else "nsw "
        return SSAValue(
            self.text.emit_pure(f"mul {flag}{value.typed}, {constant(c, INDEX, value.width).text}"), INDEX, value.width
        )

    def _add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        if a.text == "0":
            return b
        flag = "" if self.scope.wraps else "nsw "
        return SSAValue(self.text.emit_pure(f"add {flag}{a.typed}, {b.text}"), INDEX, a.width)

    def _levels(self, form: Linear) -> list[tuple[int, list[tuple[Expr, int]]]]:
        """The terms of a form grouped by the level they belong to, outermost first; what is read from memory last."""
        scope = self.scope
        placed = sorted((scope.depth(Linear(0, (term,))), n) for n, term in enumerate(form.terms))
        return [
            (depth, [form.terms[n] for _, n in group]) for depth, group in groupby(placed, key=lambda item: item[0])
        ]

    def _level_sum(self, terms: list[tuple[Expr, int]]) -> SSAValue:
        out = constant(0, INDEX)
        for atom, c in terms:
            out = self._add(out, self._multiply(self.atom(atom), c))
        return out

    def _form_sum(self, form: Linear) -> SSAValue:
        out = constant(0, INDEX)
        for depth, terms in self._levels(form):
            with self.text.emit_at(depth):
                out = self._add(out, self._level_sum(terms))
        return self._add(out, constant(form.const, INDEX)) if form.const or not form.terms else out

    def pointer(self, storage: ArrayPointer, form: Linear) -> str:
        """The address of an element; `form` is free of lanes."""
        element = memory_text(storage.array.dtype)
        base = self._base_address(storage, form.terms, element) if form.terms else storage.pointer
        offset = constant(form.const, INDEX)
        return self.text.emit_pure(f"getelementptr {element}, ptr {base}, {offset.typed}") if form.const else base

    def _base_address(self, storage: ArrayPointer, terms: tuple[tuple[Expr, int], ...], element: str) -> str:
        """The address without its constant part."""
        key = (storage.array.name, terms)
        innermost = self.scope.depth(Linear(0, terms))
        names = self.text.levels[innermost].known.names if innermost != INLINE else {}
        out = names.get(key)
        if out is None:
            out = storage.pointer
            for depth, part in self._levels(Linear(0, terms)):
                with self.text.emit_at(depth):
                    out = self.text.emit_pure(f"getelementptr {element}, ptr {out}, i64 {self._level_sum(part).text}")
            names[key] = out
        return out

    def in_bounds(self, storage: ArrayPointer, form: Linear) -> bool:
        """Whether every iteration, every lane and every untaken side would read memory that is there."""
        lo, hi = self.scope.indices.range(form)
        return lo is not None and hi is not None and lo >= 0 and hi < storage.padded
