"""decompose_padding: split a padding stage into a fill and a copy of the interior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ZERO, NotAffine, as_int, const, free_vars, linear, simplify, substitute
from metasched.ir.integers.conjunctions import conjuncts
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, Select, Seq, Stmt, Store, Var, seq
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.guards import normal_form
from metasched.schedule.rewrite.nest import simplify_sides
from metasched.schedule.rewrite.parts import loops_of, require_not_reduction, require_only_writer, tidy
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing

OP = "decompose_padding"


@primitive(in_batches=unchanged)
def decompose_padding(ctx: Context, block: BlockName, loop: LoopName) -> BlockName:
    """Split a padding stage into a block `BLOCK.fill` that writes the padding everywhere, before a loop, and an
    unconditional copy of the interior.

    The fill gets copies of the loops from that one inward, of the same kinds. The block keeps its loops: a loop bound
    directly to a bounded variable runs over the interior only, which may be empty, and other bounds become guards.

    Args:
        block: a stage `VALUE if CONDITION else PADDING`.
        loop: the loop before which the fill goes.

    Requires:
        The padding reads no buffer, and the condition consists of bounds on sums of iteration variables. The loop
        contains nothing but the block, and no other block writes its buffer.

    Rewrite:
        for i in 10:                                 for i_fill in 10:
            pad: B[i] = A[i - 1]              ->         pad.fill: B[i] = 0  with i = i_fill
                    if i >= 1 and i < 9 else 0       for i in 8:
                                                         pad: B[i] = A[i - 1]  with i = i + 1
    """
    pad, target = ctx.block(OP, block), ctx.loop(OP, loop)
    require_not_reduction(OP, pad, "decompose_reduction takes the initialisation of a reduction apart")
    require_only_writer(ctx, OP, pad)
    choice = _padding(pad)
    inside = _own_loops(ctx, pad, target)
    bounds = [_bound(pad, cond) for cond in conjuncts(choice.cond)]
    name, fill = _fill(ctx, pad, inside, choice.otherwise)
    ctx.taken |= query.names(ctx.func)
    copy = _copy(pad, inside, choice.then, bounds)
    path = query.path_to(ctx.func, target)
    parent = path[-2] if len(path) > 1 else None
    if isinstance(parent, Seq):
        stmts = [new for old in parent.stmts for new in ((fill, copy) if old is target else (old,))]
        ctx.func = query.replace_stmt(ctx.func, parent, seq(stmts))
    else:
        ctx.func = query.replace_stmt(ctx.func, target, seq((fill, copy)))
    return name


def _padding(block: Block) -> Select:
    value = block.store.value
    if block.index is not None or not isinstance(value, Select) or query.loads(value.otherwise):
        raise ScheduleError(
            OP,
            f"block `{block.name}` is not padding, `VALUE if CONDITION else CONSTANT`",
            (block.name,),
            "what is read where there is padding must be no buffer",
        )
    if not query.loads(value.then):
        raise ScheduleError(
            OP,
            f"block `{block.name}` copies nothing: its values are numbers on both sides",
            (block.name,),
            "loop_partition takes its condition out of the loops",
        )
    return value


def _own_loops(ctx: Context, block: Block, loop: For) -> tuple[For, ...]:
    above = loops_of(ctx.func, block.name)
    if loop.var not in above:
        raise ScheduleError(
            OP,
            f"loop `{loop.var}` is not around block `{block.name}`",
            (block.name, loop.var),
            f"its loops are {listing(above)}",
        )
    if len(query.blocks_under(loop)) > 1:
        other = next(b.name for b in query.blocks_under(loop) if b.name != block.name)
        raise ScheduleError(
            OP,
            f"loop `{loop.var}` is around block `{other}` as well",
            (block.name, other, loop.var),
            f"choose a loop inside `{loop.var}`",
        )
    return query.loops_above(ctx.func, block.name)[above.index(loop.var) :]


# --- bounds ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bound:
    """A condition; over a single variable it may have the form `name >= lower` or `name < upper`."""

    cond: Expr
    name: str | None = None
    lower: int | None = None
    upper: int | None = None


# `a op b` as `sign * (a - b) + shift < 0`.
_LESS_THAN_FORMS = {BinOp.LT: (1, 0), BinOp.LE: (1, -1), BinOp.GT: (-1, 0), BinOp.GE: (-1, -1)}


def _bound(block: Block, cond: Expr) -> _Bound:
    names = frozenset(it.name for it in block.iters)
    error = ScheduleError(
        OP,
        f"the condition of block `{block.name}` is more than bounds on its iteration variables",
        (block.name,),
        "it must be comparisons of indices, joined by `and`",
    )
    if (
        not (isinstance(cond, Binary) and cond.op in _LESS_THAN_FORMS)
        or query.loads(cond)
        or not free_vars(cond) <= names
    ):
        raise error
    sign, shift = _LESS_THAN_FORMS[cond.op]
    try:
        rest, terms = linear(Binary(BinOp.SUB, cond.a, cond.b) * sign + shift, names)
    except NotAffine:
        raise error from None
    start, sizes = as_int(rest), [(atom, as_int(c)) for atom, c in terms.items()]
    if len(sizes) == 1 and isinstance(sizes[0][0], Var) and start is not None:
        name = sizes[0][0].name
        if sizes[0][1] == 1:
            return _Bound(cond, name, upper=-start)
        if sizes[0][1] == -1:
            return _Bound(cond, name, lower=start + 1)
    return _Bound(cond)


# --- the two nests ---------------------------------------------------------------------------------------


def _fill(ctx: Context, block: Block, loops: Sequence[For], value: Expr) -> tuple[str, Stmt]:
    """The block that writes the padding, in copies of the loops."""
    renamed: dict[str, Expr] = {x.var: Var(ctx.fresh(f"{x.var}_fill")) for x in loops}
    name = ctx.fresh(f"{block.name}.fill")
    stmt: Stmt = replace(
        query.substitute_block(block, renamed, normal_form),
        name=name,
        store=Store(block.store.buffer, block.store.indices, value),
        annotations=(),
    )
    for x in reversed(loops):
        var = renamed[x.var]
        assert isinstance(var, Var)
        stmt = replace(x, var=var.name, body=stmt)
    return name, stmt


def _copy(block: Block, loops: Sequence[For], value: Expr, bounds: Sequence[_Bound]) -> Stmt:
    """The block without the condition, its loops narrowed to the range where the condition holds."""
    starts: dict[str, Expr] = {}
    extents: dict[str, Expr] = {}
    left = list(bounds)
    for it, binding in zip(block.iters, block.bindings, strict=True):
        mine = [b for b in bounds if b.name == it.name]
        loop = next((x for x in loops if isinstance(binding, Var) and x.var == binding.name), None)
        if not mine or loop is None:
            continue
        low = max([0, *(b.lower for b in mine if b.lower is not None)])
        uppers = [b.upper for b in mine if b.upper is not None]
        starts[loop.var] = simplify(Var(loop.var) + low)
        extents[loop.var] = _narrow_extent(loop.extent, low, min(uppers) if uppers else None)
        left = [b for b in left if b not in mine]
    values = dict(zip((it.name for it in block.iters), block.bindings, strict=True))
    guards = tuple(simplify_sides(substitute(b.cond, values)) for b in left)
    whole = replace(block, guards=block.guards + guards, store=replace(block.store, value=tidy(value)))
    stmt: Stmt = query.substitute_block(whole, starts, normal_form)
    for x in reversed(loops):
        stmt = replace(x, extent=extents.get(x.var, x.extent), body=stmt)
    return stmt


def _narrow_extent(extent: Expr, low: int, high: int | None) -> Expr:
    """How many of the indices below `extent` are in `low` .. `high`; none where a tile holds padding only."""
    inside = extent if high is None else Binary(BinOp.MIN, extent, const(high))
    known = as_int(simplify(inside - low))
    return const(max(known, 0)) if known is not None else simplify(Binary(BinOp.MAX, inside - low, ZERO))
