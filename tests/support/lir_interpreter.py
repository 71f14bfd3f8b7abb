"""Runs the low-level program in Python, strictly: every access is in bounds, nothing is read before it is written,
lanes of a vector run in lockstep and may not disagree about an element, parallel iterations run last to first with
per-thread arrays forgotten in between, and register arrays are indexed by unrolled loops and lanes only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from metasched.compiler import lir
from metasched.compiler.lir import ArrayKind, LoopMode
from metasched.dtypes import DType
from metasched.ir.integers.affine import free_vars
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Load, Reducer, Var
from metasched.reference.interpreter import ExpressionSource, wins


class LirError(AssertionError):
    pass


def can_run(kernel: lir.LoopProgram) -> bool:
    """Whether all of a kernel works on elements: a tensor intrinsic is an instruction of a machine."""
    return not any(isinstance(node, lir.IntrinsicCall) for node in kernel.body.walk())


class LirInterpreter:
    def __init__(self, kernel: lir.LoopProgram, arguments: dict[str, np.ndarray], scalars: dict[str, object]) -> None:
        self.kernel = kernel
        self.kinds = {a.name: a.kind for a in kernel.arrays}
        self.data: dict[str, np.ndarray] = {}
        self.written: dict[str, np.ndarray] = {}
        for a in kernel.arrays:
            if a.kind is ArrayKind.INPUT:
                self.data[a.name] = arguments[a.name].reshape(-1)
                self.written[a.name] = np.ones(a.size, bool)
            else:
                self.data[a.name] = np.zeros(a.size, a.dtype.numpy)
                self.written[a.name] = np.zeros(a.size, bool)
            assert self.data[a.name].size == a.size, a
        self.scalars = scalars
        self.strips: dict[Expr, Expr] = {}
        self.executed = 0
        self.statements: dict[str, int] = {}
        self.evaluator = _Evaluator(self)
        self.functions: dict[Expr, Callable[[dict[str, object]], object]] = {}

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self.stmt(self.kernel.body, [dict(self.scalars)], frozenset())

    def stmt(self, stmt: lir.LStmt, lanes: list[dict[str, object]], constant: frozenset[str]) -> None:
        if isinstance(stmt, lir.Body):
            for child in stmt.stmts:
                self.stmt(child, lanes, constant)
        elif isinstance(stmt, lir.Region):
            for phase in stmt.phases:
                assert phase.mode is LoopMode.PARALLEL
                self.stmt(phase, lanes, constant)
        elif isinstance(stmt, lir.If | lir.AtPlace):
            active = self.active(stmt, lanes)
            if active:
                self.stmt(stmt.body, active, constant)
        elif isinstance(stmt, lir.Loop):
            self.loop(stmt, lanes, constant)
        elif isinstance(stmt, lir.VectorLoop):
            self.vector(stmt, lanes, constant)
        elif isinstance(stmt, lir.ArgReduction):
            self.best(stmt, lanes, constant)
        elif not isinstance(stmt, lir.Prefetch | lir.Reread):
            assert isinstance(stmt, lir.Write)
            self.write(stmt, lanes, constant)

    def active(self, stmt: lir.If | lir.AtPlace, lanes: list[dict[str, object]]) -> list[dict[str, object]]:
        """The lanes in which what is under a condition runs."""
        if isinstance(stmt, lir.If):
            return [env for env in lanes if self.value(stmt.cond, env)]
        if len(lanes) != 1:
            raise LirError("a place inside a vector loop")
        place = self.number(stmt.place, lanes[0])
        return [{**lanes[0], stmt.var: place}] if 0 <= place < stmt.extent else []

    def number(self, e: Expr, env: dict[str, object]) -> int:
        return int(self.value(e, env))  # type: ignore[call-overload, no-any-return]

    def extent(self, e: Expr, lanes: list[dict[str, object]]) -> int:
        extents = {self.number(e, env) for env in lanes}
        if len(extents) != 1:
            raise LirError("an extent differs between lanes")
        return extents.pop()

    def loop(self, loop: lir.Loop, lanes: list[dict[str, object]], constant: frozenset[str]) -> None:
        extent = self.extent(loop.extent, lanes)
        order = range(extent)
        if loop.mode is LoopMode.UNROLLED:
            if free_vars(loop.extent):
                raise LirError(f"unrolled loop {loop.var} has no constant extent")
            constant = constant | {loop.var}
        if loop.mode is LoopMode.PARALLEL:
            order = reversed(order)  # type: ignore[assignment]
        registers = {name: self.written[name].copy() for name, kind in self.kinds.items() if kind is ArrayKind.REGISTER}
        for i in order:
            if loop.mode is LoopMode.PARALLEL:
                for name, kind in self.kinds.items():
                    if kind in (ArrayKind.THREAD, ArrayKind.REGISTER):
                        self.written[name][:] = False
            self.stmt(loop.body, [{**env, loop.var: i} for env in lanes], constant)
        if loop.mode is LoopMode.PARALLEL:
            self.written.update(registers)  # those of who started the loop are still there

    def vector(self, loop: lir.VectorLoop, lanes: list[dict[str, object]], constant: frozenset[str]) -> None:
        if len(lanes) != 1 and any(free_vars(loop.extent)):
            raise LirError("a vector loop inside a vector loop")
        extent = self.extent(loop.extent, lanes)
        if loop.unroll_strips and free_vars(loop.extent):
            raise LirError(f"strips of {loop.var} are unrolled without a constant extent")
        if extent == loop.lanes and _is_fold(loop):
            # Its lanes come one after the other: in which order does not matter.
            for i in range(extent):
                self.stmt(loop.body, [{**env, loop.var: i} for env in lanes], constant | {loop.var})
            return
        self.strips[Var(loop.var)] = Const(loop.lanes)
        inner = constant | {loop.var} if loop.unroll_strips else constant
        for start in range(0, extent, loop.lanes):
            strip = range(start, min(start + loop.lanes, extent))
            self.stmt(loop.body, [{**lanes[0], loop.var: i} for i in strip], inner)

    def best(self, stmt: lir.ArgReduction, lanes: list[dict[str, object]], constant: frozenset[str]) -> None:
        """Both elements are written, whether or not what is new comes before what is there."""
        reducer = Reducer.ARGMAX if stmt.better is BinOp.GT else Reducer.ARGMIN
        targets = (stmt.values, stmt.positions)
        self.check_registers([*targets, stmt.value, stmt.position], constant)
        found = []
        for env in lanes:
            new = [self.value(stmt.value, env), self.value(stmt.position, env)]
            old = [self.value(target, env) for target in targets]
            if stmt.rising and old[1] > new[1]:  # type: ignore[operator]
                raise LirError(f"position {new[1]} comes after {old[1]}")
            found.append(new if wins(reducer, new, old) else old)
        for n, target in enumerate(targets):
            self.put(target.buffer, target.indices[0], [pair[n] for pair in found], lanes)

    def write(self, stmt: lir.Write, lanes: list[dict[str, object]], constant: frozenset[str]) -> None:
        self.check_registers([Load(stmt.array, (stmt.index,), DType.F32), stmt.value], constant)
        self.put(stmt.array, stmt.index, [self.value(stmt.value, env) for env in lanes], lanes)

    def check_registers(self, accesses: list[Expr], constant: frozenset[str]) -> None:
        for e in (node for access in accesses for node in access.walk()):
            if isinstance(e, Load) and self.kinds[e.buffer] is ArrayKind.REGISTER:
                loose = self.varying(e.indices[0]) - constant
                if loose:
                    raise LirError(f"register array {e.buffer} is indexed by {set(loose)}")

    def put(self, array: str, index: Expr, values: list[object], lanes: list[dict[str, object]]) -> None:
        self.statements[array] = self.statements.get(array, 0) + 1
        self.executed += 1
        places = [self.at(array, index, env) for env in lanes]
        seen: dict[int, object] = {}
        for at, value in zip(places, values, strict=True):
            if at in seen and not np.array_equal(seen[at], value, equal_nan=True):  # type: ignore[arg-type]
                raise LirError(f"lanes disagree about {array}[{at}]")
            seen[at] = value
            self.data[array][at] = value
            self.written[array][at] = True

    def varying(self, e: Expr) -> frozenset[str]:
        """The variables of an index, less those of vector loops of which only the lane counts."""
        if isinstance(e, Binary) and e.op is BinOp.MOD and e.b == self.strips.get(e.a):
            return frozenset()
        names = [self.varying(child) for child in e.children() if isinstance(child, Expr)]
        return frozenset({e.name}) if isinstance(e, Var) else frozenset[str]().union(*names)

    def at(self, name: str, index: Expr, env: dict[str, object]) -> int:
        return self.place(name, self.number(index, env))

    def place(self, name: str, at: int) -> int:
        if not 0 <= at < self.data[name].size:
            raise LirError(f"{name}[{at}] is outside {self.data[name].size} elements")
        return at

    def value(self, e: Expr, env: dict[str, object]) -> object:
        function = self.functions.get(e)
        if function is None:
            function = self.functions[e] = self.evaluator.function(e)
        return function(env)


def _is_fold(loop: lir.VectorLoop) -> bool:
    """Whether all lanes update one element."""
    write = loop.body
    if isinstance(write, lir.ArgReduction):
        return loop.var not in free_vars(write.values) | free_vars(write.positions)
    if not isinstance(write, lir.Write) or loop.var in free_vars(write.index) or not isinstance(write.value, Binary):
        return False
    a = write.value.a
    return isinstance(a, Load) and a.buffer == write.array and a.indices == (write.index,)


# Loops are shorter, so that what is computed of their variables alone does not wrap.
_LONGEST_LOOP = 2**31


class _Evaluator(ExpressionSource):
    """The reference's expressions over flat arrays, as functions of the variables of a lane."""

    def __init__(self, owner: LirInterpreter) -> None:
        super().__init__()
        self.owner = owner
        self.names["read"] = self.read

    def function(self, e: Expr) -> Callable[[dict[str, object]], object]:
        text = self.value(e)
        exec("".join(self.functions), self.names)
        self.functions.clear()
        made: Callable[[dict[str, object]], object] = eval(f"lambda env: {text}", self.names)  # noqa: S307
        return made

    def variable(self, name: str) -> str:
        return f"env[{name!r}]"

    def reach(self, name: str) -> int | None:
        return None if name in self.owner.scalars else _LONGEST_LOOP

    def parameters(self, text: str) -> list[str]:
        return ["env"]

    def load(self, name: str, indices: tuple[Expr, ...]) -> str:
        return f"read({name!r}, {self.value(indices[0])})"

    def read(self, name: str, index: int) -> object:
        at = self.owner.place(name, int(index))
        if not self.owner.written[name][at]:
            raise LirError(f"{name}[{at}] is read before it is written")
        return self.owner.data[name][at]


def run_lir(
    kernel: lir.LoopProgram, inputs: list[np.ndarray], scalars: dict[str, object] | None = None
) -> LirInterpreter:
    """Runs `kernel`; the results are in `.data` of what comes back, by array name, flat."""
    names = [a.name for a in kernel.arrays if a.kind is ArrayKind.INPUT]
    machine = LirInterpreter(kernel, dict(zip(names, inputs, strict=True)), scalars or {})
    machine.run()
    for a in kernel.arrays:
        if a.kind is ArrayKind.OUTPUT and not machine.written[a.name].all():
            raise LirError(f"output {a.name} is not written entirely")
    return machine
