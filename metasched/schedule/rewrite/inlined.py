"""Checks of a block after another block's expression was inlined into it."""

from __future__ import annotations

from metasched.dtypes import INDEX
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import as_int, free_vars
from metasched.ir.integers.data import depends_on_data
from metasched.ir.nodes import Binary, BinOp, Block, Expr, Func, Unary
from metasched.ir.printer import print_expr
from metasched.lang.elaboration.bounds import Assumptions
from metasched.schedule.rewrite.parts import writers

_DIVISIONS = frozenset({BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV})


def require_index_arithmetic(op: str, block: Block, before: Block, other: Block, hint: str) -> None:
    """Raise when arithmetic that becomes index arithmetic may leave 64 bits, or divides by what may not be positive.

    `other` is the block that was inlined. Arithmetic on data read from a buffer wraps, and division by zero gives 0.
    Index arithmetic that replaces it is simplified as over mathematical integers with positive divisors.
    """
    extents = {it.name: size for it in block.iters if (size := as_int(it.extent)) is not None}
    assumed = Assumptions(extents)
    seen = set[int]()
    old = [e for value in query.values(before) for e in value.parts(seen)]
    for value in query.values(block):
        for e in value.parts(seen):
            if not isinstance(e, Expr) or not _is_index_arithmetic(e) or e in old:
                continue
            problem = _problem(e, assumed)
            if problem:
                raise ScheduleError(
                    op,
                    f"`{before.name}` and `{other.name}` in one have index arithmetic that {problem}",
                    (other.name, before.name),
                    hint,
                )


def _problem(e: Expr, assumed: Assumptions) -> str:
    """The reason why an expression is not valid index arithmetic; empty if it is."""
    divides = isinstance(e, Binary) and e.op in _DIVISIONS and any(v in assumed.extents for v in free_vars(e.b))
    if isinstance(e, Binary) and divides and assumed.range(e.b)[0] <= 0:
        return f"may divide by zero or less, `{print_expr(e)}`; over what is read, division by zero gives 0"
    if not assumed.fits_64_bits(e):
        return f"may leave 64 bits, `{print_expr(e)}`; over what is read, it wraps"
    return ""


def _is_index_arithmetic(e: Expr) -> bool:
    return isinstance(e, Binary | Unary) and e.dtype is INDEX and not depends_on_data(e)


def require_same_parts(op: str, before: Func, after: Func, inlined: Block, reader: Block) -> None:
    """Raise when inlining hides that `reader` overwrites another block's values, or writes another part of its buffer.

    A block that fills a buffer is recognised by reading nothing, one that overwrites it by reading something.
    """
    name = query.writes(reader)
    if _groups(before, name) == _groups(after, name):
        return
    others = [b.name for b in writers(before, name) if b.name != reader.name]
    raise ScheduleError(
        op,
        f"block `{reader.name}`, which writes `{name}` as `{others[0]}` does, would read nothing any more",
        (inlined.name, reader.name, *others),
        f"{op} `{inlined.name}` before decompose_padding or loop_partition of `{reader.name}`",
    )


def _groups(func: Func, buffer: str) -> list[list[str]]:
    return [[b.name for b in group] for group in query.partitions(writers(func, buffer))]
