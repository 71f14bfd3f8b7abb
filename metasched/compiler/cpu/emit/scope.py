"""What the emitter knows at a point of a function: variables, arrays, the vector lane, and conditions in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from metasched.compiler.cpu.emit.arith import Arithmetic
from metasched.compiler.cpu.emit.indices import Indices
from metasched.compiler.cpu.emit.text import INLINE, FunctionText
from metasched.compiler.cpu.emit.types import SSAValue
from metasched.compiler.lir import Array, ArrayKind
from metasched.dtypes import DType
from metasched.ir.integers.linear import Linear
from metasched.ir.nodes import Expr, Var
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

# Bytes that may be read past the end of a workspace or register array: one vector of the widest kind.
PADDING = 64


@dataclass(frozen=True)
class ArrayPointer:
    """An array and the pointer to its first element."""

    array: Array
    pointer: str

    @property
    def padded(self) -> int:
        """Elements that may be read: arrays that we allocate ourselves have some memory past their end."""
        if self.array.kind in (ArrayKind.INPUT, ArrayKind.OUTPUT):
            return self.array.size
        return self.array.size + PADDING // self.array.dtype.bytes


@dataclass(frozen=True)
class Lane:
    """The vector context: iterations `var` = strip + 0 .. width-1 at once.

    `active` is how many of them exist, where that is known; `mask` says which, None for all. `is_tail` is of what
    is left after whole vectors.
    """

    var: str
    width: int
    active: int | None = None
    mask: SSAValue | None = None
    is_tail: bool = False

    @cached_property
    def name(self) -> str:
        return f"{self.var}.lane{self.width}"


@dataclass(frozen=True)
class Predicate:
    """A condition under which code runs, though it is emitted without a branch, and what it is the value of."""

    cond: SSAValue
    source: Expr
    negated: bool


@dataclass(frozen=True)
class UnrolledLoop:
    """An unrolled loop whose iterations are straight code, one after another, from iteration `at` on.

    `written` are the arrays that they write.
    """

    var: str
    at: int
    extent: int
    written: frozenset[str]


@dataclass
class FunctionScope:
    """State of the emission of one function."""

    text: FunctionText
    arith: Arithmetic
    indices: Indices
    arrays: Mapping[str, ArrayPointer]
    wraps: bool = False  # as in `lir.Kernel`
    variables: dict[str, tuple[SSAValue, int]] = field(default_factory=dict)
    lane: Lane | None = None
    guards: list[Predicate] = field(default_factory=list)
    unrolled: list[UnrolledLoop] = field(default_factory=list)

    @contextmanager
    def enter_lanes(self, lane: Lane, strip: Linear) -> Iterator[None]:
        """Iterations strip + lane of a vector loop, at once."""
        value = Linear(strip.const, (*strip.terms, (Var(lane.name), 1)))
        self.lane = lane
        with self.indices.bind_range(lane.name, (0, lane.width - 1)), self.indices.bind_value(lane.var, value):
            try:
                yield
            finally:
                self.lane = None

    @contextmanager
    def push_guard(self, cond: SSAValue, source: Expr, *, negated: bool = False) -> Iterator[None]:
        """Emit what is inside under a guard: where `cond`, the value of `source`, holds (or does not)."""
        self.guards.append(Predicate(cond, source, negated))
        try:
            yield
        finally:
            self.guards.pop()

    @contextmanager
    def enter_iteration(self, loop: UnrolledLoop | None) -> Iterator[None]:
        """An iteration of a loop of straight code; None for code that is not straight."""
        outer = self.unrolled
        self.unrolled = [] if loop is None else [*outer, loop]
        try:
            yield
        finally:
            self.unrolled = outer

    @contextmanager
    def bind_variable(self, name: str, value: SSAValue, depth: int) -> Iterator[None]:
        """A loop variable in an SSA value of a level."""
        self.variables[name] = (value, depth)
        try:
            yield
        finally:
            del self.variables[name]

    def depth(self, form: Linear) -> int:
        """The innermost level that a linear form without lanes depends on; INLINE if it reads memory."""
        deepest = 0
        for atom, _ in form.terms:
            if not isinstance(atom, Var) and self.indices.reads(atom):
                return INLINE
            for name in (atom.name,) if isinstance(atom, Var) else self.indices.names(atom):
                depth = self.variables[name][1]
                deepest = max(deepest, depth)
        return deepest

    def mask(self) -> SSAValue | None:
        """The lanes that run, as a vector of bools; None for all of them."""
        if self.lane is None:
            raise AssertionError("a mask outside a vector loop")
        out = self.lane.mask
        for guard in self.guards:
            cond = self.arith.widen(self._guard_value(guard), self.lane.width)
            out = cond if out is None else self._and(out, cond)
        return out

    def shared_predicate(self) -> SSAValue | None:
        """Whether any lane may run, by the conditions that all lanes share; None where there are none."""
        out: SSAValue | None = None
        for guard in self.guards:
            if not guard.cond.width:
                cond = self._guard_value(guard)
                out = cond if out is None else self._and(out, cond)
        return out

    def predicate(self) -> SSAValue | None:
        """Whether code outside the lanes runs; None when it always does."""
        out: SSAValue | None = None
        for guard in self.guards:
            cond = self._guard_value(guard)
            if cond.width:
                cond = self._any_lane(cond)
            out = cond if out is None else self._and(out, cond)
        return out

    def _guard_value(self, guard: Predicate) -> SSAValue:
        return self.arith.invert(guard.cond) if guard.negated else guard.cond

    def _and(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return SSAValue(self.text.emit_pure(f"and {a.typed}, {b.text}"), DType.BOOL, a.width)

    def _any_lane(self, cond: SSAValue) -> SSAValue:
        return SSAValue(self.arith.any_lane(cond), DType.BOOL)
