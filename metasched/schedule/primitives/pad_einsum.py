"""pad_einsum: pad the domain of a sum of products so that tiles divide it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ONE, NotAffine, as_int, free_vars, free_vars_of, simplify
from metasched.ir.integers.data import depends_on_data, is_index_variable
from metasched.ir.integers.ranges import bounds, is_nonnegative
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    IterKind,
    IterVar,
    Load,
    Reducer,
    Select,
    Stmt,
    Store,
    Unary,
    UnOp,
    Var,
)
from metasched.lang.instructions import Instruction, Value
from metasched.schedule.batching import Batching
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, IntExpr
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.buffer_copies import copy_after, copy_before
from metasched.schedule.rewrite.loops import own_nest
from metasched.schedule.rewrite.nest import copy_block, index_names
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing

OP = "pad_einsum"


def _in_batches(batching: Batching, instruction: Instruction) -> None:
    """The batch's variables stay as they are."""
    block, padding = instruction.args
    assert isinstance(padding, tuple)
    iters = query.find_block(batching.whole, batching.block(instruction)).iters
    ones: tuple[Value, ...] = (1,) * (len(iters) - len(padding))
    batching.run(replace(instruction, args=(block, (*ones, *padding))))


@primitive(in_batches=_in_batches)
def pad_einsum(ctx: Context, block: BlockName, padding: tuple[IntExpr, ...]) -> tuple[BlockName, ...]:
    """Pad the domain of a matmul-like reduction to multiples, so that tiles and intrinsics divide it evenly.

    The block reads padded copies `BLOCK.BUFFER.pad`, which hold the reduction's neutral element in the padding. Where
    spatial variables are padded it writes a larger buffer, and `BLOCK.BUFFER.unpad` copies the original part out.
    Returns these blocks, the padded copies first. A padding of 1 leaves its variable alone; with any other, copies are
    made even where the extent already is a multiple.

    Args:
        block: the reduction.
        padding: for each of its iteration variables in order, the number that its extent is padded to a multiple of; a
            random variable is at least 2.

    Requires:
        The block's loops are untransformed. It reduces a product of reads, or for a maximum or minimum a single read.
        Padded variables index the reads bare, but spatial ones may be part of a sum, such as `2*w + r`, and so may
        reduction variables in a product of integers of which another factor is read at them bare: that is zero in the
        padding. The spatial ones index the result. A padded reduction variable indexes every factor, so that padding is
        only ever multiplied by padding, or integers by zeros.

    Rewrite:
        for i, k in grid(7, 9):                      for i_.., k_.. in grid(8, 12):
            sum: C[i] += A[i, k] * X[k]       ->         sum.A.pad: A_pad[i, k] = A[i, k] if i < 7 and k < 9 else 0
                                                     for k_.. in 12:
                                                         sum.X.pad: X_pad[k] = X[k] if k < 9 else 0
                                                     for i, k in grid(8, 12):
                                                         sum: C_pad[i] += A_pad[i, k] * X_pad[k]
                                                     for i_.. in 7:
                                                         sum.C.unpad: C[i] = C_pad[i]
    """
    target = ctx.block(OP, block)
    loops = own_nest(ctx, OP, target)
    _require_reduction(target)
    if len(padding) != len(target.iters):
        names = listing(it.name for it in target.iters)
        raise ScheduleError(
            OP,
            f"block `{block}` has {len(target.iters)} iteration variables, and {len(padding)} numbers are given",
            (block,),
            f"give one for each of {names}; 1 leaves it as it is",
        )
    for n in padding:
        ctx.require(n >= 1, ScheduleError(OP, "a padding is less than 1", (block,), "1 leaves a variable as it is"))
        if as_int(n) != 1:
            # With a padding of 1 there are no copies, so the program would have another structure.
            ctx.require(n >= 2, ScheduleError(OP, "a random padding is 1", (block,), "choose among larger ones"))
    padded = _Padded(ctx, target, padding)
    padded.require_einsum()
    return padded.rewrite(loops)


def _require_reduction(block: Block) -> None:
    if block.reducer is None or block.init is None or block.index is not None:
        what = (
            "is not a reduction"
            if block.reducer is None
            else "finds a position"
            if block.index is not None
            else "has its initialisation in a block already"
        )
        raise ScheduleError(OP, f"block `{block.name}` {what}", (block.name,), "pad reductions that have an `init`")


@dataclass(frozen=True)
class _Padded:
    """A reduction and the multiples that its extents are padded to."""

    ctx: Context
    block: Block
    padding: tuple[Expr, ...]

    @cached_property
    def extents(self) -> Mapping[str, Expr]:
        """The new extents of the variables that are padded."""
        return {
            it.name: simplify(Binary(BinOp.CEILDIV, it.extent, n) * n)
            for it, n in zip(self.block.iters, self.padding, strict=True)
            if simplify(n) != ONE
        }

    @cached_property
    def loads(self) -> list[Load]:
        return list(dict.fromkeys(query.loads(self.block.store.value)))

    # --- preconditions

    def require_einsum(self) -> None:
        """Raise unless padding changes nothing."""
        factors = _factors(self.block.store.value, self.block.reducer)
        if factors is None:
            raise ScheduleError(
                OP,
                f"block `{self.block.name}` does not reduce a product of reads",
                (self.block.name,),
                "only sums and products of products, and maxima and minima of reads can be padded",
            )
        if self.block.init is not None and query.loads(self.block.init):
            raise ScheduleError(
                OP,
                f"the reduction of block `{self.block.name}` starts from what a buffer holds",
                (self.block.name,),
                f"{OP} before fuse_reduction_epilogue",
            )
        self._require_written()
        reduced = [it.name for it in self.block.iters if it.kind is IterKind.REDUCE and it.name in self.extents]
        if reduced and not factors:
            raise ScheduleError(
                OP,
                f"block `{self.block.name}` reads nothing at `{reduced[0]}`, so that padding would add terms",
                (self.block.name,),
                f"leave `{reduced[0]}` as it is with a padding of 1",
            )
        zeroed = self._zeroed(factors)
        for load in factors:
            self._require_bare(load, zeroed)
            missing = [name for name in reduced if name not in _used_variables(load)]
            if missing:
                raise ScheduleError(
                    OP,
                    f"`{load.buffer}` is not read at `{missing[0]}`, so that its values would be multiplied by padding",
                    (self.block.name,),
                    f"leave `{missing[0]}` as it is with a padding of 1",
                )

    def _require_written(self) -> None:
        """Raise where several values of a padded variable would write the same element."""
        shown = free_vars_of(self.block.store.indices)
        for it in self.block.iters:
            if it.kind is IterKind.SPATIAL and it.name in self.extents and it.name not in shown:
                raise ScheduleError(
                    OP,
                    f"`{it.name}` of block `{self.block.name}` has one value, and does not index "
                    f"`{self.block.store.buffer}`",
                    (self.block.name,),
                    f"leave `{it.name}` as it is with a padding of 1",
                )

    def _zeroed(self, factors: list[Load]) -> frozenset[str]:
        """The padded reduction variables beyond whose extents a factor is zero, and so is the product: of integers."""
        if self.block.reducer is not Reducer.SUM or not self.block.store.value.dtype.is_integer:
            return frozenset()
        bare = {index.name for load in factors for index in load.indices if is_index_variable(index)}
        reduced = {it.name for it in self.block.iters if it.kind is IterKind.REDUCE}
        return frozenset(bare & reduced & self.extents.keys())

    def _require_bare(self, load: Load, zeroed: frozenset[str]) -> None:
        seen: set[str] = set()
        for index in load.indices:
            mixed = free_vars(index) & self.extents.keys()
            unknown = not is_index_variable(index) and self._largest_index(index, zeroed) is None
            if mixed & seen or (mixed and unknown):
                raise ScheduleError(
                    OP,
                    f"block `{self.block.name}` reads `{load.buffer}` at `{min(mixed)}` and more than that",
                    (self.block.name,),
                    f"reindex `{load.buffer}` first",
                )
            seen |= mixed

    def _largest_index(self, index: Expr, zeroed: frozenset[str]) -> Expr | None:
        """The largest value of an index over the padded domain; None where a padded reduction variable is in it beyond
        which no other factor is zero, or its values are not known.

        What else such an index reads is multiplied by zero, or goes into elements that are cut off.
        """
        reduced = {it.name for it in self.block.iters if it.kind is IterKind.REDUCE}
        if free_vars(index) & self.extents.keys() & reduced - zeroed:
            return None
        domain = {it.name: self.extents.get(it.name, it.extent) for it in self.block.iters}
        try:
            found = bounds(index, domain)
        except NotAffine:
            return None
        return found.hi if is_nonnegative(found.lo) else None

    # --- rewriting

    def rewrite(self, loops: tuple[For, ...]) -> tuple[str, ...]:
        """Insert the copies and extend the block to the padded domain. Returns the names of the copies."""
        ctx, old = self.ctx, self.block
        copies = {load: self._copy(load) for load in self.loads if _used_variables(load) & self.extents.keys()}
        places = {load: Load(target.name, load.indices, load.type) for load, (_, target) in copies.items()}
        shown = [i.name for i in old.store.indices if isinstance(i, Var)]
        result = self._result() if any(name in self.extents for name in shown) else None
        store = Store(
            old.store.buffer if result is None else result.name, old.store.indices, _read_at(old.store.value, places)
        )
        iters = tuple(replace(it, extent=self.extents.get(it.name, it.extent)) for it in old.iters)
        extent_of = {b.name: it.extent for it, b in zip(iters, old.bindings, strict=True) if isinstance(b, Var)}
        body: Stmt = replace(old, iters=iters, store=store)
        for loop in reversed(loops):
            body = replace(loop, extent=extent_of[loop.var], body=body)
        ctx.func = query.replace_stmt(ctx.func, loops[0] if loops else old, body)
        for copy, target in copies.values():
            copy_before(ctx, old.name, copy, target)
        names = [copy.name for copy, _ in copies.values()]
        if result is not None:
            names.append(self._cut(result))
        return tuple(names)

    def _copy(self, load: Load) -> tuple[Block, Buffer]:
        """A padded copy of a buffer; its bindings are placeholders, for `nest`."""
        ctx, names = self.ctx, index_names(self.ctx, load.indices)
        whole = ctx.func.buffer(load.buffer)
        domain = {it.name: it.extent for it in self.block.iters}
        shape, inside = list(whole.shape), []
        for d, index in enumerate(load.indices):
            if is_index_variable(index) and index.name in self.extents:
                shape[d] = self.extents[index.name]
                inside.append(Binary(BinOp.LT, Var(names[d]), domain[index.name]))
            elif free_vars(index) & self.extents.keys():
                last = self._largest_index(index, self._zeroed(self.loads))
                assert last is not None
                shape[d] = simplify(Binary(BinOp.MAX, last + 1, whole.shape[d]))
                inside.append(Binary(BinOp.LT, Var(names[d]), whole.shape[d]))
        target = Buffer(ctx.fresh(f"{load.buffer}_pad"), tuple(shape), whole.dtype)
        at = tuple(Var(name) for name in names)
        iters = tuple(IterVar(n, extent, IterKind.SPATIAL) for n, extent in zip(names, shape, strict=True))
        value: Expr = Load(load.buffer, at, load.type)
        # A condition that always holds is kept, as it may not hold for another multiple.
        cond: Expr = inside[0]
        for other in inside[1:]:
            cond = Binary(BinOp.AND, cond, other)
        assert self.block.reducer is not None
        value = Select(cond, value, self.block.reducer.identity(load.type))
        name = ctx.fresh(f"{self.block.name}.{load.buffer}.pad")
        return Block(name, iters, at, (), Store(target.name, at, value)), target

    def _result(self) -> Buffer:
        """The larger buffer that the block writes."""
        old = self.ctx.func.buffer(self.block.store.buffer)
        shape = tuple(
            self.extents.get(i.name, extent) if isinstance(i, Var) else extent
            for i, extent in zip(self.block.store.indices, old.shape, strict=True)
        )
        return Buffer(self.ctx.fresh(f"{old.name}_pad"), shape, old.dtype)

    def _cut(self, result: Buffer) -> str:
        """Insert the block that copies the unpadded part of the result; its name."""
        ctx, old = self.ctx, self.ctx.func.buffer(self.block.store.buffer)
        name = ctx.fresh(f"{self.block.name}.{old.name}.unpad")
        source = Load(result.name, (), old.dtype)
        copy = copy_block(name, source, old.name, index_names(self.ctx, self.block.store.indices), old.shape)
        copy_after(ctx, self.block.name, copy, result)
        return name


def _used_variables(load: Load) -> frozenset[str]:
    """The variables that the indices of a read use."""
    return free_vars_of(load.indices)


def _factors(e: Expr, reducer: Reducer | None) -> list[Load] | None:
    """The reads that are multiplied; None where the expression has anything other than reads and numbers."""
    if isinstance(e, Load):
        return None if any(depends_on_data(i) for i in e.indices) else [e]
    if reducer in (Reducer.MAX, Reducer.MIN):
        return None
    if isinstance(e, Cast):
        return _factors(e.value, reducer)
    if isinstance(e, Unary) and e.op is UnOp.NEG and reducer is Reducer.SUM:
        return _factors(e.a, reducer)
    if isinstance(e, Const):
        return [] if reducer is Reducer.SUM and abs(e.value) < float("inf") else None
    if isinstance(e, Binary) and e.op is BinOp.MUL:
        a, b = _factors(e.a, reducer), _factors(e.b, reducer)
        return None if a is None or b is None else a + b
    return None


def _read_at(e: Expr, places: Mapping[Load, Load]) -> Expr:
    if isinstance(e, Load):
        return places.get(e, e)
    return e.map(lambda child: _read_at(child, places))
