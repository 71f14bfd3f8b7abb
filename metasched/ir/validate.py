"""What a well-formed tensor program is, as a check that runs: `validate` states it, rule by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from metasched.errors import MetaschedError
from metasched.ir import query
from metasched.ir.coverage import coverage_violations
from metasched.ir.index_map import inverse
from metasched.ir.integers.affine import ONE, ZERO, as_int, free_vars, free_vars_of, simplify
from metasched.ir.integers.quasi_affine import quasi_affine
from metasched.ir.nodes import (
    Block,
    Buffer,
    Expr,
    For,
    Func,
    IterKind,
    LoopKind,
    Seq,
    Stmt,
    Store,
    Var,
)
from metasched.ir.printer import print_expr, print_func
from metasched.ir.regions import region_violations
from metasched.ir.rolling import rolling_violations


class InvalidProgram(MetaschedError):
    """A program that breaks the rules of `metasched.ir.validate`; `violations` lists how, a sentence each."""

    def __init__(self, func: Func, violations: tuple[str, ...]) -> None:
        self.violations = violations
        lines = "\n".join(f"  - {v}" for v in violations)
        super().__init__(f"`{func.name}` is not a well-formed program:\n{lines}\n\n{print_func(func)}")


def validate(func: Func, free: Iterable[str] = ()) -> None:
    """Check a program, scheduled or not. Raises InvalidProgram with all violations found.

    `free` are the free tile variables that extents, bindings and guards may use. That blocks cover their
    domains is checked by enumeration, so only for small concrete programs.
    """
    variables = frozenset(free)
    found = [*_name_violations(func, variables), *_shape_violations(func, variables), *_tree_violations(func.body)]
    for block, above in _blocks(func.body, ()):
        found += [f"block `{block.name}`: {v}" for v in _block_violations(func, block, above, variables)]
    for loop, _ in _loops(func.body, ()):
        found += [f"loop `{loop.var}`: {v}" for v in _loop_violations(loop, variables)]
    found += region_violations(func)
    found += _order_violations(func)
    found += _start_violations(func)
    if not found:
        found += [*coverage_violations(func), *rolling_violations(func)]
    if found:
        raise InvalidProgram(func, tuple(dict.fromkeys(found)))


# --- names, buffers, tree --------------------------------------------------------------------------------


def _repeated_names(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _name_violations(func: Func, free: frozenset[str]) -> Iterator[str]:
    loop_vars = [x.var for x, _ in _loops(func.body, ())]
    scalars = [s.name for s in func.scalars]
    kinds = {
        "buffer": [b.name for b in func.buffers()] + scalars,
        "block": [b.name for b, _ in _blocks(func.body, ())],
        "loop": loop_vars + scalars + sorted(free),
    }
    for kind, names in kinds.items():
        for name in _repeated_names(names):
            yield f"the name `{name}` stands for more than one {kind}"
    arguments = sorted([b.name for b in func.inputs] + scalars)
    if sorted(func.order) != arguments:
        yield f"the arguments' order lists {sorted(func.order)}, the arguments are {arguments}"


def _shape_violations(func: Func, free: frozenset[str]) -> Iterator[str]:
    for buffer in func.buffers():
        for extent in buffer.shape:
            yield from _extent_violations(f"buffer `{buffer.name}`: dimension", extent, free)
        yield from (f"buffer `{buffer.name}`: {v}" for v in _layout_violations(buffer, free))
    for buffer in (*func.inputs, *func.outputs):
        if buffer.layout is not None:
            yield f"buffer `{buffer.name}`: it is the caller's, and has a layout"


def _layout_violations(buffer: Buffer, free: frozenset[str]) -> Iterator[str]:
    rank, layout = len(buffer.shape), buffer.layout
    if layout is not None:
        if len(layout.names) != rank:
            yield f"its layout has {len(layout.names)} indices, and it has {rank}"
            return
        rank = len(layout.outputs)
        unknown = free_vars_of(layout.outputs) - free - set(layout.names)
        yield from (f"its layout uses `{name}`, which is nothing" for name in sorted(unknown))
        found = inverse(layout, buffer.shape, [f"<{n}>" for n in range(rank)])
        yield from (f"its layout does not keep `{n}` apart" for n in layout.names if n not in found)
    yield from (f"dimension {a.axis} is aligned, and has no rows" for a in buffer.alignments if a.axis >= rank - 1)


def _extent_violations(what: str, extent: Expr, free: frozenset[str], least: int = 1) -> Iterator[str]:
    unknown = free_vars(extent) - free
    value = as_int(extent)
    if unknown:
        yield f"{what} {print_expr(extent)} depends on `{min(unknown)}`"
    elif value is not None and value < least:
        yield f"{what} {print_expr(extent)} is less than {least}"


def _tree_violations(stmt: Stmt) -> Iterator[str]:
    if isinstance(stmt, Seq):
        if len(stmt.stmts) < 2:
            yield "a sequence holds fewer than two statements"
        if any(isinstance(s, Seq) for s in stmt.stmts):
            yield "a sequence is directly inside another"
    for child in stmt.children():
        if isinstance(child, Stmt):
            yield from _tree_violations(child)


Path = tuple[For, ...]


def _blocks(stmt: Stmt, above: Path) -> Iterator[tuple[Block, Path]]:
    if isinstance(stmt, Block):
        yield stmt, above
    elif isinstance(stmt, For):
        yield from _blocks(stmt.body, (*above, stmt))
    elif isinstance(stmt, Seq):
        for child in stmt.stmts:
            yield from _blocks(child, above)


def _loops(stmt: Stmt, above: Path) -> Iterator[tuple[For, Path]]:
    if isinstance(stmt, For):
        yield stmt, above
        yield from _loops(stmt.body, (*above, stmt))
    elif isinstance(stmt, Seq):
        for child in stmt.stmts:
            yield from _loops(child, above)


# --- loops -----------------------------------------------------------------------------------------------


def _loop_violations(loop: For, free: frozenset[str]) -> Iterator[str]:
    # A part of a loop may be empty (loop_partition).
    yield from _extent_violations("extent", loop.extent, free, least=0)
    if loop.kind is LoopKind.VECTORIZED and loop.lanes is None:
        yield "it is vectorized without a number of lanes"
    if loop.kind is not LoopKind.VECTORIZED and loop.lanes is not None:
        yield f"it has lanes and is not vectorized but {loop.kind.value}"
    if loop.lanes is not None:
        yield from _extent_violations("number of lanes", loop.lanes, free)
    if loop.kind in (LoopKind.PARALLEL, LoopKind.VECTORIZED):
        for block in query.blocks_under(loop):
            for it, binding in zip(block.iters, block.bindings, strict=False):
                if it.kind is IterKind.REDUCE and loop.var in free_vars(binding) and not query.reduces_in_lanes(loop):
                    yield f"it is {loop.kind.value}, and `{block.name}` reduces over it"


# --- blocks ----------------------------------------------------------------------------------------------


def _block_violations(func: Func, block: Block, above: Path, free: frozenset[str]) -> Iterator[str]:
    yield from (f"iteration variable `{n}` is there twice" for n in _repeated_names(it.name for it in block.iters))
    if len(block.iters) != len(block.bindings):
        yield f"{len(block.iters)} iteration variables have {len(block.bindings)} bindings"
        return
    loop_vars = frozenset(x.var for x in above)
    for it, binding in zip(block.iters, block.bindings, strict=True):
        yield from _extent_violations(f"`{it.name}`: extent", it.extent, free)
        yield from (f"binding of `{it.name}`: {v}" for v in _index_violations(binding, loop_vars, free))
    for guard in block.guards:
        if not guard.dtype.is_bool:
            yield f"guard {print_expr(guard)} is not a condition"
        unknown = free_vars(guard) - loop_vars - free
        if unknown:
            yield f"guard {print_expr(guard)} uses `{min(unknown)}`, which is no loop around the block"
    for store in block.stores:
        yield from _store_violations(func, block, store)
    yield from _position_violations(block)
    yield from _value_violations(func, block, free)
    yield from _read_violations(func, block)


def _index_violations(binding: Expr, loop_vars: frozenset[str], free: frozenset[str]) -> Iterator[str]:
    unknown = free_vars(binding) - loop_vars - free
    if unknown:
        yield f"`{min(unknown)}` is no loop around the block"
    if query.loads(binding):
        yield "it reads a buffer"
    elif not quasi_affine(binding, loop_vars):
        yield f"{print_expr(binding)} is not quasi-affine in the loops"


def _position_violations(block: Block) -> Iterator[str]:
    """The mistakes in the positions that an arg-reduction, or the start of one, writes besides values."""
    if block.reducer is not None and block.reducer.is_arg is (block.index is None):
        yield f"it is a reduction by `{block.reducer.value}`, and writes {len(block.stores)} buffers"
    if block.index is None:
        return
    if block.index.buffer == block.store.buffer:
        yield f"it writes `{block.index.buffer}` twice"
    if block.index.indices != block.store.indices:
        yield f"it writes `{block.store.buffer}` and `{block.index.buffer}` at different indices"
    if not block.index.value.dtype.is_integer:
        yield f"it writes positions of {block.index.value.dtype}"


def _store_violations(func: Func, block: Block, store: Store) -> Iterator[str]:
    name = store.buffer
    buffer = next((b for b in func.buffers() if b.name == name), None)
    if buffer is None:
        yield f"it writes `{name}`, which is not declared"
        return
    if any(b.name == name for b in func.inputs):
        yield f"it writes the input `{name}`"
    if len(store.indices) != len(buffer.shape):
        yield f"it writes `{name}` of rank {len(buffer.shape)} with {len(store.indices)} indices"
        return
    iters = {it.name: it for it in block.iters}
    shown = [e.name for e in store.indices if isinstance(e, Var)]
    yield from (f"it writes `{name}` with `{n}` in two places" for n in _repeated_names(shown))
    for index, extent in zip(store.indices, buffer.shape, strict=True):
        it = iters.get(index.name) if isinstance(index, Var) else None
        if it is not None:
            if it.kind is not IterKind.SPATIAL:
                yield f"it writes `{name}` at its reduction variable `{it.name}`"
            if simplify(it.extent) != simplify(extent):
                yield f"`{it.name}` has {print_expr(it.extent)} values, its dimension of `{name}` {print_expr(extent)}"
        elif index != ZERO or simplify(extent) != ONE:
            yield f"it writes `{name}` at {print_expr(index)}, which is not one of its iteration variables"
    for it in block.iters:
        if it.kind is IterKind.SPATIAL and it.name not in shown and simplify(it.extent) != ONE:
            yield f"`{it.name}` is spatial, and does not index `{name}`"


def _value_violations(func: Func, block: Block, free: frozenset[str]) -> Iterator[str]:
    reduces = [it.name for it in block.iters if it.kind is IterKind.REDUCE]
    for it in block.iters:
        if any(s.name == it.name for s in func.scalars):
            yield f"its iteration variable `{it.name}` has the name of a scalar argument"
    if block.reducer is None and reduces:
        yield f"`{reduces[0]}` is a reduction variable, and there is no reduction"
    if block.reducer is None and block.init is not None:
        yield "it has an `init`, and is no reduction"
    if block.init is not None and free_vars(block.init) & set(reduces):
        yield "its `init` depends on more than the element"
    known = {it.name for it in block.iters} | {s.name for s in func.scalars} | free
    declared = {b.name: b for b in func.buffers()}
    stored = [(store.buffer, store.value) for store in block.stores]
    for name, e in stored if block.init is None else [*stored, (block.store.buffer, block.init)]:
        target = declared.get(name)
        unknown = free_vars(e) - known
        if unknown:
            yield f"it uses `{min(unknown)}`, which is not one of its iteration variables"
        if target is not None and e.dtype is not target.dtype:
            yield f"it writes {e.dtype} to `{target.name}` of {target.dtype}"


def _read_violations(func: Func, block: Block) -> Iterator[str]:
    declared = {b.name: b for b in func.buffers()}
    for load in query.reads_of(block):
        buffer = declared.get(load.buffer)
        if buffer is None:
            yield f"it reads `{load.buffer}`, which is not declared"
            continue
        if load.buffer in query.written_buffers(block):
            yield f"it reads `{load.buffer}`, which it writes"
        if len(load.indices) != len(buffer.shape):
            yield f"it reads `{load.buffer}` of rank {len(buffer.shape)} with {len(load.indices)} indices"
        if load.type is not buffer.dtype:
            yield f"it reads `{load.buffer}` of {buffer.dtype} as {load.type}"
        for index in load.indices:
            if not index.dtype.is_integer:
                yield f"it reads `{load.buffer}` at an index of {index.dtype}"


# --- order -----------------------------------------------------------------------------------------------


def _may_follow(first: Block, second: Block) -> bool:
    """Whether both may write a buffer: an initialisation and its updates, or a fill and what is copied over it."""
    if second.reducer is not None:
        return first.reducer is None and second.init is None
    return query.is_fill(first)


def _start_violations(func: Func) -> Iterator[str]:
    """The reductions whose initial values are not all written before the outermost loop of their terms."""
    for block in query.blocks(func):
        start = frozenset(load.buffer for load in query.loads(block.init)) if block.init is not None else frozenset()
        for writer in query.blocks(func) if start else ():
            if start.isdisjoint(query.written_buffers(writer)):
                continue
            shared = query.common_loops(query.loops_above(func, block.name), query.loops_above(func, writer.name))
            pairs = zip(block.iters, block.bindings, strict=True)
            reducing = {name for it, b in pairs if it.kind is IterKind.REDUCE for name in free_vars(b)}
            if any(loop.var in reducing for loop in shared):
                yield f"block `{block.name}`: it starts from what `{writer.name}` computes within its reduction"


def _order_violations(func: Func) -> Iterator[str]:
    """Everything is written before it is read: by one block, or by two, the second of which continues the first."""
    blocks = query.blocks(func)
    inputs = {b.name for b in func.inputs}
    written: set[str] = set()
    for block in blocks:
        for name in query.reads(block):
            if name not in inputs and name not in written:
                yield f"block `{block.name}`: it reads `{name}` before anything writes it"
        written.update(query.written_buffers(block))
    for buffer in (*func.outputs, *func.temps):
        mine = [b for b in blocks if buffer.name in query.written_buffers(b)]
        if not mine:
            yield f"nothing writes `{buffer.name}`"
        elif mine[0].reducer is not None and mine[0].init is None:
            yield f"block `{mine[0].name}`: it accumulates into `{buffer.name}`, which nothing initialises"
        groups = query.partitions(mine)
        for first, second in pairwise(group[0] for group in groups):
            if not _may_follow(first, second) or len(groups) > 2:
                yield f"`{first.name}` and `{second.name}` both write `{buffer.name}`"
        if mine:
            first_read = next((n for n, b in enumerate(blocks) if buffer.name in query.reads(b)), len(blocks))
            # If a buffer is written in parts, one part may be read before another is written.
            complete = mine[-1] if len(groups) == len(mine) else mine[0]
            if first_read < blocks.index(complete):
                yield f"block `{blocks[first_read].name}`: it reads `{buffer.name}` before it is complete"
