"""A program in two: the prologue, which depends on constant arguments alone and is run once for them, and the rest.

Arguments declared `const` do not change between calls. The *prologue* of a scheduled program is the statements at its
root that depend on such arguments only: copies of weights in a packed layout, transformed filters. Their results become
arguments of the *main* part, arrays in the layout that the schedule gave them. Nothing else of either part changes, so
that one after the other they compute what the whole does. What unpacks weights stays in the main part: its result would
be larger than the weights, and is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.integers.data import depends_on_data
from metasched.ir.nodes import Binary, BinOp, Block, Buffer, Func, Load, Scope, Seq, Stmt, seq
from metasched.support.data_classes import dataclass

# How many times the bytes that it is computed from a constant may take, and bytes that it may take besides.
MOST_GROWTH, NO_MATTER = 2, 1 << 16


@dataclass(frozen=True)
class Division:
    """A program divided for constant arguments.

    `prologue` takes some of them, and its outputs are the last inputs of `main`; it is None where nothing is computed
    ahead. `held` are the constants that `main` reads as they are: inputs of its own, after those that are no constants
    and before the results of the prologue.
    """

    prologue: Func | None
    main: Func
    held: tuple[str, ...]


def constants(func: Func) -> tuple[str, ...]:
    """The arguments that are declared `const`."""
    return tuple(b.name for b in func.inputs if b.const)


def main_part(func: Func) -> Func:
    """What every call runs once the prologue for all constants has run: the whole program where it has none."""
    division = divide(func, constants(func))
    return func if division.prologue is None else division.main


def divide(func: Func, known: Collection[str]) -> Division:
    """The program in two, where the arguments `known` are constants."""
    stmts = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    ahead = _ahead(func, stmts, known)
    before, after = [stmts[n] for n in ahead], [s for n, s in enumerate(stmts) if n not in ahead]
    computed = {name for stmt in before for name in _written_buffers(stmt)}
    used = {name for stmt in after for name in read_buffers(stmt)}
    results = [b for b in func.temps if b.name in computed & used]
    if not results:
        before, after, computed = [], list(stmts), set()
        used = {name for stmt in after for name in read_buffers(stmt)}
    # An argument is in the machine's memory, wherever the schedule would have had it.
    arrays = tuple(replace(b, scope=Scope.GLOBAL) for b in results)
    held = tuple(b for b in func.inputs if b.name in known and b.name in used)
    left = tuple(b for b in func.inputs if b.name not in known)
    main = replace(
        func,
        inputs=(*left, *held, *arrays),
        order=(*(n for n in func.order if n not in known), *(b.name for b in (*held, *arrays))),
        temps=tuple(b for b in func.temps if b.name not in computed),
        body=seq(after),
    )
    prologue = _prologue(func, before, computed, arrays, known) if arrays else None
    return Division(prologue, main, tuple(b.name for b in held))


def _prologue(
    func: Func, stmts: list[Stmt], computed: Collection[str], results: tuple[Buffer, ...], known: Collection[str]
) -> Func:
    read = {name for stmt in stmts for name in read_buffers(stmt)}
    given = tuple(b for b in func.inputs if b.name in known and b.name in read)
    names = {b.name for b in results}
    return Func(
        f"{func.name}_prologue",
        given,
        (),
        tuple(b.name for b in given),
        results,
        tuple(b for b in func.temps if b.name in computed and b.name not in names),
        seq(stmts),
    )


def _ahead(func: Func, stmts: Sequence[Stmt], known: Collection[str]) -> tuple[int, ...]:
    """The statements that depend on known arguments alone: the largest set that needs nothing outside it."""
    if not known:
        return ()
    scalars = {s.name for s in func.scalars}
    able = {b.name for b in func.temps if can_be_argument(b)}
    candidates = [n for n, s in enumerate(stmts) if _written_buffers(s) <= able]
    candidates = [n for n in candidates if not (scalars and scalars & query.variables(stmts[n]))]
    candidates = [n for n in candidates if not any(unpacks(func, block) for block in query.blocks_under(stmts[n]))]
    while True:
        elsewhere = {name for n, s in enumerate(stmts) if n not in candidates for name in _written_buffers(s)}
        computed = {name for n in candidates for name in _written_buffers(stmts[n])} - elsewhere
        available = computed | set(known)
        kept = [n for n in candidates if _written_buffers(stmts[n]) <= computed and read_buffers(stmts[n]) <= available]
        if kept == candidates:
            return tuple(kept) if any(read_buffers(stmts[n]) & set(known) for n in kept) else ()
        candidates = kept


def unpacks(func: Func, block: Block) -> bool:
    """Whether a block makes numbers wider, element by element, so that they take much more memory than before.

    They are of a narrower type, or some bits of a word.
    """
    if block.reducer is not None:
        return False
    given, made = (
        [func.buffer(name) for name in names] for names in (_block_reads(block), query.written_buffers(block))
    )
    if not given:
        return False
    if min(b.dtype.bytes for b in given) >= max(b.dtype.bytes for b in made) and not _takes_bits(block):
        return False
    sizes = [_bytes(b) for b in (*given, *made)]
    if any(size is None for size in sizes):
        return False
    before, after = (sum(size for b in part if (size := _bytes(b)) is not None) for part in (given, made))
    return after > MOST_GROWTH * before + NO_MATTER


def _takes_bits(block: Block) -> bool:
    """Whether it reads words of which an element is some bits."""
    return any(
        isinstance(node, Binary) and (node.op is BinOp.SHIFT_RIGHT or _is_remainder(node)) and depends_on_data(node.a)
        for store in block.stores
        for node in store.value.walk()
    )


def _is_remainder(node: Binary) -> bool:
    """Whether an operation is a remainder by a power of two, as a mask or as arithmetic."""
    by = as_int(node.b) if node.op in (BinOp.MOD, BinOp.BIT_AND) else None
    size = by if node.op is BinOp.MOD or by is None else by + 1
    return size is not None and size > 1 and size & (size - 1) == 0


def _bytes(buffer: Buffer) -> int | None:
    """The bytes of all elements; None where a size is not known."""
    extents = [as_int(extent) for extent in buffer.shape]
    return None if None in extents else prod(n for n in extents if n is not None) * buffer.dtype.bytes


def can_be_argument(buffer: Buffer) -> bool:
    """Whether the main part may take a temporary of the schedule as an argument."""
    return buffer.scope is not Scope.REGISTER and buffer.roll is None


def read_buffers(stmt: Stmt) -> set[str]:
    """The buffers that a statement reads."""
    return {name for block in query.blocks_under(stmt) for name in _block_reads(block)}


@lru_cache(maxsize=1 << 12)
def _block_reads(block: Block) -> frozenset[str]:
    return frozenset(node.buffer for node in block.walk() if isinstance(node, Load))


def _written_buffers(stmt: Stmt) -> set[str]:
    return {store.buffer for block in query.blocks_under(stmt) for store in block.stores}
