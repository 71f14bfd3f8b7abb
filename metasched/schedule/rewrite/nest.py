"""New loop nests around blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from metasched.ir.integers.affine import ZERO, simplify, substitute
from metasched.ir.integers.data import is_index_variable
from metasched.ir.integers.ranges import is_nonnegative
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Expr,
    For,
    IterKind,
    IterVar,
    Load,
    Stmt,
    Store,
    Var,
)
from metasched.schedule.context import Context
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Span:
    """The values `lo + [0, extent)` of an iteration variable; `inside` when they are all in its domain.

    `guards` are further conditions on the loop that runs over it, over `OFFSET` for its variable.
    """

    lo: Expr
    extent: Expr
    inside: bool
    guards: tuple[Expr, ...] = ()


OFFSET = Var("<offset>")


def iter_value(name: str) -> Var:
    """The variable for an iteration variable's value in a guard, distinct from any loop's variable."""
    return Var(f"<{name}>")


def whole(it: IterVar) -> Span:
    """The whole domain of an iteration variable."""
    return Span(ZERO, it.extent, True)


def loop_name(ctx: Context, iter_name: str, block: str, bare: bool) -> str:
    """An unused name for a new loop over an iteration variable; the variable's own name only if the loop is bound to it
    directly (`bare`)."""
    owner = block.replace(".", "_")
    wanted = [iter_name] * bare + [f"{iter_name}_{owner}", f"{iter_name}_of_{owner}"]
    return ctx.fresh(next((name for name in wanted if name not in ctx.taken), wanted[-1]))


def nest(ctx: Context, block: Block, spans: Mapping[str, Span], guards: Sequence[Expr] = ()) -> Stmt:
    """`block` in new serial loops, one for each iteration variable, in order, reductions innermost.

    `spans` restricts iteration variables; the others run over their domains. `guards` are additional guards, over
    `iter_value`s and the loops around. The block's old bindings and guards are dropped.
    """
    order = sorted(block.iters, key=lambda it: it.kind is IterKind.REDUCE)
    lows = {it.name: simplify(spans.get(it.name, whole(it)).lo) for it in order}
    loop_vars = {it.name: Var(loop_name(ctx, it.name, block.name, lows[it.name] == ZERO)) for it in order}
    bindings: dict[str, Expr] = {}
    conditions: list[Expr] = []
    for it in block.iters:
        span, var = spans.get(it.name, whole(it)), loop_vars[it.name]
        lo = lows[it.name]
        bindings[it.name] = var if lo == ZERO else Binary(BinOp.ADD, lo, var)
        conditions += _conditions(it, span, bindings[it.name], var)
    values: dict[str, Expr] = {iter_value(name).name: binding for name, binding in bindings.items()}
    conditions += [simplify_sides(substitute(g, values)) for g in guards]
    stmt: Stmt = replace(
        block,
        bindings=tuple(bindings[it.name] for it in block.iters),
        guards=tuple(dict.fromkeys(conditions)),
    )
    for it in reversed(order):
        stmt = For(loop_vars[it.name].name, simplify(spans.get(it.name, whole(it)).extent), stmt)
    return stmt


def _conditions(it: IterVar, span: Span, binding: Expr, var: Var) -> list[Expr]:
    out = [substitute(g, {OFFSET.name: var}) for g in span.guards]
    if span.inside:
        return out
    if not is_nonnegative(span.lo):
        out.append(Binary(BinOp.GE, binding, ZERO))
    return [*out, Binary(BinOp.LT, binding, it.extent)]


def simplify_sides(g: Expr) -> Expr:
    """A condition with its sides in normal form; it is not folded to a constant."""
    return g.map(simplify_sides if isinstance(g, Binary) and g.op.is_logical else simplify)


def copy_block(name: str, source: Load, target: str, names: Sequence[str], shape: Sequence[Expr]) -> Block:
    """A block that copies a whole buffer of `shape` to another of equal shape; `source` gives name and dtype.

    Its bindings are placeholders: put it through `nest`.
    """
    iters = tuple(IterVar(n, extent, IterKind.SPATIAL) for n, extent in zip(names, shape, strict=True))
    index = tuple(Var(n) for n in names)
    return Block(name, iters, index, (), Store(target, index, replace(source, indices=index)))


def index_names(ctx: Context, indices: Sequence[Expr]) -> list[str]:
    """Names for the dimensions of a buffer, after the variables that index it where these are bare and distinct."""
    return iter_names(ctx, [e.name if is_index_variable(e) else f"ax{d}" for d, e in enumerate(indices)])


def iter_names(ctx: Context, wanted: Iterable[str], used: Iterable[str] = ()) -> list[str]:
    """Names for new iteration variables: those wanted, if they are distinct, not in `used` and no scalar argument's."""
    taken = {*used, *(s.name for s in ctx.func.scalars)}
    names: list[str] = []
    for name in wanted:
        while name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return names
