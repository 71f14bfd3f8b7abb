"""The reference as plain Numba loops: the program written out as sequential Python source, then `njit`.

No fastmath, no parallel loops, one statement for each operation. An access is checked against its buffer's shape
unless affine bounds prove it inside; a read of a buffer that is not an input, against its flags of written
elements. Each outer nest is a function of its own: compiling takes more than twice as long for twice the nests. Two
things make it fast enough for programs of a billion terms and change no result:

* where all the stages that write a buffer precede the nest that reads it, the flags are tested once before that nest;
  only if some element is missing there is a test at each read, which finds out whether it is read;
* in a perfect nest, the innermost loop that only chooses elements moves inside the reduction loops. The terms of each
  element are still added in the order of the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from metasched.dtypes import DType
from metasched.functions.registry import functions
from metasched.ir import query
from metasched.ir.affine import ZERO, const, free_vars, simplify, substitute
from metasched.ir.data import depends_on_data
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Func,
    IterKind,
    Load,
    Reducer,
    Select,
    Seq,
    Stmt,
    Store,
    Unary,
    UnOp,
    Var,
    no_position,
)
from metasched.ir.ranges import prove
from metasched.reference.conversions import conversions
from metasched.reference.memory import lifetimes, outer_nests
from metasched.reference.state import ExecutionError, State, concrete_shape, initialisation


def run_numba(func: Func, state: State) -> None:
    """Run `func` on the arrays of `state`. Raises ExecutionError."""
    arrays = {b.name: state.arrays[b.name].astype(b.dtype.compute.numpy, copy=False) for b in func.buffers()}
    for buffer in func.outputs:
        state.written[buffer.name][...] = False
    begins = {name: first for name, (first, _) in lifetimes(func).items()}
    for number, nest in enumerate(outer_nests(func)):
        for name, first in begins.items():
            if first == number:
                state.written[name][...] = False
        _run_nest(_only(func, nest), state, arrays)
    for buffer in func.outputs:
        if buffer.dtype.is_half:
            state.arrays[buffer.name][...] = arrays[buffer.name]


def _only(func: Func, nest: Stmt) -> Func:
    """The program of one nest, with the buffers that it uses."""
    used = {node.buffer for node in nest.walk() if isinstance(node, Load | Store)}

    def those(buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        return tuple(b for b in buffers if b.name in used)

    return replace(
        func, inputs=those(func.inputs), outputs=those(func.outputs), temps=those(func.temps), order=(), body=nest
    )


def _run_nest(part: Func, state: State, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    inside = query.blocks_under(part.body)
    own = frozenset[str]().union(*(query.written(b) for b in inside))
    flags = {b.name: state.written[b.name] for b in part.outputs + part.temps}
    kernel, sites = _compile(part, frozenset(n for n, flag in flags.items() if n not in own and flag.all()))
    scalars = (state.scalars[s.name] for s in part.scalars)
    failed = kernel(*(arrays[b.name] for b in part.buffers()), *flags.values(), *scalars)
    if failed:
        raise ExecutionError(sites[failed - 1])


_WRAPPING = MappingProxyType(
    {
        BinOp.ADD: "add_i64",
        BinOp.SUB: "sub_i64",
        BinOp.MUL: "mul_i64",
        BinOp.FLOORDIV: "floordiv_i64",
        BinOp.MOD: "mod_i64",
    }
)

# Loops that end, times smaller numbers, stay in 64 bits.
_LARGE = 2**31

# Numba would take it for an unsigned number.
_LOWEST = -(2**63)


@lru_cache(maxsize=256)
def _compile(part: Func, complete: frozenset[str]) -> tuple[Callable[..., int], tuple[str, ...]]:
    writer = SourceWriter(part, complete)
    return _compiled(writer.source), tuple(writer.sites)


@lru_cache(maxsize=256)
def _compiled(source: str) -> Callable[..., int]:
    import numba

    namespace: dict[str, Any] = {"np": np, "math": math, "lowest_i64": np.int64(_LOWEST), **conversions()}
    exec(compile(source, "<reference>", "exec"), namespace)
    compiled: Callable[..., int] = numba.njit(error_model="numpy", nogil=True)(namespace["kernel"])
    return compiled


class SourceWriter:
    """`source` defines `kernel(*buffers, *flags, *scalars) -> int`: 0, or 1 + the number of the failed site.

    Reads of `complete` buffers, all of whose elements are written, are not tested.
    """

    def __init__(self, func: Func, complete: frozenset[str] = frozenset()) -> None:
        self.sites: list[str] = []
        self._lines: list[str] = []
        self._depth = 1
        self._count = 0
        self._buffers = {b.name: f"b{n}" for n, b in enumerate(func.buffers())}
        self._flags = {b.name: f"w{n}" for n, b in enumerate(func.outputs + func.temps)}
        self._shapes = {b.name: concrete_shape(b) for b in func.buffers()}
        scalars = {s.name: f"s{n}" for n, s in enumerate(func.scalars)}
        self._scalars = scalars
        self._loops = dict(scalars)
        self._ranges: dict[str, Expr] = {}
        self._bindings: dict[str, Expr] = {}
        self._complete = complete
        params = [*self._buffers.values(), *self._flags.values(), *scalars.values()]
        self._stmt(elements_inside(func.body))
        self._line("return 0")
        self.source = f"def kernel({', '.join(params)}):\n" + "\n".join(self._lines) + "\n"

    # --- lines -------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _fresh(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def _let(self, text: str) -> str:
        name = self._fresh()
        self._line(f"{name} = {text}")
        return name

    def _fail_if(self, cond: str, message: str) -> None:
        self.sites.append(message)
        self._line(f"if {cond}:")
        self._line(f"    return {len(self.sites)}")

    # --- statements --------------------------------------------------------------------------------------

    def _stmt(self, stmt: Stmt) -> None:
        if isinstance(stmt, Seq):
            for child in stmt.stmts:
                self._stmt(child)
        elif isinstance(stmt, For):
            name = self._fresh()
            self._loops[stmt.var] = name
            self._ranges[stmt.var] = stmt.extent
            self._line(f"for {name} in range({self._expr(stmt.extent, self._loops)}):")
            self._depth += 1
            self._stmt(stmt.body)
            self._depth -= 1
        elif isinstance(stmt, Block):
            self._block(stmt)
        else:
            raise TypeError(f"not a statement: {stmt!r}")

    def _when(self, conditions: list[str], body: Callable[[], None]) -> None:
        depth = self._depth
        if conditions:
            self._line(f"if {' and '.join(conditions)}:")
            self._depth += 1
        body()
        self._depth = depth

    def _block(self, block: Block) -> None:
        env = dict(self._scalars)
        self._bindings = {}
        for variable, binding in zip(block.iters, block.bindings, strict=True):
            env[variable.name] = self._let(self._expr(binding, self._loops))
            self._bindings[variable.name] = binding
        if block.init is not None:
            zero, guards = initialisation(block)
            conditions = [f"{self._expr(e, self._loops)} == 0" for e in zero]
            conditions += [self._expr(g, self._loops) for g in guards]
            self._when(conditions, lambda: self._init(block, env))
        self._when([self._expr(g, self._loops) for g in block.guards], lambda: self._update(block, env))

    def _init(self, block: Block, env: Mapping[str, str]) -> None:
        assert block.init is not None
        at = self._element(block.store.buffer, block.store.indices, env)
        self._line(f"{self._buffers[block.store.buffer]}[{at}] = {self._expr(block.init, env)}")
        self._line(f"{self._flags[block.store.buffer]}[{at}] = True")
        if block.index is not None:
            name = block.index.buffer
            self._line(f"{self._buffers[name]}[{at}] = {_literal(no_position(block.index.value.dtype))}")
            self._line(f"{self._flags[name]}[{at}] = True")

    def _update(self, block: Block, env: Mapping[str, str]) -> None:
        if block.index is not None:
            self._update_pair(block, block.index, env)
            return
        value = self._expr(block.store.value, env)
        name = block.store.buffer
        at = self._element(name, block.store.indices, env)
        if block.reducer is not None:
            # A block with an init has initialised the element.
            before = self._let(f"{self._buffers[name]}[{at}]" if block.init is not None else self._read(name, at))
            value = self._wrapping(block.reducer.operation, block.store.value.dtype, before, value)
        self._line(f"{self._buffers[name]}[{at}] = {value}")
        if block.init is None:
            self._line(f"{self._flags[name]}[{at}] = True")

    def _update_pair(self, block: Block, index: Store, env: Mapping[str, str]) -> None:
        """Store a value and its position if they win over those stored: NaN, the best, the lowest position."""
        new, position = self._let(self._expr(block.store.value, env)), self._let(self._expr(index.value, env))
        at = self._element(block.store.buffer, block.store.indices, env)
        depth = self._depth
        if block.reducer is not None:
            started = block.init is not None
            old, lowest = (
                self._let(f"{self._buffers[s.buffer]}[{at}]" if started else self._read(s.buffer, at))
                for s in block.stores
            )
            sign = ">" if block.reducer is Reducer.ARGMAX else "<"
            alike = f"({new} == {old} or ({new} != {new} and {old} != {old}))"
            better = f"({new} {sign} {old} or ({new} != {new} and {old} == {old}))"
            self._line(f"if {better} or ({alike} and {position} < {lowest}):")
            self._depth += 1
        self._line(f"{self._buffers[block.store.buffer]}[{at}] = {new}")
        self._line(f"{self._buffers[index.buffer]}[{at}] = {position}")
        self._depth = depth
        if block.init is None:
            for store in block.stores:
                self._line(f"{self._flags[store.buffer]}[{at}] = True")

    def _element(self, name: str, indices: tuple[Expr, ...], env: Mapping[str, str]) -> str:
        at = [self._expr(i, env) for i in indices]
        for d, (i, size) in enumerate(zip(at, self._shapes[name], strict=True)):
            inside: Expr = Binary(
                BinOp.AND, Binary(BinOp.GE, indices[d], ZERO), Binary(BinOp.LT, indices[d], const(size))
            )
            inside = simplify(substitute(inside, self._bindings))
            if not (free_vars(inside) <= self._ranges.keys() and prove(inside, self._ranges)):
                self._fail_if(f"{i} < 0 or {i} >= {size}", f"dimension {d} of `{name}` is indexed outside {size}")
        return ", ".join(at) if at else "()"

    def _read(self, name: str, at: str) -> str:
        if name in self._flags and name not in self._complete:
            self._fail_if(f"not {self._flags[name]}[{at}]", f"an element of `{name}` is read before it is written")
        return f"{self._buffers[name]}[{at}]"

    # --- expressions: emit what they need, return a name or a literal ------------------------------------

    def _expr(self, e: Expr, env: Mapping[str, str]) -> str:
        if isinstance(e, Const):
            return _literal(e)
        if isinstance(e, Var):
            return env[e.name]
        if isinstance(e, Load):
            return self._let(self._read(e.buffer, self._element(e.buffer, e.indices, env)))
        if isinstance(e, Binary):
            if e.op.is_logical:
                return self._logical(e, env)
            a, b = self._expr(e.a, env), self._expr(e.b, env)
            if depends_on_data(e) or _has_large_number(e):
                return self._wrapping(e.op, e.a.dtype, a, b)
            return self._arithmetic(e.op, e.a.dtype, a, b)
        if isinstance(e, Unary):
            a = self._expr(e.a, env)
            if e.op is UnOp.NOT:
                return self._let(f"not {a}")
            return (
                self._wrapping(BinOp.SUB, e.dtype, "0", a)
                if e.dtype is DType.I64
                else self._let(_typed(e.dtype, f"-{a}"))
            )
        if isinstance(e, Select):
            return self._select(e, env)
        if isinstance(e, Cast):
            return self._let(_cast(e.value.dtype, e.type, self._expr(e.value, env)))
        if isinstance(e, Call):
            return self._call(e, env)
        raise TypeError(f"not an expression: {e!r}")

    def _logical(self, e: Binary, env: Mapping[str, str]) -> str:
        name = self._let(self._expr(e.a, env))
        self._line(f"if {'not ' if e.op is BinOp.OR else ''}{name}:")
        self._assign_inside(name, e.b, env)
        return name

    def _select(self, e: Select, env: Mapping[str, str]) -> str:
        cond = self._expr(e.cond, env)
        name = self._fresh()
        self._line(f"if {cond}:")
        self._assign_inside(name, e.then, env)
        self._line("else:")
        self._assign_inside(name, e.otherwise, env)
        return name

    def _assign_inside(self, name: str, e: Expr, env: Mapping[str, str]) -> None:
        self._depth += 1
        self._line(f"{name} = {self._expr(e, env)}")
        self._depth -= 1

    def _wrapping(self, op: BinOp, dtype: DType, a: str, b: str) -> str:
        """Arithmetic that may leave 64 bits: over data, or in a part of a sum of index arithmetic."""
        name = _WRAPPING.get(op)
        if name is None or dtype is not DType.I64:
            return self._arithmetic(op, dtype, a, b)
        return self._let(f"{name}({a}, {b})")

    def _arithmetic(self, op: BinOp, dtype: DType, a: str, b: str) -> str:
        if op in (BinOp.MIN, BinOp.MAX):
            # A NaN on either side is the result.
            sign = "<" if op is BinOp.MIN else ">"
            a, b = self._let(a), self._let(b)
            return self._let(f"{a} if ({a} != {a} or {a} {sign} {b}) else {b}")
        if op is BinOp.CEILDIV:
            return self._let(_typed(dtype, f"-((-{a}) // {b})"))
        if op.is_comparison:
            return self._let(f"{a} {op.value} {b}")
        return self._let(_typed(dtype, f"{a} {op.value} {b}"))

    def _call(self, e: Call, env: Mapping[str, str]) -> str:
        args = [self._expr(a, env) for a in e.args]
        if e.type.is_float:
            args = [self._let(f"np.float64({a})") for a in args]
        return self._let(_typed(e.type, functions()[e.func].numba.format(*args)))


def _has_large_number(e: Expr) -> bool:
    return any(isinstance(n, Const) and n.type is DType.I64 and abs(n.value) >= _LARGE for n in e.walk())


def elements_inside(stmt: Stmt) -> Stmt:
    """A perfect nest with its last loop over elements moved inside the reduction loops; anything else as it is."""
    nest: list[For] = []
    body = stmt
    while isinstance(body, For):
        nest.append(body)
        body = body.body
    blocks = body.stmts if isinstance(body, Seq) else (body,)
    if not all(isinstance(b, Block) and set(query.written(b)).isdisjoint(query.reads(b)) for b in blocks):
        return stmt
    reducing: set[str] = set()
    for b in blocks:
        assert isinstance(b, Block)
        pairs = zip(b.iters, b.bindings, strict=True)
        reducing = reducing.union(*(free_vars(e) for it, e in pairs if it.kind is IterKind.REDUCE))
    moved = [loop for loop in nest if loop.var not in reducing][-1:]
    for loop in reversed([loop for loop in nest if loop not in moved] + moved):
        body = replace(loop, body=body)
    return body


def _literal(e: Const) -> str:
    if e.type is DType.I64:
        return str(int(e.value)) if e.value != _LOWEST else "lowest_i64"
    if e.type.is_bool:
        return str(bool(e.value))
    if e.type.is_integer:
        return f"np.{e.type.numpy.name}({int(e.value)})"
    value = float(e.type.numpy.type(e.value))
    text = repr(value) if math.isfinite(value) else f"np.{'nan' if math.isnan(value) else 'inf'}"
    return f"np.{e.type.compute.numpy.name}({'-' if value == -math.inf else ''}{text})"


def _typed(dtype: DType, text: str) -> str:
    """Numba widens narrow integers; IR arithmetic stays in its type and wraps."""
    if dtype.is_half:
        return f"to_{dtype}({text})"
    return text if dtype in (DType.F64, DType.I64, DType.BOOL) else f"np.{dtype.numpy.name}({text})"


def _cast(source: DType, dtype: DType, text: str) -> str:
    if dtype.is_bool:
        return f"{text} != 0"
    if dtype.is_half or (source.is_float and dtype.is_integer):
        return f"to_{dtype}({text})"
    return f"np.{dtype.numpy.name}({text})"
