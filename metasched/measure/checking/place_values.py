"""Which integers among a program's arguments say places: those that it compares with its iteration variables.

Of `M[b] = max[i if i64(I[i]) == b](X[i])` the numbers of `I` are segments. Drawn far beyond them, most of `M` would
have no term, and little would be checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from metasched.ir.integers.affine import NotAffine, as_int
from metasched.ir.integers.linear import Linear, combine, form_of_sum, to_expr
from metasched.ir.integers.ranges import bounds
from metasched.ir.nodes import Binary, Block, Cast, Expr, Func, Load, Var

Span = tuple[int, int]  # inclusive
_PLACES_PER_MARGIN = 16  # one in so many of the places lies beyond them at either end, and one more: these have no term


def place_values(func: Func) -> dict[str, Span]:
    """The integers that are worth drawing of each argument that is compared with places, by name: all places, and a
    few beyond, which the program leaves alone. The sizes of the program are known.
    """
    found: dict[str, Span] = {}
    arguments = {b.name for b in func.inputs if b.dtype.is_integer} | {s.name for s in func.scalars}
    for block in (node for node in func.body.walk() if isinstance(node, Block)):
        for name, (low, high) in _compared_arguments(block, arguments):
            least, most = found.get(name, (low, high))
            found[name] = min(low, least), max(high, most)
    return {name: _and_beyond(span) for name, span in found.items()}


def _and_beyond(span: Span) -> Span:
    margin = 1 + (span[1] - span[0] + 1) // _PLACES_PER_MARGIN
    return span[0] - margin, span[1] + margin


def _compared_arguments(block: Block, arguments: set[str]) -> Iterator[tuple[str, Span]]:
    """Arguments that a block compares with places, with the values at which an equation would hold."""
    extents = {i.name: i.extent for i in block.iters}
    for node in block.store.value.walk():
        if not (isinstance(node, Binary) and node.op.is_comparison and node.a.dtype.is_integer):
            continue
        difference = combine((1, _form(node.a)), (-1, _form(node.b)))
        for atom, factor in difference.terms:
            if abs(factor) == 1 and _name_of(atom) in arguments:
                # The rest of the difference is as far from zero, on the other side.
                span = _span(difference.plus(Linear.of_atom(atom), -factor).times(-factor), extents)
                if span is not None:
                    yield _name_of(atom), span


def _name_of(atom: Expr) -> str:
    return atom.buffer if isinstance(atom, Load) else atom.name if isinstance(atom, Var) else ""


def _form(e: Expr) -> Linear:
    while isinstance(e, Cast) and e.dtype.is_integer and e.value.dtype.is_integer:
        e = e.value
    return form_of_sum(e, _form) or Linear.of_atom(e)


def _span(form: Linear, extents: dict[str, Expr]) -> Span | None:
    """The values of what iteration variables alone decide; None for anything else."""
    if not form.terms:
        return None
    try:
        found = bounds(to_expr(form), extents)
    except NotAffine:
        return None
    low, high = as_int(found.lo), as_int(found.hi)
    return None if low is None or high is None else (low, high)
