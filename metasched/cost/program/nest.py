"""What the features need to know of a program, extracted once: statements, their loops and their accesses.

Every size in here is an expression without loop variables (a constant, or one over free tile variables). It is
entered in a `Table`, and the analysis keeps its number only, so that one evaluation of the table over a
population gives every size of every candidate.

Schedules of a program have most statements in common: those that differ in one nest are equal in all others. So an
analysis may be made with what was found out for other programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from metasched.compiler.absent_terms import split_terms
from metasched.cost.program.conditions import Condition, Negation, condition_of, joined_conditions, selections
from metasched.cost.program.earlier_uses import EarlierUse, earlier_uses
from metasched.cost.program.index import Index, Table, index_of
from metasched.cost.program.joined_dims import joined_dims
from metasched.cost.program.operations import Operations, count
from metasched.cost.program.split_fused_loops import BlockInSplitLoops, split_fused_loops
from metasched.ir import query
from metasched.ir.index_map import image, image_shape
from metasched.ir.integers.affine import as_int, const, free_vars, substitute
from metasched.ir.integers.ranges import prove
from metasched.ir.nodes import (
    Annotation,
    Binary,
    BinOp,
    Block,
    Buffer,
    Expr,
    For,
    Func,
    IterKind,
    Load,
    LoopKind,
    Reducer,
    Scope,
    Seq,
    Stmt,
    Var,
)
from metasched.ir.regions import starts
from metasched.ir.rolling import amortise_rolling, storage_loops
from metasched.schedule.annotation import AnnotationKey
from metasched.schedule.annotations.fastmath import fastmath
from metasched.schedule.annotations.non_temporal import non_temporal
from metasched.schedule.annotations.prefetch import prefetch
from metasched.schedule.annotations.unroll_limit import unroll_limit
from metasched.schedule.carried import in_carried_form
from metasched.schedule.tensor import Intrinsic, in_vector_form, intrinsics, intrinsics_for, tensorized_by
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

# A buffer and the indices at which a block touches it.
_BufferUse = tuple[str, tuple[Expr, ...]]


@dataclass(frozen=True)
class LoopInfo:
    """A loop above a statement.

    `limited`: an unroll limit is in force on it. `alone`: its body is one loop or one block. `asks` (a slot): each
    iteration asks for what so many iterations later read.
    """

    var: str
    extent: int
    kind: LoopKind
    lanes: int | None
    limited: bool
    alone: bool
    reduces: bool
    asks: int | None = None


@dataclass(frozen=True)
class StatementAccess:
    """One buffer access of a statement.

    `dims[n]` is the index of dimension `n` over the statement's loops, `shape[n]` the slot of its extent.
    `alloc` is the number of loops outside the buffer's allocation: storage is compacted to the region used under
    them; None for inputs and outputs, which keep their shape. `by_one` says that one thread writes it for all.
    Dimensions are those in memory; `alignments` are (dimension, slot of the factor, slot of the offset).
    """

    buffer: str
    dims: tuple[Index, ...]
    shape: tuple[int, ...]
    element_bytes: int
    is_store: bool
    is_register: bool
    alloc: int | None
    by_one: bool
    alignments: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Gate:
    """Reads, by number of the access, whose values are used only where a condition holds, and what is computed of them.

    `masked` are those that may be outside their buffer where it does not hold. `instructions` are those for a value.
    `skips`: where the condition does not hold, the instance has nothing to add.
    """

    condition: Condition
    reads: tuple[int, ...]
    masked: frozenset[int]
    skips: bool
    instructions: float = 0.0


@dataclass(frozen=True)
class TensorUse:
    """A tensor intrinsic that does all of a statement's loops from `depth` inward, as one operation."""

    intrinsic: Intrinsic
    depth: int


@dataclass(frozen=True)
class Statement:
    """A block with its loops, outermost first. The store is the first access.

    `limit` is the unroll limit (a slot) for the run of loops right above the block: its own, which holds for every
    loop, or the innermost loop's. `streams` (a slot) is not zero where the store goes past the caches. `tensor` is the
    tensor intrinsic that computes it, if one does, and `intrinsics` are those that there are for what it computes.
    `integers` are what it stores, `reducer` is how it reduces. `long` are the instructions of each division and root,
    with the loops that move it. `positions` are the registers of what an arg-reduction finds where, for each of values.
    """

    name: str
    loops: tuple[LoopInfo, ...]
    accesses: tuple[StatementAccess, ...]
    guards: tuple[Condition, ...]
    gates: tuple[Gate, ...]
    operations: Operations
    domain: tuple[int, ...]
    reduces: bool
    shared_loops: int
    limit: int | None
    own_limit: bool
    streams: int | None = None
    tensor: TensorUse | None = None
    intrinsics: tuple[Intrinsic, ...] = ()
    integers: bool = False
    reducer: Reducer | None = None
    long: tuple[tuple[float, frozenset[int]], ...] = ()
    positions: float = 0.0

    @property
    def computed_bytes(self) -> int:
        """Bytes of the widest type that is computed or stored: what is narrower takes as many vectors."""
        return max(self.store.element_bytes, self.operations.widest)

    @property
    def depth(self) -> int:
        """How many loops are around one operation: all of them, unless a tensor intrinsic does the inner ones."""
        return len(self.loops) if self.tensor is None else self.tensor.depth

    @property
    def store(self) -> StatementAccess:
        return self.accesses[0]

    @cached_property
    def vector(self) -> int | None:
        """The depth of the vectorised loop."""
        for depth in reversed(range(len(self.loops))):
            if self.loops[depth].kind is LoopKind.VECTORIZED:
                return depth
        return None


@dataclass(frozen=True)
class Nest:
    """A program's statements in order, and what holds for it as a whole. `earlier_uses` are those of each statement.

    `slots` are the numbers of the sizes that it has, `regions` and `barriers` (slots) how often it starts threads and
    how often these wait for one another.
    """

    statements: tuple[Statement, ...]
    earlier_uses: tuple[tuple[EarlierUse, ...], ...]
    slots: tuple[int, ...]
    temps: int
    register_temps: int
    parallel_loops: int
    regions: int
    barriers: int


@dataclass(frozen=True)
class _Site:
    block: Block
    loops: tuple[For, ...]


@dataclass(frozen=True)
class _Storage:
    buffers: Mapping[str, Buffer]
    depths: Mapping[str, int]
    by_one: frozenset[str]


@dataclass(frozen=True)
class _StatementAnalysis:
    """A statement apart from its neighbours, and the numbers of its sizes."""

    statement: Statement
    slots: frozenset[int]


class Analyses:
    """Statements analysed so far, of one program or of several that share some. `table` has their sizes."""

    def __init__(self) -> None:
        self.table = Table()
        self._known: dict[object, _StatementAnalysis] = {}

    def analyse_site(self, site: _Site, storage: _Storage) -> _StatementAnalysis:
        key = (site.block, tuple(map(_loop_key, site.loops)), _storage_key(site.block, storage))
        known = self._known.get(key)
        if known is None:
            self.table.clear_used()
            statement = _statement(site, storage, self.table)
            known = _StatementAnalysis(statement, frozenset(self.table.used))
            self._known[key] = known
        return known


def _loop_key(loop: For) -> object:
    """All that a statement's analysis reads of a loop around it."""
    return loop.var, loop.extent, loop.kind, loop.lanes, loop.annotations, isinstance(loop.body, Seq)


def _storage_key(block: Block, storage: _Storage) -> object:
    """All that a statement's analysis reads of the storage of what it touches."""
    names = dict.fromkeys((*query.written_buffers(block), *query.reads(block)))
    return tuple((storage.buffers[name], storage.depths.get(name), name in storage.by_one) for name in names)


def analyse(func: Func, analyses: Analyses) -> Nest:
    """The statements of `func`; what is found out about them is added to `analyses`."""
    func = amortise_rolling(in_carried_form(in_vector_form(func)))
    sites = list(_sites(func.body, ()))
    buffers = {buffer.name: buffer for buffer in func.buffers()}
    storage = _Storage(buffers, _allocation_depths(func, sites), _serially_written(sites))
    found = [analyses.analyse_site(site, storage) for site in sites]
    statements = tuple(replace(one.statement, shared_loops=_shared_loops(n, sites)) for n, one in enumerate(found))
    begun = starts(func)
    regions, barriers = analyses.table.slot(begun.regions), analyses.table.slot(begun.barriers)
    return Nest(
        statements,
        tuple(earlier_uses(statements, [site.loops for site in sites])),
        tuple(sorted({regions, barriers}.union(*(one.slots for one in found)))),
        temps=len(func.temps),
        register_temps=sum(buffer.scope is Scope.REGISTER for buffer in func.temps),
        parallel_loops=sum(loop.kind is LoopKind.PARALLEL for loop in query.loops(func)),
        regions=regions,
        barriers=barriers,
    )


def _sites(stmt: Stmt, above: tuple[For, ...]) -> Iterator[_Site]:
    if isinstance(stmt, Block):
        yield _Site(stmt, above)
    elif isinstance(stmt, For):
        yield from _sites(stmt.body, (*above, stmt))
    elif isinstance(stmt, Seq):
        for child in stmt.stmts:
            yield from _sites(child, above)
    else:
        raise TypeError(f"no features for a statement of kind {type(stmt).__name__}")


def _shared_loops(n: int, sites: list[_Site]) -> int:
    """How many loops a statement shares with the neighbour it is fused deepest with."""
    others = (len(query.common_loops(sites[n].loops, other.loops)) for m, other in enumerate(sites) if m != n)
    return max(others, default=0)


def _allocation_depths(func: Func, sites: list[_Site]) -> dict[str, int]:
    """For each temporary, the number of loops common to all statements that touch it."""
    touching: dict[str, list[_Site]] = {buffer.name: [] for buffer in func.temps}
    for site in sites:
        for name in {*query.written_buffers(site.block), *(load.buffer for load in query.reads_of(site.block))}:
            if name in touching:
                touching[name].append(site)
    depths = {}
    for name, users in touching.items():
        depth = min((len(site.loops) for site in users), default=0)
        for site in users:
            depth = min(depth, len(query.common_loops(users[0].loops, site.loops)))
        buffer = func.buffer(name)
        outside = None if buffer.roll is None else storage_loops(func, buffer)
        if outside is not None:
            depth = min(depth, len(outside))
        depths[name] = depth
    return depths


def _serially_written(sites: list[_Site]) -> frozenset[str]:
    """Buffers that are written outside of parallel loops."""
    serial = [site for site in sites if all(loop.kind is not LoopKind.PARALLEL for loop in site.loops)]
    return frozenset(name for site in serial for name in query.written_buffers(site.block))


def _loads(value: Expr) -> Iterator[Load]:
    return (node for node in value.walk() if isinstance(node, Load))


def _number(key: AnnotationKey, annotations: tuple[Annotation, ...], table: Table) -> int | None:
    value = key.expression(annotations)
    return None if value is None else table.slot(value)


def _loops(site: _Site, table: Table) -> tuple[LoopInfo, ...]:
    reducing = {
        node.name
        for iter_var, binding in zip(site.block.iters, site.block.bindings, strict=True)
        if iter_var.kind is IterKind.REDUCE
        for node in binding.walk()
        if isinstance(node, Var)
    }
    limited = False
    out = []
    for loop in site.loops:
        limited = limited or _number(unroll_limit, loop.annotations, table) is not None
        out.append(
            LoopInfo(
                loop.var,
                table.slot(const(1) if loop.kind is LoopKind.SCATTERED else loop.extent),
                loop.kind,
                table.slot(loop.lanes) if loop.kind is LoopKind.VECTORIZED and loop.lanes is not None else None,
                limited,
                not isinstance(loop.body, Seq),
                loop.var in reducing,
                _number(prefetch, loop.annotations, table),
            )
        )
    return tuple(out)


def _statement(site: _Site, storage: _Storage, table: Table) -> Statement:
    apart = split_fused_loops(site.block, site.loops)
    block, loops = apart.block, apart.loops
    site = _Site(block, loops)
    loop_of = {loop.var: depth for depth, loop in enumerate(loops)}
    values = {it.name: binding for it, binding in zip(block.iters, block.bindings, strict=True)}
    accesses = _accesses(apart, values, loop_of, storage, table)
    limit, is_own = _unroll_limit(site, table)
    conds, value = _terms(site, values)
    operations = count(value, block.reducer, {it.name: it.extent for it in block.iters})
    guards = [c for g in (*block.guards, *conds) for c in joined_conditions(substitute(g, values), loop_of, table)]
    stored = storage.buffers[block.store.buffer].dtype
    return Statement(
        block.name,
        _loops(site, table),
        tuple(accesses.values()),
        tuple(guards),
        _gates(block, value, values, loop_of, tuple(accesses), storage.buffers, table),
        operations,
        tuple(table.slot(it.extent) for it in block.iters),
        reduces=block.reducer is not None,
        shared_loops=0,
        limit=limit,
        own_limit=is_own,
        streams=_number(non_temporal, block.annotations, table),
        tensor=_tensor_use(loops),
        intrinsics=intrinsics_for(block, stored),
        integers=not stored.is_float,
        reducer=block.reducer,
        long=tuple((cost, _moving_loops(names, values, loop_of)) for cost, names in operations.long),
        positions=0.0 if block.index is None else block.index.value.dtype.bytes / block.store.value.dtype.bytes,
    )


def _accesses(
    apart: BlockInSplitLoops,
    values: Mapping[str, Expr],
    loop_of: Mapping[str, int],
    storage: _Storage,
    table: Table,
) -> dict[_BufferUse, StatementAccess]:
    """What a block touches: what it stores first, then its reads, each once."""
    found: dict[_BufferUse, StatementAccess] = {}
    for name, indices in _buffer_uses(apart.block):
        if (name, indices) in found:
            continue
        buffer, depth = storage.buffers[name], storage.depths.get(name)
        located, shape = _memory_access(buffer, tuple(substitute(e, values) for e in indices))
        if depth is None and not buffer.alignments:
            located, shape = joined_dims(located, shape)
        found[name, indices] = StatementAccess(
            name,
            tuple(index_of(e, loop_of, table) for e in located),
            tuple(table.slot(extent) for extent in shape),
            buffer.dtype.bytes,
            is_store=not found,
            is_register=buffer.scope is Scope.REGISTER,
            alloc=None if depth is None else apart.depth_after_split(depth),
            by_one=name in storage.by_one,
            alignments=tuple((a.axis, table.slot(a.factor), table.slot(a.offset)) for a in buffer.alignments),
        )
    return found


def _buffer_uses(block: Block) -> Iterator[_BufferUse]:
    yield block.store.buffer, block.store.indices
    yield from ((load.buffer, load.indices) for load in _loads(block.store.value))
    if block.index is not None:
        yield from ((load.buffer, load.indices) for load in _loads(block.index.value))
        yield block.index.buffer, block.index.indices


def _unroll_limit(site: _Site, table: Table) -> tuple[int | None, bool]:
    """The unroll limit that holds for a block, its own or that of the nearest loop with one, and whether it is its
    own."""
    own = _number(unroll_limit, site.block.annotations, table)
    around = [limit for loop in site.loops if (limit := _number(unroll_limit, loop.annotations, table)) is not None]
    return (around[-1] if around else None, False) if own is None else (own, True)


def _moving_loops(names: frozenset[str], values: Mapping[str, Expr], loop_of: Mapping[str, int]) -> frozenset[int]:
    """The loops that move what depends on some iteration variables, by their values."""
    moving = (var for name in names for var in free_vars(values.get(name, Var(name))))
    return frozenset(loop_of[var] for var in moving if var in loop_of)


def _tensor_use(loops: tuple[For, ...]) -> TensorUse | None:
    for depth, loop in enumerate(loops):
        name = tensorized_by(loop)
        if name is not None:
            return TensorUse(intrinsics()[name], depth)
    return None


def _memory_access(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The indices of an access in memory, and the shape there."""
    if buffer.roll is not None:
        kept = Binary(BinOp.MOD, indices[buffer.roll.axis], buffer.roll.window)
        indices = (*indices[: buffer.roll.axis], kept, *indices[buffer.roll.axis + 1 :])
    if buffer.layout is None:
        return indices, buffer.shape
    return image(buffer.layout, indices), image_shape(buffer.layout, buffer.shape)


def _terms(site: _Site, values: Mapping[str, Expr]) -> tuple[tuple[Expr, ...], Expr]:
    """The conditions under which the block's reduction has a term, and the term, as lowering takes them apart."""
    lanes = {loop.var for loop in site.loops if loop.kind is LoopKind.VECTORIZED}
    block = site.block
    return split_terms(
        block.store.value, block.reducer, lambda cond: not lanes.isdisjoint(free_vars(substitute(cond, values)))
    )


def _gates(
    block: Block,
    value: Expr,
    values: Mapping[str, Expr],
    loop_of: Mapping[str, int],
    accesses: tuple[_BufferUse, ...],
    buffers: Mapping[str, Buffer],
    table: Table,
) -> tuple[Gate, ...]:
    """What selections by an index in a block's `value` make of its reads: buffers and indices, in `accesses`' order."""
    switch = fastmath.expression(block.annotations)
    fast = switch is not None and as_int(switch) == 1
    ranges = {it.name: it.extent for it in block.iters}
    out = []
    for selection in selections(value, block.reducer, ranges):
        condition = condition_of(substitute(selection.condition, values), loop_of, table)
        sides = (selection.then, selection.otherwise)
        always = frozenset(_loads(selection.then)).intersection(_loads(selection.otherwise))
        for holds, side in zip((condition, Negation(condition)), sides, strict=True):
            loads = [load for load in dict.fromkeys(_loads(side)) if load not in always]
            reads = tuple(accesses.index((load.buffer, load.indices)) for load in loads)
            inside = (_is_inside(load, buffers[load.buffer], ranges) for load in loads)
            masked = frozenset(n for n, there in zip(reads, inside, strict=True) if not there)
            computed = 0.0 if isinstance(side, Load) else count(side, None, ranges).instructions
            if reads:
                skips = fast and selection.nothing_else and holds is condition
                out.append(Gate(holds, reads, masked, skips, computed))
    return tuple(out)


def _is_inside(load: Load, buffer: Buffer, ranges: Mapping[str, Expr]) -> bool:
    """Whether a read is inside its buffer for all of `ranges`, whatever the conditions around it are."""
    return all(
        prove(Binary(BinOp.GE, index, const(0)), ranges) is True
        and prove(Binary(BinOp.LT, index, extent), ranges) is True
        for index, extent in zip(load.indices, buffer.shape, strict=True)
    )
