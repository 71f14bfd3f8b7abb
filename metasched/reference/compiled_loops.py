"""The reference as machine code: the program written out as loops in LLVM's language.

No arithmetic but the program's, in its order: nothing is contracted or reassociated. An access is checked against its
buffer's shape unless affine bounds prove it inside; a read of a buffer that is not an input, against its flags of
written elements. Each outer nest is a function of its own. Two things make it fast enough for programs of a billion
terms and change no result:

* where all the stages that write a buffer precede the nest that reads it, the flags are tested once before that nest;
  only if some element is missing there is a test at each read, which finds out whether it is read;
* a perfect nest runs in tiles of elements, with the reductions outside those of a tile (`loop_order`). The terms of
  each element are still added in the order of the program.

Importing this imports llvmlite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir

from metasched.dtypes import DType
from metasched.functions.registry import functions
from metasched.ir import query
from metasched.ir.integers.affine import ZERO, const, free_vars, simplify, substitute
from metasched.ir.integers.ranges import prove
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
from metasched.reference.loop_order import order_nest
from metasched.reference.machine_calls import call
from metasched.reference.machine_code import LoadedFunction, Optimisation
from metasched.reference.machine_operations import I8, I64, OperationWriter, constant, memory_type, register_type
from metasched.reference.memory import lifetimes, outer_nests
from metasched.reference.state import ExecutionError, State, concrete_shape, initialisation
from metasched.reference.work import UNOPTIMISED_WORK, count_nodes

_FUNCTION_NAME = "nest"


def run_compiled(func: Func, state: State, optimisation: Optimisation | None = None) -> None:
    """Run `func` on the arrays of `state`. Raises ExecutionError.

    Each nest is optimised as much as given, or else as its work is worth.
    """
    arrays = {b.name: _convert_to_compute(b.dtype, state.arrays[b.name]) for b in func.buffers()}
    scalars = {s.name: _convert_to_compute(s.dtype, np.asarray(state.scalars[s.name])) for s in func.scalars}
    for buffer in func.outputs:
        state.written[buffer.name][...] = False
    begins = {name: first for name, (first, _) in lifetimes(func).items()}
    for number, nest in enumerate(outer_nests(func)):
        for name, first in begins.items():
            if first == number:
                state.written[name][...] = False
        part = _nest_program(func, nest)
        _run_nest(part, state, arrays, scalars, optimisation or _worthwhile(part))
    for buffer in func.outputs:
        if buffer.dtype.is_storage:
            state.arrays[buffer.name][...] = arrays[buffer.name]


def _convert_to_compute(dtype: DType, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array in the type that its values are computed in, its elements one after another."""
    return array.astype(dtype.compute.numpy, order="C", copy=False)


def _nest_program(func: Func, nest: Stmt) -> Func:
    """The program of one nest, with the buffers that it uses."""
    used = {node.buffer for node in nest.walk() if isinstance(node, Load | Store)}

    def select_used(buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        return tuple(b for b in buffers if b.name in used)

    return replace(
        func,
        inputs=select_used(func.inputs),
        outputs=select_used(func.outputs),
        temps=select_used(func.temps),
        order=(),
        body=nest,
    )


def _worthwhile(part: Func) -> Optimisation:
    return Optimisation.NONE if count_nodes(part.body) <= UNOPTIMISED_WORK else Optimisation.FULL


def _run_nest(
    part: Func,
    state: State,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    scalars: Mapping[str, np.ndarray[Any, Any]],
    optimisation: Optimisation,
) -> None:
    inside = query.blocks_under(part.body)
    own = frozenset[str]().union(*(query.written_buffers(b) for b in inside))
    flags = {b.name: state.written[b.name] for b in part.outputs + part.temps}
    complete = frozenset(n for n, flag in flags.items() if n not in own and flag.all())
    run, sites, last = _compile(part, complete, optimisation)
    read = (_move_last(arrays[b.name], last.get(b.name)) for b in part.buffers())
    given = (*read, *flags.values(), *(scalars[s.name] for s in part.scalars))
    failed = run(*(array.ctypes.data for array in given))
    if failed:
        raise ExecutionError(sites[failed - 1])


def _move_last(array: np.ndarray[Any, Any], dimension: int | None) -> np.ndarray[Any, Any]:
    """An array with one of its dimensions last in memory."""
    return array if dimension is None else np.ascontiguousarray(np.moveaxis(array, dimension, -1))


@lru_cache(maxsize=32)
def _compile(
    part: Func, complete: frozenset[str], optimisation: Optimisation
) -> tuple[Callable[..., int], tuple[str, ...], Mapping[str, int]]:
    nest = NestCode(part, complete)
    run = _load_nest(str(nest.module), len(nest.function.args), optimisation)
    return run, tuple(nest.sites), nest.last


@lru_cache(maxsize=32)
def _load_nest(text: str, arguments: int, optimisation: Optimisation) -> LoadedFunction:
    return LoadedFunction(text, _FUNCTION_NAME, arguments, optimisation)


class NestCode:
    """`module` defines `nest(*buffers, *flags, *scalars) -> i64`: 0, or 1 + the number of the failed site.

    Every argument is an address. Reads of `complete` buffers, all of whose elements are written, are not tested.
    A buffer in `last` is given with that dimension last.
    """

    def __init__(self, func: Func, complete: frozenset[str] = frozenset()) -> None:
        self.sites: list[str] = []
        self.module = ir.Module(_FUNCTION_NAME, context=ir.Context())
        written = func.outputs + func.temps
        held = [*(b.dtype for b in func.buffers()), *(DType.BOOL for _ in written), *(s.dtype for s in func.scalars)]
        kind = ir.FunctionType(I64, [memory_type(dtype).as_pointer() for dtype in held])
        self.function = ir.Function(self.module, kind, _FUNCTION_NAME)
        for argument in self.function.args:
            argument.add_attribute("noalias")
        self._builder = ir.IRBuilder(self.function.append_basic_block())
        self._operations = OperationWriter(self._builder)
        addresses = iter(self.function.args)
        self._buffers = {b.name: next(addresses) for b in func.buffers()}
        self._flags = {b.name: next(addresses) for b in written}
        self._types = {b.name: b.dtype for b in func.buffers()}
        self._shapes = {b.name: concrete_shape(b) for b in func.buffers()}
        self._scalars = {
            s.name: self._operations.register_value(s.dtype, self._builder.load(next(addresses))) for s in func.scalars
        }
        self._loops = dict(self._scalars)
        self._ranges: dict[str, Expr] = {}
        self._bindings: dict[str, Expr] = {}
        self._inside: dict[tuple[Expr, int], bool] = {}
        self._complete = complete
        order = order_nest(func.body, self._shapes, complete.union(b.name for b in func.inputs))
        self.last = order.last
        self._stmt(order.nest)
        self._builder.ret(ir.Constant(I64, 0))

    def _fail_if(self, cond: ir.Value, message: str) -> None:
        self.sites.append(message)
        with self._builder.if_then(cond, likely=False):
            self._builder.ret(ir.Constant(I64, len(self.sites)))

    # --- statements --------------------------------------------------------------------------------------

    def _stmt(self, stmt: Stmt) -> None:
        if isinstance(stmt, Seq):
            for child in stmt.stmts:
                self._stmt(child)
        elif isinstance(stmt, For):
            self._loop(stmt)
        elif isinstance(stmt, Block):
            self._block(stmt)
        else:
            raise TypeError(f"not a statement: {stmt!r}")

    def _loop(self, loop: For) -> None:
        build = self._builder
        extent, before = self._expr(loop.extent, self._loops), build.block
        head, body, after = (self.function.append_basic_block() for _ in range(3))
        build.branch(head)
        build.position_at_end(head)
        counter = build.phi(I64)
        counter.add_incoming(ir.Constant(I64, 0), before)
        build.cbranch(build.icmp_signed("<", counter, extent), body, after)
        build.position_at_end(body)
        self._loops[loop.var] = counter
        self._ranges[loop.var] = loop.extent
        self._stmt(loop.body)
        counter.add_incoming(build.add(counter, ir.Constant(I64, 1), flags=("nsw",)), build.block)
        build.branch(head)
        build.position_at_end(after)

    def _when(self, conditions: list[ir.Value], body: Callable[[], None]) -> None:
        if not conditions:
            body()
            return
        met = conditions[0]
        for condition in conditions[1:]:
            met = self._builder.and_(met, condition)
        with self._builder.if_then(met):
            body()

    def _block(self, block: Block) -> None:
        env = dict(self._scalars)
        self._bindings, self._inside = {}, {}
        for variable, binding in zip(block.iters, block.bindings, strict=True):
            env[variable.name] = self._expr(binding, self._loops)
            self._bindings[variable.name] = binding
        if block.init is not None:
            zero, guards = initialisation(block)
            started = [self._operations.binary(BinOp.EQ, e.dtype, self._expr(e, self._loops), _ZERO) for e in zero]
            started += [self._expr(g, self._loops) for g in guards]
            self._when(started, lambda: self._init(block, env))
        self._when([self._expr(g, self._loops) for g in block.guards], lambda: self._update(block, env))

    def _init(self, block: Block, env: Mapping[str, ir.Value]) -> None:
        assert block.init is not None
        at = self._element(block.store.buffer, block.store.indices, env)
        self._write(block.store.buffer, at, self._expr(block.init, env))
        self._store_flag(block.store.buffer, at)
        if block.index is not None:
            self._write(block.index.buffer, at, constant(no_position(block.index.value.dtype)))
            self._store_flag(block.index.buffer, at)

    def _update(self, block: Block, env: Mapping[str, ir.Value]) -> None:
        if block.index is not None:
            self._update_pair(block, block.index, env)
            return
        value = self._expr(block.store.value, env)
        name = block.store.buffer
        at = self._element(name, block.store.indices, env)
        if block.reducer is not None:
            # A block with an init has initialised the element.
            before = self._load(name, at) if block.init is not None else self._read(name, at)
            value = self._operations.binary(block.reducer.operation, block.store.value.dtype, before, value)
        self._write(name, at, value)
        if block.init is None:
            self._store_flag(name, at)

    def _update_pair(self, block: Block, index: Store, env: Mapping[str, ir.Value]) -> None:
        """Store a value and its position if they win over those stored: NaN, the best, the lowest position."""
        new, position = self._expr(block.store.value, env), self._expr(index.value, env)
        at = self._element(block.store.buffer, block.store.indices, env)

        def store() -> None:
            self._write(block.store.buffer, at, new)
            self._write(index.buffer, at, position)

        if block.reducer is None:
            store()
        else:
            read = self._load if block.init is not None else self._read
            old, lowest = (read(s.buffer, at) for s in block.stores)
            with self._builder.if_then(self._emit_wins(block, (new, position), (old, lowest))):
                store()
        if block.init is None:
            for stored in block.stores:
                self._store_flag(stored.buffer, at)

    def _emit_wins(self, block: Block, new: tuple[ir.Value, ir.Value], old: tuple[ir.Value, ir.Value]) -> ir.Value:
        assert block.index is not None
        build, dtype, positions = self._builder, block.store.value.dtype, block.index.value.dtype
        (value, position), (best, lowest) = new, old
        sign = BinOp.GT if block.reducer is Reducer.ARGMAX else BinOp.LT
        better = self._operations.binary(sign, dtype, value, best)
        alike = self._operations.binary(BinOp.EQ, dtype, value, best)
        if dtype.is_float:
            a, b = self._operations.is_nan(value), self._operations.is_nan(best)
            better = build.or_(better, build.and_(a, build.not_(b)))
            alike = build.or_(alike, build.and_(a, b))
        first = self._operations.binary(BinOp.LT, positions, position, lowest)
        return build.or_(better, build.and_(alike, first))

    # --- elements ----------------------------------------------------------------------------------------

    def _element(self, name: str, indices: tuple[Expr, ...], env: Mapping[str, ir.Value]) -> ir.Value:
        """The number of an element in memory, which is inside the buffer."""
        build, at = self._builder, ir.Constant(I64, 0)
        dimensions = list(range(len(indices)))
        if name in self.last:
            dimensions.append(dimensions.pop(self.last[name]))
        for place, d in enumerate(dimensions):
            i, index, size = self._expr(indices[d], env), indices[d], self._shapes[name][d]
            if not self._is_inside(index, size):
                # Below 0 it is larger than any size without a sign.
                outside = build.icmp_unsigned(">=", i, ir.Constant(I64, size))
                self._fail_if(outside, f"dimension {d} of `{name}` is indexed outside {size}")
            at = i if place == 0 else build.add(build.mul(at, ir.Constant(I64, size)), i)
        return at

    def _is_inside(self, index: Expr, size: int) -> bool:
        """Whether an index of the block is inside a dimension of a size wherever it is used."""
        if (index, size) not in self._inside:
            inside: Expr = Binary(BinOp.AND, Binary(BinOp.GE, index, ZERO), Binary(BinOp.LT, index, const(size)))
            inside = simplify(substitute(inside, self._bindings))
            known = free_vars(inside) <= self._ranges.keys() and prove(inside, self._ranges)
            self._inside[index, size] = bool(known)
        return self._inside[index, size]

    def _read(self, name: str, at: ir.Value) -> ir.Value:
        if name in self._flags and name not in self._complete:
            flag = self._builder.load(self._builder.gep(self._flags[name], [at]))
            missing = self._builder.icmp_signed("==", flag, ir.Constant(I8, 0))
            self._fail_if(missing, f"an element of `{name}` is read before it is written")
        return self._load(name, at)

    def _load(self, name: str, at: ir.Value) -> ir.Value:
        address = self._builder.gep(self._buffers[name], [at], inbounds=True)
        return self._operations.register_value(self._types[name], self._builder.load(address))

    def _write(self, name: str, at: ir.Value, value: ir.Value) -> None:
        address = self._builder.gep(self._buffers[name], [at], inbounds=True)
        self._builder.store(self._operations.memory_value(self._types[name], value), address)

    def _store_flag(self, name: str, at: ir.Value) -> None:
        self._builder.store(ir.Constant(I8, 1), self._builder.gep(self._flags[name], [at], inbounds=True))

    # --- expressions -------------------------------------------------------------------------------------

    def _expr(self, e: Expr, env: Mapping[str, ir.Value]) -> ir.Value:
        if isinstance(e, Const):
            return constant(e)
        if isinstance(e, Var):
            return env[e.name]
        if isinstance(e, Load):
            return self._read(e.buffer, self._element(e.buffer, e.indices, env))
        if isinstance(e, Binary):
            if e.op.is_logical:
                return self._short_circuit(e, env)
            return self._operations.binary(e.op, e.a.dtype, self._expr(e.a, env), self._expr(e.b, env))
        if isinstance(e, Unary):
            a = self._expr(e.a, env)
            return self._builder.not_(a) if e.op is UnOp.NOT else self._operations.negate(e.dtype, a)
        if isinstance(e, Select):
            return self._choice(self._expr(e.cond, env), e.then, e.otherwise, env)
        if isinstance(e, Cast):
            return self._operations.cast(e.value.dtype, e.type, self._expr(e.value, env))
        if isinstance(e, Call):
            return self._call(e, env)
        raise TypeError(f"not an expression: {e!r}")

    def _short_circuit(self, e: Binary, env: Mapping[str, ir.Value]) -> ir.Value:
        known = e.op is BinOp.OR
        a, settled = self._expr(e.a, env), Const(known, DType.BOOL)
        return self._choice(a, settled, e.b, env) if known else self._choice(a, e.b, settled, env)

    def _choice(self, cond: ir.Value, then: Expr, otherwise: Expr, env: Mapping[str, ir.Value]) -> ir.Value:
        """One of two values. Only the side that is taken may read: the other may be outside its buffer."""
        if not (query.loads(then) or query.loads(otherwise)):
            return self._builder.select(cond, self._expr(then, env), self._expr(otherwise, env))
        ends = []
        with self._builder.if_else(cond) as sides:
            for side, e in zip(sides, (then, otherwise), strict=True):
                with side:
                    ends.append((self._expr(e, env), self._builder.block))
        value = self._builder.phi(register_type(then.dtype))
        for end in ends:
            value.add_incoming(*end)
        return value

    def _call(self, e: Call, env: Mapping[str, ir.Value]) -> ir.Value:
        arguments = [self._expr(a, env) for a in e.args]
        text = functions()[e.func].numba
        if not e.type.is_float:
            return call(self._builder, text, e.type, arguments)
        double = ir.DoubleType()
        value = call(self._builder, text, DType.F64, [self._operations.resize_float(a, double) for a in arguments])
        return self._operations.round(e.type, self._operations.resize_float(value, register_type(e.type)))


_ZERO = ir.Constant(I64, 0)
