"""decompose_scan: running reductions in blocks, each of which goes on from those before it."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import as_int, const, simplify, substitute
from metasched.ir.integers.conjunctions import conjunction
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Buffer,
    Expr,
    IterKind,
    IterVar,
    Load,
    Select,
    Store,
    Var,
)
from metasched.ir.running import NotRunning, RunningReduction, running_reduction
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, Number
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import own_nest
from metasched.schedule.rewrite.nest import iter_names, nest
from metasched.schedule.rewrite.parts import child_with, insert, require_only_writer, tidy

OP = "decompose_scan"


@primitive
def decompose_scan(ctx: Context, block: BlockName, size: Number) -> BlockName:
    """Take a running reduction in blocks of so many elements. Returns the block that reduces what comes before a block.

    An element of `sum[k < N if k <= j](X[k])` is a sum of its own, N * N / 2 terms in all. In blocks of `size` it is
    that of the terms of its block up to it, plus that of the blocks before: N * size terms, and a running sum over
    N / size blocks, which may be taken in blocks in turn. (Reduce-then-scan, as in Blelloch 1990, "Prefix sums and
    their applications", section 1; Chaurasia et al. 2015, "Compiling high-performance recursive filters", section 4.)
    Sums and products of floats are taken in another order: in a block alone, some may be beyond the largest number.

    Args:
        block: the running reduction: `<=`, `<`, `>=` or `>` between its reduction variable and one of its elements'.
        size: elements of a block, at least 2 and fewer than there are.

    Requires:
        The block's loops are untransformed and around nothing else, and it has its `init`. There is one reduction
        variable, over as many values as the variable of the elements that it is compared with, and terms depend on that
        in no other way.

    Rewrite:
        for j, k in grid(64, 64):                        for b, q, r in grid(8, 8, 8):
            y: Y[j] += X[k] if k <= j else 0                 y.within: Y_within[b, q] +=
                                                                 X[b*8 + r] if r <= q else 0
                                                  ->     for b_1, r_1 in grid(8, 8):
                                                             y.totals: Y_totals[b] += X[b*8 + r]
                                                         for b_2, c in grid(8, 8):
                                                             y.before: Y_before[b] += Y_totals[c] if c < b else 0
                                                         for j_1 in 64:
                                                             y: Y[j] = Y_before[j // 8] + Y_within[j // 8, j % 8]
    """
    target = ctx.block(OP, block)
    own_nest(ctx, OP, target)
    require_only_writer(ctx, OP, target)
    scan, extent = _scan(target)
    if not 2 <= size < extent:
        raise ScheduleError(
            OP,
            f"{size} elements are no block of the {extent} of `{target.name}`",
            (target.name,),
            f"choose from 2 to {extent - 1}",
        )
    blocks = _Blocks(ctx, target, scan, extent, size)
    made = [blocks.own_terms(), blocks.totals(), blocks.preceding_blocks(), blocks.joined_block()]
    at = child_with(ctx.func.body, target.name)
    assert at is not None
    ctx.taken |= query.names(ctx.func)
    func = query.replace_stmt(ctx.func, query.loops_above(ctx.func, target.name)[0], nest(ctx, made[-1], {}))
    for place, new in enumerate(made[:-1]):
        func = insert(func, None, at + place, nest(ctx, new, {}))
    ctx.func = replace(func, temps=(*func.temps, *blocks.buffers))
    return made[2].name


def _scan(block: Block) -> tuple[RunningReduction, int]:
    """The running reduction that a block is, and how many elements its rows have."""
    try:
        scan = running_reduction(block)
    except NotRunning as why:
        raise _no_scan(block, str(why)) from None
    extent = as_int(simplify(scan.over.extent))
    if extent is None:
        raise _no_scan(block, f"`{scan.along.name}` and `{scan.over.name}` have not as many values, or depend on sizes")
    return scan, extent


def _no_scan(block: Block, why: str) -> ScheduleError:
    return ScheduleError(
        OP,
        f"block `{block.name}` is no running reduction: {why}",
        (block.name,),
        "it is to be as `Y[j] = sum[k < N if k <= j](X[k])`",
    )


class _Blocks:
    """The four blocks that a running reduction is taken in, and the buffers of three of them."""

    def __init__(self, ctx: Context, block: Block, scan: RunningReduction, extent: int, size: int) -> None:
        self.ctx, self.block, self.scan, self.extent, self.size = ctx, block, scan, extent, size
        self.count = -(-extent // size)
        kept = [it for it in block.iters if it.kind is IterKind.SPATIAL and it.name != scan.along.name]
        self.kept = kept
        names = iter_names(ctx, ["b", "q", "r", "c"], {it.name for it in block.iters})
        self.b, self.q, self.r, self.c = (Var(name) for name in names)
        dtype, others = ctx.func.buffer(block.store.buffer).dtype, tuple(it.extent for it in kept)
        shapes = {"within": (const(self.count), const(size)), "totals": (const(self.count),)}
        shapes["before"] = shapes["totals"]
        self._of = {
            what: Buffer(ctx.fresh(f"{block.store.buffer}_{what}"), (*others, *shape), dtype)
            for what, shape in shapes.items()
        }

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(self._of.values())

    def own_terms(self) -> Block:
        """The terms of an element's own block as far as they belong to it."""
        related = Binary(self.scan.relation, self.r, self.q)
        value = self._guard_term([related, *self._inside_guards()], self._term())
        return self._reduction(
            "within", (self._blocks(), self._spatial_variable(self.q, self.size)), (self.r, self.size), value
        )

    def totals(self) -> Block:
        """All terms of a block, without one that is none of any element."""
        conds = self._inside_guards()
        if self.scan.leaves_out_itself:
            first = Binary(BinOp.GT, self._place(), const(0))
            conds = [first, *conds] if self.scan.is_reverse else [self._below_last()]
        return self._reduction("totals", (self._blocks(),), (self.r, self.size), self._guard_term(conds, self._term()))

    def preceding_blocks(self) -> Block:
        """The reduction of all blocks before each block: a running reduction over blocks."""
        relation = Binary(BinOp.GT if self.scan.is_reverse else BinOp.LT, self.c, self.b)
        value = self._guard_term([relation], self._load_buffer("totals", self.c))
        return self._reduction("before", (self._blocks(),), (self.c, self.count), value)

    def joined_block(self) -> Block:
        """The block itself, of both."""
        along, size = Var(self.scan.along.name), const(self.size)
        own, inside = Binary(BinOp.FLOORDIV, along, size), Binary(BinOp.MOD, along, size)
        value = Binary(
            self.scan.reducer.operation, self._load_buffer("before", own), self._load_buffer("within", own, inside)
        )
        iters = tuple(it for it in self.block.iters if it.kind is IterKind.SPATIAL)
        store = replace(self.block.store, value=tidy(value))
        return replace(
            self.block, iters=iters, bindings=tuple(Var(it.name) for it in iters), guards=(), store=store,
            reducer=None, init=None, annotations=(),
        )  # fmt: skip

    def _reduction(self, what: str, own: tuple[IterVar, ...], over: tuple[Var, int], value: Expr) -> Block:
        buffer = self._of[what]
        iters = (*self.kept, *own, IterVar(over[0].name, const(over[1]), IterKind.REDUCE))
        indices = tuple(Var(it.name) for it in iters[:-1])
        return replace(
            self.block,
            name=self.ctx.fresh(f"{self.block.name}.{what}"),
            iters=iters,
            bindings=tuple(Var(it.name) for it in iters),
            guards=(),
            store=Store(buffer.name, indices, tidy(value)),
            annotations=(),
        )

    def _blocks(self) -> IterVar:
        return self._spatial_variable(self.b, self.count)

    @staticmethod
    def _spatial_variable(var: Var, extent: int) -> IterVar:
        return IterVar(var.name, const(extent), IterKind.SPATIAL)

    def _place(self) -> Expr:
        """Which term `r` of block `b` is."""
        return Binary(BinOp.ADD, Binary(BinOp.MUL, self.b, const(self.size)), self.r)

    def _term(self) -> Expr:
        return substitute(self.scan.term, {self.scan.over.name: self._place()})

    def _inside_guards(self) -> list[Expr]:
        """The guard that a term is inside, where the last block has fewer; none where all are whole."""
        return [] if self.extent % self.size == 0 else [self._below_last()]

    def _below_last(self) -> Expr:
        """The condition that a term is not behind the last that belongs to an element."""
        left_out = self.scan.leaves_out_itself and not self.scan.is_reverse
        return Binary(BinOp.LT, self._place(), const(self.extent - left_out))

    def _guard_term(self, conds: list[Expr], term: Expr) -> Expr:
        return Select(conjunction(conds), term, self.scan.reducer.identity(term.dtype)) if conds else term

    def _load_buffer(self, what: str, *own: Expr) -> Load:
        buffer = self._of[what]
        return Load(buffer.name, (*(Var(it.name) for it in self.kept), *own), buffer.dtype)
