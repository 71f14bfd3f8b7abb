"""From a nest to the low-level program: arrays are flat, an index is one sum of terms.

The terms go from the outermost loop they depend on to the innermost, the constant last: what is invariant in a loop
is a prefix of the sum, which emission computes outside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from metasched.compiler import lir
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.nest import (
    ArgPositions,
    Assign,
    CountedNest,
    Many,
    NestLoop,
    NestRegion,
    NestStmt,
    When,
    replace_body,
)
from metasched.compiler.lower.prefetch import TilePrefetch, prefetch_ahead
from metasched.compiler.lower.storage import Storage, array_indices
from metasched.compiler.lower.tensors import tensor_statement
from metasched.dtypes import INDEX, DType, holds_range
from metasched.ir.integers.affine import ZERO, const, free_vars, simplify
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.data_ranges import data_range
from metasched.ir.nodes import Binary, BinOp, Cast, Const, Expr, Load, LoopKind, Reducer

_MODES = {LoopKind.SERIAL: lir.LoopMode.SERIAL, LoopKind.PARALLEL: lir.LoopMode.PARALLEL}

_COMPARISONS = {Reducer.ARGMAX: BinOp.GT, Reducer.ARGMIN: BinOp.LT}

_MEMORY_KINDS = (ArrayKind.INPUT, ArrayKind.OUTPUT, ArrayKind.SHARED, ArrayKind.THREAD)


def flatten(stmt: NestStmt, storages: Mapping[str, Storage]) -> lir.LStmt:
    """The low-level statements of a nest, whose arrays have one index each.

    Raises BuildError when lanes of a vectorised loop are not independent.
    """
    return _Flattener(storages).stmt(stmt, {})


def arrays(storages: Mapping[str, Storage]) -> tuple[lir.Array, ...]:
    return tuple(lir.Array(s.name, s.dtype, s.size, s.kind, s.spare_lanes) for s in storages.values())


class _Flattener:
    def __init__(self, storages: Mapping[str, Storage]) -> None:
        self._storages = storages
        self._flat: dict[tuple[str, tuple[Expr, ...]], Expr] = {}

    def stmt(self, stmt: NestStmt, depths: Mapping[str, int]) -> lir.LStmt:
        """`depths` numbers the loops around, from the outermost."""
        if isinstance(stmt, Assign):
            return self._flatten_assign(stmt, depths)
        if isinstance(stmt, Many):
            return lir.Body(tuple(self.stmt(child, depths) for child in stmt.stmts))
        if isinstance(stmt, CountedNest):
            return lir.Counted(stmt.number, self.stmt(stmt.body, depths))
        if isinstance(stmt, NestRegion):
            return lir.Region(tuple(self._flatten_phase(phase, depths) for phase in stmt.phases))
        if isinstance(stmt, When):
            body = self.stmt(stmt.body, depths)
            for cond in reversed(stmt.conds):
                body = lir.If(self._flatten_index(cond, depths), body)
            return body
        assert isinstance(stmt, NestLoop)
        if stmt.tensor is not None:
            return tensor_statement(
                stmt,
                lambda access: self._flat_index(access.buffer, access.indices, depths),
                lambda e: order_terms(e, depths),
            )
        return self._flatten_loop(stmt, depths)

    def _flatten_phase(self, stmt: NestStmt, depths: Mapping[str, int]) -> lir.Loop:
        """A phase of a region as a parallel loop: conditions around it go inside."""
        conds: list[Expr] = []
        while isinstance(stmt, When):
            conds += stmt.conds
            stmt = stmt.body
        assert isinstance(stmt, NestLoop)
        loop = self._flatten_loop(replace_body(stmt, When(tuple(conds), stmt.body) if conds else stmt.body), depths)
        assert isinstance(loop, lir.Loop)
        assert loop.mode is lir.LoopMode.PARALLEL
        return loop

    def _flatten_loop(self, loop: NestLoop, depths: Mapping[str, int]) -> lir.LStmt:
        inside = {**depths, loop.var: len(depths)}
        body = self.stmt(loop.body, inside)
        if loop.prefetch:
            body = prefetch_ahead(
                loop.var,
                loop.prefetch,
                body,
                self._bytes_in_memory,
                lambda e, loops: order_terms(e, inside | {x.var: len(inside) + n for n, x in enumerate(loops)}),
            )
        if loop.prefetch_tile:
            body = TilePrefetch(
                loop.var,
                loop.prefetch_tile,
                self._bytes_in_memory,
                lambda e, loops: order_terms(e, inside | {x.var: len(inside) + n for n, x in enumerate(loops)}),
            ).add_prefetches(body)
        if loop.place is not None:
            return lir.AtPlace(loop.var, self._flatten_index(loop.place, depths), loop.extent, body)
        if loop.rereads:
            body = lir.Body((lir.Reread(), body))
        extent: Expr = const(loop.extent)
        for clip in loop.clips:
            extent = Binary(BinOp.MIN, extent, order_terms(clip, depths))
        if loop.is_vector:
            return lir.VectorLoop(loop.var, extent, loop.lanes, loop.unroll, body)
        mode = lir.LoopMode.UNROLLED if loop.unroll else _MODES[loop.kind]
        return lir.Loop(loop.var, extent, mode, body, loop.counter)

    def _bytes_in_memory(self, array: str) -> int:
        """Bytes of an element; 0 of an array that is in no memory."""
        storage = self._storages[array]
        return storage.dtype.bytes if storage.kind in _MEMORY_KINDS else 0

    def _flatten_assign(self, a: Assign, depths: Mapping[str, int]) -> lir.LStmt:
        if a.positions is not None:
            return self._flatten_pair(a, a.positions, depths)
        index = self._flat_index(a.array, a.indices, depths)
        value = self._flatten_value(a.value, depths)
        if a.reducer is not None:
            value = Binary(a.reducer.operation, Load(a.array, (index,), a.value.dtype), value)
        # An accumulator in memory is read again in the next iteration.
        streams = a.streams and a.reducer is None and self._storages[a.array].kind in _MEMORY_KINDS
        return lir.Write(a.array, index, value, a.fast, streams)

    def _flatten_pair(self, a: Assign, positions: ArgPositions, depths: Mapping[str, int]) -> lir.LStmt:
        value, position = self._flatten_value(a.value, depths), self._flatten_value(positions.value, depths)
        index = self._flat_index(a.array, a.indices, depths)
        at = self._flat_index(positions.array, positions.indices, depths)
        if a.reducer is None:
            return lir.Body((lir.Write(a.array, index, value, a.fast), lir.Write(positions.array, at, position)))
        values = Load(a.array, (index,), value.dtype)
        lowest = Load(positions.array, (at,), position.dtype)
        return lir.ArgReduction(values, lowest, value, position, _COMPARISONS[a.reducer], positions.rising, a.fast)

    def _flatten_value(self, e: Expr, depths: Mapping[str, int]) -> Expr:
        if isinstance(e, Load):
            return Load(e.buffer, (self._flat_index(e.buffer, e.indices, depths),), e.type)
        if e.dtype is INDEX or e.dtype.is_bool:
            return self._flatten_index(e, depths)
        return e.map(lambda child: self._flatten_value(child, depths))

    def _flatten_index(self, e: Expr, depths: Mapping[str, int]) -> Expr:
        """Index arithmetic in order, inside conditions and casts; reads inside it flattened."""
        if isinstance(e, Load):
            return self._flatten_value(e, depths)
        if e.dtype is INDEX and not any(isinstance(x, Load) for x in e.walk()):
            return order_terms(simplify(e), depths)
        return e.map(lambda child: self._flatten_value(child, depths))

    def _flat_index(self, name: str, indices: tuple[Expr, ...], depths: Mapping[str, int]) -> Expr:
        key = (name, indices)
        found = self._flat.get(key)
        if found is None:
            found = self._flat[key] = self._flatten_indices(name, indices, depths)
        return found

    def _flatten_indices(self, name: str, indices: tuple[Expr, ...], depths: Mapping[str, int]) -> Expr:
        storage = self._storages[name]
        flat: Expr = ZERO
        for index, size, stride in zip(array_indices(storage, indices), storage.shape, storage.strides, strict=True):
            if size == 1:
                continue  # Its one element, however a fused loop's part of the index is written.
            if depends_on_data(index):
                index = _clamp_if_needed(self._flatten_index(index, depths), size)
            flat = Binary(BinOp.ADD, flat, Binary(BinOp.MUL, index, const(stride)))
        return order_terms(simplify(flat), depths)


def _clamp_if_needed(index: Expr, size: int) -> Expr:
    """An index such that no read leaves its array, whatever the data is: held to it where it may be elsewhere."""
    if isinstance(index, Cast) and index.dtype is INDEX and index.value.dtype.is_integer:
        narrow = index.value.dtype
        if holds_range(narrow, 0, size - 1):
            return Cast(_clamp_index(index.value, size, narrow), INDEX)  # In more lanes than 64 bits have.
    return _clamp_index(index, size, INDEX)


def _clamp_index(index: Expr, size: int, dtype: DType) -> Expr:
    lo, hi = data_range(index)
    if hi >= size:
        index = Binary(BinOp.MIN, index, Const(size - 1, dtype))
    return Binary(BinOp.MAX, index, Const(0, dtype)) if lo < 0 else index


def order_terms(e: Expr, depths: Mapping[str, int]) -> Expr:
    """A simplified sum with its terms in the order of the loops they depend on, the constant last."""
    terms = _signed_terms(e)
    if len(terms) < 2:
        return e

    def depth(term: tuple[int, Expr]) -> tuple[bool, int]:
        names = free_vars(term[1])
        return not names, max((depths.get(n, -1) for n in names), default=-1)

    out: Expr | None = None
    for sign, term in sorted(terms, key=depth):
        if out is None:
            out = term if sign > 0 else Binary(BinOp.SUB, ZERO, term)
        else:
            out = Binary(BinOp.ADD if sign > 0 else BinOp.SUB, out, term)
    assert out is not None
    return out


def _signed_terms(e: Expr) -> list[tuple[int, Expr]]:
    if isinstance(e, Binary) and e.op is BinOp.ADD:
        return _signed_terms(e.a) + _signed_terms(e.b)
    if isinstance(e, Binary) and e.op is BinOp.SUB:
        return _signed_terms(e.a) + [(-sign, term) for sign, term in _signed_terms(e.b)]
    return [(1, e)]
