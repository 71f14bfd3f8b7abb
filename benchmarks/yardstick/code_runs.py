"""What lowered code does, as straight runs of instructions and how often each of them is executed.

Lowering has decided what the features of a parametric program can only approximate: which loops are unrolled, which
tiles have cases, where conditions and masks are left, which accumulators are in registers. How often code is executed
is estimated from a sample of iterations: extents and conditions may depend on outer loops.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from enum import Enum
from typing import Any

import numpy as np

from metasched.compiler import lir
from metasched.compiler.lir import ArrayKind, LoopMode
from metasched.compiler.policy import vectors_for
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Binary, BinOp, Call, Cast, Const, Expr, Load, Select, Var
from metasched.support.data_classes import dataclass
from metasched.target import Target

Sample = np.ndarray[Any, np.dtype[Any]]

# Iterations that are looked at. Drawn from one seed, so that equal code has equal features.
SAMPLE = 32


class InstructionKind(Enum):
    """Kinds of instructions: vector operations, or scalar ones where nothing is vectorised."""

    MULTIPLY_ADD = "multiply_adds"
    ARITHMETIC = "arithmetic"
    DIVISION = "divisions"
    SPECIAL = "special"
    CHOICE = "choices"
    VECTOR_LOAD = "vector_loads"
    BROADCAST = "broadcasts"
    LANE_LOAD = "lane_loads"
    SCALAR_LOAD = "scalar_loads"
    VECTOR_STORE = "vector_stores"
    LANE_STORE = "lane_stores"
    SCALAR_STORE = "scalar_stores"
    MASK = "masks"
    ITERATION = "iterations"
    BRANCH = "branches"
    PREFETCH = "prefetches"
    TENSOR = "tensor_uses"


@dataclass(frozen=True)
class CodeRun:
    """Straight code: `executions` on the busiest thread, instructions by kind.

    `chain` counts updates of one accumulator in registers that wait for one another, `stored_chain` those of one in
    memory; both are 0 where the code is not the body of a loop.
    """

    executions: float
    counts: Mapping[InstructionKind, float]
    chain: float
    stored_chain: float


@dataclass(frozen=True)
class _Repeated:
    """A variable of code that is repeated: 0, step, 2 * step, ..."""

    var: str
    count: int
    step: int = 1


_Grid = tuple[_Repeated, ...]


@dataclass(frozen=True)
class _Lane:
    """The vectorised loop around code."""

    var: str
    width: int
    masked: bool


@dataclass
class _Run:
    """Straight code that is being counted: the body of the loop over `var`, or of none. `loaded` are the addresses that
    it has read, by array and step.
    """

    executions: Sample
    written: frozenset[str]
    var: str | None = None
    counts: defaultdict[InstructionKind, float] = field(default_factory=lambda: defaultdict(float))
    loaded: dict[tuple[str, int], set[float]] = field(default_factory=dict)
    chain: float = 0.0
    stored_chain: float = 0.0


def code_runs(kernel: lir.LoopProgram, target: Target) -> list[CodeRun]:
    """The straight runs of a kernel's code, those that are never executed left out."""
    walk = _Walk(kernel, target)
    walk.statement(kernel.body, walk.run, (), None)
    runs = []
    for run in walk.runs:
        executions = float(run.executions.mean())
        if executions > 0 and run.counts:
            runs.append(CodeRun(executions, dict(run.counts), run.chain, run.stored_chain))
    return runs


def _copies(grid: _Grid) -> int:
    return math.prod(each.count for each in grid)


class _Walk:
    """Counts what statements do. `env` has a sample of each loop variable."""

    def __init__(self, kernel: lir.LoopProgram, target: Target) -> None:
        self._arrays = {array.name: array for array in kernel.arrays}
        self._target = target
        self._rng = np.random.default_rng(0)
        self._env: dict[str, Sample] = {}
        self._names: dict[Expr, frozenset[str]] = {}
        self._evaluators: dict[Expr, Evaluator | None] = {}
        self._written: dict[lir.LStmt, frozenset[str]] = {}
        self.run = _Run(np.ones(SAMPLE), frozenset())
        self.runs = [self.run]

    def statement(self, stmt: lir.LStmt, run: _Run, grid: _Grid, lane: _Lane | None) -> None:
        """Count a statement that is repeated over `grid` in straight code."""
        if isinstance(stmt, lir.Body | lir.Region):
            for child in stmt.stmts if isinstance(stmt, lir.Body) else stmt.phases:
                self.statement(child, run, grid, lane)
        elif isinstance(stmt, lir.Loop):
            self._loop(stmt, run, grid, lane)
        elif isinstance(stmt, lir.VectorLoop):
            self._vector_loop(stmt, run, grid, lane)
        elif isinstance(stmt, lir.If):
            self._condition(stmt, run, grid, lane)
        elif isinstance(stmt, lir.AtPlace):
            self._walk_place(stmt, run, grid, lane)
        elif isinstance(stmt, lir.Write):
            self._write(stmt, run, grid, lane)
        elif isinstance(stmt, lir.ArgReduction):
            run.counts[InstructionKind.ARITHMETIC] += 3 * _copies(grid)
        elif isinstance(stmt, lir.Prefetch):
            run.counts[InstructionKind.PREFETCH] += _copies(grid)
        elif isinstance(stmt, lir.IntrinsicCall | lir.TileMove):
            run.counts[InstructionKind.TENSOR] += _copies(grid)

    # --- loops

    def _loop(self, loop: lir.Loop, run: _Run, grid: _Grid, lane: _Lane | None) -> None:
        extent = np.maximum(self._value(loop.extent, 2.0), 0.0)
        if loop.mode is LoopMode.UNROLLED:
            with self._with_values(loop.var, np.zeros(SAMPLE, np.int64)):
                self.statement(loop.body, run, (*grid, _Repeated(loop.var, int(extent[0]))), lane)
            return
        shared = np.ones(SAMPLE)
        if loop.mode is LoopMode.PARALLEL:
            threads = float(max(self._target.threads, 1))
            shared = np.ceil(extent / threads) / np.maximum(extent, 1.0)
        self._iterate(loop.var, extent, shared, loop.body, run, grid, lane, 1)

    def _iterate(
        self,
        var: str,
        iterations: Sample,
        shared: Sample,
        body: lir.LStmt,
        run: _Run,
        grid: _Grid,
        lane: _Lane | None,
        step: int,
    ) -> None:
        """A loop that stays one. One of a single iteration leaves nothing but its body."""
        if (iterations == 1).all():
            with self._with_values(var, np.zeros(SAMPLE, np.int64)):
                self.statement(body, run, grid, lane)
            return
        inside = self._open_run(run.executions * iterations * shared * _copies(grid), body, var)
        inside.counts[InstructionKind.ITERATION] += 1
        # As many from each part of a loop (a Latin hypercube): the first and last iterations are others, often.
        at = (self._rng.permutation(SAMPLE) + self._rng.random(SAMPLE)) / SAMPLE
        drawn = np.floor(at * np.maximum(iterations, 1.0)).astype(np.int64)
        with self._with_values(var, drawn * step):
            self.statement(body, inside, (), lane)

    def _open_run(self, executions: Sample, body: lir.LStmt, var: str | None) -> _Run:
        run = _Run(executions, self._writes(body), var)
        self.runs.append(run)
        return run

    def _vector_loop(self, loop: lir.VectorLoop, run: _Run, grid: _Grid, lane: _Lane | None) -> None:
        extent = np.maximum(self._value(loop.extent, float(loop.lanes)), 0.0)
        one = np.ones(SAMPLE)
        if lane is not None:
            self._iterate(loop.var, extent, one, loop.body, run, grid, lane, 1)
            return
        whole = np.floor(extent / loop.lanes)
        rest = extent - whole * loop.lanes
        known, full = isinstance(loop.extent, Const), _Lane(loop.var, loop.lanes, masked=False)
        if known and (loop.unroll_strips or whole[0] <= 1):
            strips = (*grid, _Repeated(loop.var, int(whole[0]), loop.lanes)) if whole[0] > 1 else grid
            if whole[0]:
                self._strip(loop, run, strips, full)
        else:
            self._iterate(loop.var, whole, one, loop.body, run, grid, full, loop.lanes)
        if not rest.any():
            return
        if known:
            width = 1 << (int(rest[0]) - 1).bit_length()
            self._strip(loop, run, grid, _Lane(loop.var, min(width, loop.lanes), masked=width != rest[0]))
            return
        tail = self._open_run(run.executions * (rest > 0) * _copies(grid), loop.body, None)
        tail.counts[InstructionKind.BRANCH] += 1
        self._strip(loop, tail, (), _Lane(loop.var, loop.lanes, masked=True))

    def _strip(self, loop: lir.VectorLoop, run: _Run, grid: _Grid, lane: _Lane) -> None:
        with self._with_values(loop.var, np.zeros(SAMPLE, np.int64)):
            self.statement(loop.body, run, grid, lane)

    def _condition(self, stmt: lir.If, run: _Run, grid: _Grid, lane: _Lane | None) -> None:
        used = self._variables(stmt.cond)
        over = tuple(each for each in grid if each.var in used)
        if lane is not None and lane.var in used:
            run.counts[InstructionKind.MASK] += _copies(over)
            self.statement(stmt.body, run, grid, _Lane(lane.var, lane.width, masked=True))
            return
        values = self._values_over(stmt.cond, over)
        share = np.full(SAMPLE, 0.5) if values is None else values.mean(axis=0)
        if used & self._env.keys() - {each.var for each in grid}:
            run.counts[InstructionKind.BRANCH] += _copies(over)
        inside = self._open_run(run.executions * share, stmt.body, run.var)
        self.statement(stmt.body, inside, grid, lane)

    def _walk_place(self, stmt: lir.AtPlace, run: _Run, grid: _Grid, lane: _Lane | None) -> None:
        """Data is not known: the places are any."""
        loads: list[Load] = []
        for kind, count in _operations(stmt.place, loads).items():
            run.counts[kind] += count * _copies(grid)
        for load in loads:
            self._load(load, run, grid, lane, 1.0)
        run.counts[InstructionKind.BRANCH] += _copies(grid)
        with self._with_values(stmt.var, self._rng.integers(0, stmt.extent, SAMPLE)):
            self.statement(stmt.body, run, grid, lane)

    # --- writes

    def _write(self, stmt: lir.Write, run: _Run, grid: _Grid, lane: _Lane | None) -> None:
        array, copies = self._arrays[stmt.array], _copies(grid)
        vectors = 1.0
        if lane is not None:
            vectors = float(vectors_for(lane.width, 8 * array.dtype.bytes, self._target.vector_bits))
        loads: list[Load] = []
        for kind, count in _operations(stmt.value, loads).items():
            run.counts[kind] += count * copies * vectors
        for load in loads:
            self._load(load, run, grid, lane, vectors)
        if array.kind not in _REGISTERS:
            step = self._step(stmt.index, lane)
            run.counts[_STORES[step]] += copies * _instructions(step, lane, vectors)
            run.counts[InstructionKind.MASK] += copies * _masks(step, lane, vectors)
        if run.var is not None and Load(stmt.array, (stmt.index,), array.dtype) in loads:
            self._chain(stmt, run, grid)

    def _chain(self, stmt: lir.Write, run: _Run, grid: _Grid) -> None:
        """Updates of the same element wait for one another: those in one execution, and those of the next one."""
        used = self._variables(stmt.index)
        values = self._values_over(stmt.index, tuple(each for each in grid if each.var in used))
        each = _copies(grid) / (1 if values is None else len(np.unique(values[:, 0])))
        if run.var in used and each <= 1:
            return
        if self._arrays[stmt.array].kind in _REGISTERS:
            run.chain = max(run.chain, each)
        else:
            run.stored_chain = max(run.stored_chain, each)

    def _load(self, load: Load, run: _Run, grid: _Grid, lane: _Lane | None, vectors: float) -> None:
        """A load in straight code is made once, unless what it reads is written there."""
        if self._arrays[load.buffer].kind in _REGISTERS:
            return
        index, step = load.indices[0], self._step(load.indices[0], lane)
        times = float(_copies(grid))
        if load.buffer not in run.written and step <= 1:
            used = self._variables(index)
            values = self._values_over(index, tuple(each for each in grid if each.var in used))
            if values is not None:
                loaded = run.loaded.setdefault((load.buffer, step), set())
                new = set(values[:, 0].tolist()) - loaded
                loaded |= new
                times = float(len(new))
        run.counts[_LOADS[step]] += times * _instructions(step, lane, vectors)
        run.counts[InstructionKind.MASK] += times * _masks(step, lane, vectors)

    def _step(self, index: Expr, lane: _Lane | None) -> int:
        """Elements between neighbouring lanes: 0, 1, or 2 for anything else; -1 for scalar code."""
        if lane is None:
            return _SCALAR
        if lane.var not in self._variables(index):
            return 0
        if self._divides(index, lane.var):
            return 2  # emission does not know how far its elements are from one another
        here = self._values_over(index, ())
        with self._with_values(lane.var, self._env[lane.var] + 1):
            there = self._values_over(index, ())
        if here is None or there is None:
            return 2
        return min(int(abs(there[0, 0] - here[0, 0])), 2)

    # --- expressions

    @contextmanager
    def _with_values(self, var: str, values: Sample) -> Iterator[None]:
        before = self._env.get(var)
        self._env[var] = values
        try:
            yield
        finally:
            if before is None:
                del self._env[var]
            else:
                self._env[var] = before

    def _value(self, expr: Expr, unknown: float) -> Sample:
        """An expression over the sample; `unknown` where it depends on data."""
        values = self._values_over(expr, ())
        return np.full(SAMPLE, unknown) if values is None else values[0].astype(np.float64)

    def _values_over(self, expr: Expr, grid: _Grid) -> Sample | None:
        """An expression over a grid and the sample: (copies, SAMPLE). None for one of data or of scalar arguments."""
        evaluator = self._evaluator(expr)
        if evaluator is None or self._variables(expr) - self._env.keys():
            return None
        copies, env = _copies(grid), dict(self._env)
        at = np.arange(copies)[:, None]
        for each in reversed(grid):
            env[each.var] = at % each.count * each.step
            at = at // each.count
        return np.broadcast_to(np.asarray(evaluator(env)[0]), (copies, SAMPLE))

    def _evaluator(self, expr: Expr) -> Evaluator | None:
        if expr not in self._evaluators:
            of_data = any(isinstance(node, Load | Call | Cast) for node in expr.walk())
            self._evaluators[expr] = None if of_data else Evaluator([expr])
        return self._evaluators[expr]

    def _divides(self, index: Expr, var: str) -> bool:
        """Whether an index has a quotient or a remainder of a variable."""
        quotients = (node for node in index.walk() if isinstance(node, Binary) and node.op in _QUOTIENTS)
        return any(var in self._variables(node) for node in quotients)

    def _variables(self, expr: Expr) -> frozenset[str]:
        found = self._names.get(expr)
        if found is None:
            found = frozenset(node.name for node in expr.walk() if isinstance(node, Var))
            self._names[expr] = found
        return found

    def _writes(self, stmt: lir.LStmt) -> frozenset[str]:
        found = self._written.get(stmt)
        if found is None:
            found = frozenset(node.array for node in stmt.walk() if isinstance(node, lir.Write))
            self._written[stmt] = found
        return found


_SCALAR = -1
_QUOTIENTS = (BinOp.FLOORDIV, BinOp.MOD)
_LOADS = {
    _SCALAR: InstructionKind.SCALAR_LOAD,
    0: InstructionKind.BROADCAST,
    1: InstructionKind.VECTOR_LOAD,
    2: InstructionKind.LANE_LOAD,
}
_STORES = {
    _SCALAR: InstructionKind.SCALAR_STORE,
    0: InstructionKind.SCALAR_STORE,
    1: InstructionKind.VECTOR_STORE,
    2: InstructionKind.LANE_STORE,
}
_REGISTERS = (ArrayKind.REGISTER, ArrayKind.TILE)


def _instructions(step: int, lane: _Lane | None, vectors: float) -> float:
    """How many instructions an access takes: one for each vector, or for each lane."""
    if step == 1:
        return vectors
    return float(lane.width) if lane is not None and step > 1 else 1.0


def _masks(step: int, lane: _Lane | None, vectors: float) -> float:
    """How many masks an access takes."""
    return vectors if lane is not None and lane.masked and step == 1 else 0.0


def _operations(value: Expr, loads: list[Load]) -> Counter[InstructionKind]:
    """The operations of an expression by kind; its loads are added to `loads`."""
    counts: Counter[InstructionKind] = Counter()
    pending = [value]
    while pending:
        expr = pending.pop()
        if isinstance(expr, Load):
            loads.append(expr)
            continue
        if not any(isinstance(node, Load | Call) for node in expr.walk()):
            continue  # index arithmetic, most of which is computed outside
        product = _product(expr)
        if product is not None:
            counts[InstructionKind.MULTIPLY_ADD] += 1
            pending += product
            continue
        counts[_kind(expr)] += 1
        pending += [child for child in expr.children() if isinstance(child, Expr)]
    return counts


def _product(expr: Expr) -> tuple[Expr, Expr, Expr] | None:
    """The operands of `a * b + c`."""
    if not (isinstance(expr, Binary) and expr.op is BinOp.ADD):
        return None
    for product, other in ((expr.a, expr.b), (expr.b, expr.a)):
        if isinstance(product, Binary) and product.op is BinOp.MUL:
            return product.a, product.b, other
    return None


def _kind(expr: Expr) -> InstructionKind:
    if isinstance(expr, Binary) and expr.op in (BinOp.DIV, *_QUOTIENTS):
        return InstructionKind.DIVISION
    if isinstance(expr, Call):
        return InstructionKind.SPECIAL
    return InstructionKind.CHOICE if isinstance(expr, Select | Cast) else InstructionKind.ARITHMETIC
