"""skip_padding: a sum without the terms that read padding."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars, substitute
from metasched.ir.integers.conjunctions import conjunction, conjuncts
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    IterKind,
    IterVar,
    Load,
    Reducer,
    Select,
    Store,
    Var,
)
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, Number
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.buffer_copies import copy_before
from metasched.schedule.rewrite.loops import own_nest
from metasched.schedule.rewrite.nest import simplify_sides
from metasched.schedule.rewrite.parts import require_only_writer, set_block, tidy, writers
from metasched.support.data_classes import dataclass

OP = "skip_padding"


@primitive
def skip_padding(ctx: Context, block: BlockName, dimensions: Number) -> tuple[BlockName, ...]:
    """Leave out the terms of a sum of products that read padding, which is zero.

    A zero times an infinity is no number, so what these terms are depends on the other factor. It does not depend on
    which of the elements have the same terms in the padding, as all of these read the same zeros: the sums of zero
    times that factor are the small blocks `BLOCK.zeros`, over all of a window's terms but those that decide what is
    padding, and `BLOCK.start`, over these. They are zeros where the factor is finite, and where it is a `const`
    argument they are computed ahead of calls. The sum starts from them instead of 0. Integers have no infinities: then
    there are no such blocks.

    Args:
        block: the sum, of an operand that is padded times another. The padding is a block of its own, or inlined.
        dimensions: how many of the operand's dimensions that have padding count, the outermost first. A condition on
            what an unrolled tile runs along is asked once for the tile where a loop over other terms is around it, and
            for each of its elements otherwise.

    Requires:
        The block's loops are untransformed, it sums from 0, and all of its terms are there. The padding is a constant 0
        where bounds on sums of iteration variables do not hold, each of one dimension.

    Rewrite:
        for i, k in grid(8, 3):                  for k in 3:
            C[i] += B[i + k] * K[k]      ->          C.zeros: Z[k] = K[k] * 0
                                                 for i, k in grid(8, 3):
                                                     C.start: S[i] += 0 if i + k >= 1 and i + k < 9 else Z[k]
                                                 for i, k in grid(8, 3):
                                                     C[i] += B[i + k] * K[k] if i + k >= 1 and i + k < 9 else 0
                                                         init S[i]
    """
    target = ctx.block(OP, block)
    own_nest(ctx, OP, target)
    require_only_writer(ctx, OP, target)
    _require_sum(target)
    found = _padded_product(ctx, target, dimensions)
    names: tuple[str, ...] = ()
    init = target.init
    if target.store.value.dtype.is_float:
        zeros = _zeros(ctx, target, found)
        start = _start(ctx, target, found, zeros)
        names, init = (zeros.block, start.block), start.read
    value = Select(found.inside, found.product, _zero(target))
    new = replace(target, store=replace(target.store, value=value), init=init)
    ctx.func = set_block(ctx.func, ctx.block(OP, block), new)
    return names


def _require_sum(block: Block) -> None:
    if block.reducer is not Reducer.SUM:
        raise ScheduleError(OP, f"block `{block.name}` is not a sum", (block.name,), "choose a sum of products")
    if not _is_zero(block.init):
        raise ScheduleError(
            OP,
            f"the sum of block `{block.name}` does not start from 0",
            (block.name,),
            f"{OP} before fuse_reduction_epilogue",
        )


@dataclass(frozen=True)
class _PaddedProduct:
    """`product`, of which the terms outside of `inside` are zero times `factor`."""

    product: Expr
    factor: Expr
    inside: Expr


def _padded_product(ctx: Context, block: Block, dimensions: int) -> _PaddedProduct:
    value = tidy(block.store.value)
    if not (isinstance(value, Binary) and value.op is BinOp.MUL):
        raise ScheduleError(
            OP,
            f"block `{block.name}` does not sum products of two operands, all of whose terms are there",
            (block.name,),
            "padding is no terms of a product only",
        )
    for data, factor in ((value.a, value.b), (value.b, value.a)):
        padding = _padding(ctx, data)
        if padding is not None:
            by_dimension = _conditions_by_dimension(block, padding)
            if not 1 <= dimensions <= len(by_dimension):
                raise ScheduleError(
                    OP,
                    f"{dimensions} dimensions of padding of block `{block.name}`, which reads {len(by_dimension)}",
                    (block.name,),
                    f"choose 1 to {len(by_dimension)} of them",
                )
            return _PaddedProduct(value, factor, conjunction([c for some in by_dimension[:dimensions] for c in some]))
    raise ScheduleError(
        OP,
        f"no operand of block `{block.name}` is padded with zeros",
        (block.name,),
        "padding is a stage `VALUE if CONDITION else 0`, or such a value in the product",
    )


def _padding(ctx: Context, data: Expr) -> Expr | None:
    """The condition under which an operand is not the zero of a padding; None where it is not padded."""
    if isinstance(data, Cast):
        return _padding(ctx, data.value)
    if isinstance(data, Select):
        return data.cond if _is_zero(data.otherwise) else None
    if not isinstance(data, Load) or any(query.loads(i) for i in data.indices):
        return None
    written = writers(ctx.func, data.buffer)
    if len(written) != 1 or written[0].reducer is not None:
        return None
    (stage,) = written
    value, own = stage.store.value, stage.store.indices
    if not isinstance(value, Select) or not _is_zero(value.otherwise) or query.loads(value.cond):
        return None
    at = {i.name: index for i, index in zip(own, data.indices, strict=True) if isinstance(i, Var)}
    return substitute(value.cond, at) if free_vars(value.cond) <= at.keys() else None


def _zero(block: Block) -> Const:
    return Reducer.SUM.identity(block.store.value.dtype)


def _is_zero(e: Expr | None) -> bool:
    return isinstance(e, Const) and e.value == 0


_BOUNDS = frozenset({BinOp.LT, BinOp.LE, BinOp.GT, BinOp.GE})


def _conditions_by_dimension(block: Block, padding: Expr) -> list[list[Expr]]:
    """The conjuncts of a padding's condition, in groups that use the same variables, in the order of the condition."""
    found: dict[frozenset[str], list[Expr]] = {}
    for asked in map(simplify_sides, conjuncts(padding)):
        if not (isinstance(asked, Binary) and asked.op in _BOUNDS) or query.loads(asked):
            raise ScheduleError(
                OP,
                f"the padding that block `{block.name}` reads is more than bounds on its indices",
                (block.name,),
                "its condition must be comparisons of indices, joined by `and`",
            )
        found.setdefault(free_vars(asked), []).append(asked)
    return list(found.values())


# --- what the sum starts from ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sum:
    """A block, and how its result is read at its own variables."""

    block: str
    read: Load


def _zeros(ctx: Context, block: Block, found: _PaddedProduct) -> _Sum:
    """The sums of zero times the factor, for each value of what decides the padding."""
    decides, of_factor = free_vars(found.inside), free_vars(found.factor)
    used = [it for it in block.iters if it.name in of_factor]
    # What decides comes first, so that elements lie along what the factor's rows do.
    domain = [replace(it, kind=IterKind.SPATIAL) for it in used if it.name in decides]
    domain += [it for it in used if it.name not in decides]
    value = Binary(BinOp.MUL, found.factor, _zero(block))
    return _sum(ctx, block, "zeros", domain, value)


def _start(ctx: Context, block: Block, found: _PaddedProduct, zeros: _Sum) -> _Sum:
    """The sums of those that are in the padding, for each value of what is left."""
    used = free_vars(found.inside) | free_vars(zeros.read)
    value = Select(found.inside, _zero(block), zeros.read)
    return _sum(ctx, block, "start", [it for it in block.iters if it.name in used], value)


def _sum(ctx: Context, block: Block, what: str, domain: list[IterVar], value: Expr) -> _Sum:
    """Insert a block before the sum that writes a new buffer, over the spatial variables of a domain."""
    over = [it for it in domain if it.kind is IterKind.SPATIAL]
    dtype = block.store.value.dtype
    target = Buffer(ctx.fresh(f"{block.store.buffer}_{what}"), tuple(it.extent for it in over), dtype)
    name, at = ctx.fresh(f"{block.name}.{what}"), tuple(Var(it.name) for it in over)
    reduces = len(over) < len(domain)
    made = Block(
        name,
        tuple(domain),
        tuple(Var(it.name) for it in domain),
        (),
        Store(target.name, at, value),
        Reducer.SUM if reduces else None,
        _zero(block) if reduces else None,
    )
    copy_before(ctx, block.name, made, target)
    return _Sum(name, Load(target.name, at, dtype))
