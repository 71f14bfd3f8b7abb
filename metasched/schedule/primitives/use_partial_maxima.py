"""use_partial_maxima: exponentials of partial sums relative to the maxima of their own terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.dtypes import DType, float_format
from metasched.errors import ScheduleError
from metasched.functions.registry import functions
from metasched.ir import query
from metasched.ir.integers.affine import ZERO, free_vars, simplify, substitute
from metasched.ir.integers.ranges import prove
from metasched.ir.node_base import Node
from metasched.ir.nodes import Binary, BinOp, Block, Call, Cast, Const, Expr, IterKind, Load, Reducer, Var
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.parts import readers, require_only_writer, set_block, tidy
from metasched.support.data_classes import dataclass

OP = "use_partial_maxima"


@primitive(in_batches=unchanged)
def use_partial_maxima(ctx: Context, sums: BlockName, maxima: BlockName) -> None:
    """Take the exponentials of partial sums relative to the maxima of the same terms, instead of the maximum of all.

    A softmax goes through a row for its maximum, and again for the sum of exponentials relative to it. Of partial
    results that rfactor makes of both, the sums then need no more than the maxima next to them, so that one pass over
    the row computes both; the last reduction scales each partial sum to the maximum of all. (Milakov and Gimelshein
    2018, "Online normalizer calculation for softmax", section 3; with weights, the sums of FlashAttention, Dao et al.
    2022, section 3.1.) A partial sum without a finite term is of zeros, as it would be relative to a finite maximum.
    Rounding errors are of the size of those before: they grow with `m - x`, which both steps make up together. Where
    other factors come near the largest number of their type, a part's sum may be beyond it.

    Args:
        sums: partial sums of terms with a factor `exp(x - m)`, or `exp((x - m) * scale)` of a positive scale, where `m`
            is the maximum of all; `exp2` as well. Other factors may be anything that does not read `m`.
        maxima: partial maxima of the same `x`, which reduce to `m`.

    Requires:
        Both reduce the same parts: the same loops, split in the same way. One sum reads the partial sums, and adds them
        up as they are. Maxima of a type of storage are cast as `x` is.

    Rewrite:
        for j_0, j_1 in grid(2, 8):                      for j_0, j_1 in grid(2, 8):
            top.rf: m_rf[j_0] max= X[j_0*8 + j_1]            top.rf: m_rf[j_0] max= X[j_0*8 + j_1]
        for j_0 in 2:                                    for j_0 in 2:
            top: m[0] max= m_rf[j_0]                         top: m[0] max= m_rf[j_0]
        for k_0, k_1 in grid(2, 8):                      for k_0, k_1 in grid(2, 8):
            sum.rf: s_rf[k_0] +=                 ->          sum.rf: s_rf[k_0] +=
                exp(X[k_0*8 + k_1] - m[0])                       exp(X[k_0*8 + k_1] - max(m_rf[k_0], -3.4e+38))
        for k_0 in 2:                                    for k_0 in 2:
            sum: s[0] += s_rf[k_0]                           sum: s[0] += s_rf[k_0] * exp(m_rf[k_0] - m[0])
    """
    parts, tops = ctx.block(OP, sums), ctx.block(OP, maxima)
    top, total = _maximum_of_all(ctx, tops), _sum_of_all(ctx, parts)
    factor = _exponential(parts, top)
    names = _terms_in_common(ctx, parts, tops, factor)
    read = Load(tops.store.buffer, tuple(substitute(e, names) for e in tops.store.indices), factor.maximum.type)
    _require_own_row(top, tops, factor, read)
    own_top, top_of_all = (_cast_load(load, factor.exponent.dtype) for load in (read, factor.maximum))
    near = factor.relative_to(Binary(BinOp.MAX, own_top, _lowest(own_top.dtype)))
    far = replace(factor, exponent=own_top).relative_to(top_of_all)
    scaled = Binary(BinOp.MUL, total.store.value, substitute(far, _values_in(total, parts)))
    ctx.func = set_block(ctx.func, parts, _set_value(parts, _replace_factor(parts.store.value, factor.call, near)))
    ctx.func = set_block(ctx.func, ctx.block(OP, total.name), _set_value(total, scaled))


def _lowest(dtype: DType) -> Const:
    """The lowest finite number: what terms of negative infinity are taken relative to, so that they are zeros."""
    return Const(float_format(dtype).lowest, dtype)


def _cast_load(load: Load, dtype: DType) -> Expr:
    return load if load.type is dtype else Cast(load, dtype)


def _set_value(block: Block, value: Expr) -> Block:
    return replace(block, store=replace(block.store, value=tidy(value)))


# --- the blocks


def _maximum_of_all(ctx: Context, maxima: Block) -> Block:
    """The block that reduces partial maxima to the maximum of all."""
    _require_reducer(maxima, Reducer.MAX, "partial maxima")
    require_only_writer(ctx, OP, maxima)
    found = [b for b in readers(ctx.func, maxima.store.buffer) if _reduces_as_read(b, maxima, Reducer.MAX)]
    if len(found) != 1:
        raise ScheduleError(
            OP,
            f"no one block reduces what `{maxima.name}` writes to a maximum",
            (maxima.name,),
            "rfactor makes partial maxima, and the block that reduces them",
        )
    require_only_writer(ctx, OP, found[0])
    return found[0]


def _sum_of_all(ctx: Context, sums: Block) -> Block:
    """The block that adds up partial sums, their only reader."""
    _require_reducer(sums, Reducer.SUM, "partial sums")
    require_only_writer(ctx, OP, sums)
    found = readers(ctx.func, sums.store.buffer)
    if len(found) != 1 or not _reduces_as_read(found[0], sums, Reducer.SUM):
        raise ScheduleError(
            OP,
            f"what `{sums.name}` writes is not read by one sum alone, which adds it up",
            (sums.name, *(b.name for b in found)),
            "rfactor makes partial sums, and the block that adds them up; do this before other steps change these",
        )
    return found[0]


def _require_reducer(block: Block, reducer: Reducer, what: str) -> None:
    if block.reducer is not reducer or block.init != reducer.identity(block.store.value.dtype):
        raise ScheduleError(
            OP,
            f"`{block.name}` does not compute {what}",
            (block.name,),
            "rfactor makes partial results, in a block of the name that it returns",
        )


def _reduces_as_read(block: Block, partial: Block, reducer: Reducer) -> bool:
    value = block.store.value
    return block.reducer is reducer and isinstance(value, Load) and value.buffer == partial.store.buffer


# --- the exponential


@dataclass(frozen=True)
class _Exponential:
    """A factor `call` of a term: a function of (`exponent` - `maximum`) * `scale`; the scale may be None.

    Of a type of storage, the maximum is cast to the exponent's type.
    """

    call: Call
    exponent: Expr
    maximum: Load
    scale: Const | None

    def relative_to(self, other: Expr) -> Expr:
        """The exponential relative to another number than the maximum."""
        argument: Expr = Binary(BinOp.SUB, self.exponent, other)
        if self.scale is not None:
            argument = Binary(BinOp.MUL, argument, self.scale)
        return replace(self.call, args=(argument,))


def _exponential(sums: Block, top: Block) -> _Exponential:
    """The one factor of a term that reads the maximum."""
    buffer = top.store.buffer
    reading = [factor for factor in _factors(sums.store.value) if _reads(factor, buffer)]
    found = _match_exponential(reading[0], buffer) if len(reading) == 1 else None
    if found is None:
        raise ScheduleError(
            OP,
            f"the terms of `{sums.name}` have no single factor exp(x - {buffer}[..]) that reads `{buffer}`",
            (sums.name, top.name),
            f"compute_inline what computes the exponentials; what else reads `{buffer}` is to follow the sum",
        )
    return found


def _factors(e: Expr) -> list[Expr]:
    """The operands of a chain of products."""
    if isinstance(e, Binary) and e.op is BinOp.MUL:
        return _factors(e.a) + _factors(e.b)
    return [e]


def _replace_factor(e: Expr, old: Expr, new: Expr) -> Expr:
    """A chain of products with one operand replaced."""
    if isinstance(e, Binary) and e.op is BinOp.MUL:
        return Binary(BinOp.MUL, _replace_factor(e.a, old, new), _replace_factor(e.b, old, new))
    return new if e is old else e


def _match_exponential(e: Expr, buffer: str) -> _Exponential | None:
    if not isinstance(e, Call) or not functions()[e.func].exponential:
        return None
    argument, scale = _split_scale(e.args[0])
    if not isinstance(argument, Binary) or argument.op is not BinOp.SUB:
        return None
    exponent, maximum = argument.a, argument.b
    if isinstance(maximum, Cast):
        maximum = maximum.value
    if not isinstance(maximum, Load) or maximum.buffer != buffer or _reads(exponent, buffer):
        return None
    return _Exponential(e, exponent, maximum, scale)


def _split_scale(e: Expr) -> tuple[Expr, Const | None]:
    """An expression, and the positive number that it is multiplied by."""
    if isinstance(e, Binary) and e.op is BinOp.MUL:
        for scale, other in ((e.a, e.b), (e.b, e.a)):
            if isinstance(scale, Const) and scale.value > 0:
                return other, scale
    return e, None


def _reads(e: Expr, buffer: str) -> bool:
    return any(load.buffer == buffer for load in query.loads(e))


# --- which terms


def _require_own_row(top: Block, tops: Block, factor: _Exponential, read: Load) -> None:
    """Raise where the maximum that an exponent is relative to is not that of the parts that it is among."""
    parts, buffer = top.store.value, top.store.buffer
    assert isinstance(parts, Load)
    row = {e.name: i for e, i in zip(top.store.indices, factor.maximum.indices, strict=True) if isinstance(e, Var)}
    over_parts = {it.name for it in top.iters if it.kind is IterKind.REDUCE}
    for reduced, own in zip(parts.indices, read.indices, strict=True):
        if over_parts.isdisjoint(free_vars(reduced)) and simplify(substitute(reduced, row)) != simplify(own):
            raise ScheduleError(
                OP,
                f"exponents are relative to another element of `{buffer}` than the maximum of their own terms",
                (tops.name, top.name),
                f"the exponential of a term is relative to the maximum of its row, exp(x[i, j] - {buffer}[i])",
            )


def _terms_in_common(ctx: Context, sums: Block, maxima: Block, factor: _Exponential) -> Mapping[str, Expr]:
    """The variables of the partial maxima in terms of those of the partial sums, whose exponents are their terms."""
    names: dict[str, str] = {}
    exponent = _uncast(factor.exponent, factor.maximum.type)
    alike = _are_alike(maxima.store.value, exponent, names) and len(set(names.values())) == len(names)
    if not alike or not _have_same_iterations(ctx, sums, maxima, names):
        raise ScheduleError(
            OP,
            f"`{maxima.name}` does not reduce the exponents of `{sums.name}`, part by part",
            (sums.name, maxima.name),
            "split the loops of both in the same way, with inner sizes that are the same, before rfactor",
        )
    return {mine: Var(theirs) for mine, theirs in names.items()}


def _uncast(e: Expr, dtype: DType) -> Expr:
    """What is cast from a type, where an expression is that."""
    return e.value if isinstance(e, Cast) and e.value.dtype is dtype else e


_HOLE = Const(0)


def _are_alike(a: Node, b: Node, names: dict[str, str]) -> bool:
    """Whether two expressions are the same but for names of variables; `names` gets those of `b` by those of `a`."""
    if isinstance(a, Var) and isinstance(b, Var):
        return names.setdefault(a.name, b.name) == b.name
    mine, theirs = a.children(), b.children()
    if len(mine) != len(theirs) or a.map(lambda _: _HOLE) != b.map(lambda _: _HOLE):
        return False
    return all(_are_alike(x, y, names) for x, y in zip(mine, theirs, strict=True))


def _have_same_iterations(ctx: Context, sums: Block, maxima: Block, names: Mapping[str, str]) -> bool:
    """Whether variables have the same sizes and kinds, and guards leave no term to the sums that has no maximum."""
    theirs = {it.name: it for it in sums.iters}
    for it in maxima.iters:
        other = theirs.get(names.get(it.name, ""))
        if other is None or (other.extent, other.kind) != (it.extent, it.kind):
            return False
    renamed: dict[str, Expr] = {mine: Var(other) for mine, other in names.items()}
    guards = {substitute(guard, renamed) for guard in _over_iterations(ctx, maxima)}
    return guards <= set(_over_iterations(ctx, sums))


def _over_iterations(ctx: Context, block: Block) -> list[Expr]:
    """The guards of a block that may leave an iteration out, over its own variables, as far as loops are variables."""
    loops = {b.name: Var(it.name) for it, b in zip(block.iters, block.bindings, strict=True) if isinstance(b, Var)}
    ranges = query.ranges(query.loops_above(ctx.func, block.name))
    return [substitute(guard, loops) for guard in block.guards if not prove(guard, ranges)]


def _values_in(total: Block, sums: Block) -> Mapping[str, Expr]:
    """The variables of partial sums where the sum of all reads them; those that its buffer lacks have one value."""
    read = total.store.value
    assert isinstance(read, Load)
    places = zip(sums.store.indices, read.indices, strict=True)
    one_value = {it.name: ZERO for it in sums.iters if it.kind is IterKind.SPATIAL}
    return {**one_value, **{index.name: value for index, value in places if isinstance(index, Var)}}
