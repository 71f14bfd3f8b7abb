"""Sums in blocks: partial sums of so many terms each are added to the sum.

The error of a float sum of n terms grows with n where they are added one after another, and with b + n/b in blocks of b
(Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14(4), 1993, section 3). The partial sums are
an intermediate that begins anew with each block:

    for k in 4096:                        for k_block in 8:
        for j in 16:                          for j in 16:
            C[j] += A[k, j]          ->           C_part[j] = -0
                                              for k_term in 512:
                                                  for j in 16:
                                                      C_part[j] += A[k_block*512 + k_term, j]
                                              for j in 16:
                                                  C[j] += C_part[j]

A block is as many of the innermost loops of the reduction as give no more terms than asked for. The next loop out is
split, unless it is unrolled; an unrolled innermost loop is a block of its own. So no loop comes between the terms and
their sum: a tile of accumulators stays in registers for a block. Where it is asked for, what the terms of a block have
as a factor is left out of them, and multiplies their sum. Of -0 every term is as it is,
0 included. Lanes along a reduction count as one term, since each has a sum of its own. The nest of a tensor intrinsic
is not split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from math import prod

from metasched.compiler.absent_terms import split_terms
from metasched.compiler.lower.nest import (
    Assign,
    NameSupply,
    NestLoop,
    NestStmt,
    Path,
    assigns,
    clone_over_elements,
    join_statements,
    map_assigns,
    map_children,
    replace_body,
    wrap_loops,
)
from metasched.compiler.lower.residues import drop_multiples
from metasched.compiler.lower.strip_mining import substitute_loops
from metasched.ir.index_map import resolve
from metasched.ir.integers.affine import const, free_vars
from metasched.ir.nodes import Binary, BinOp, Buffer, Const, Expr, Func, Load, LoopKind, Reducer, Var
from metasched.support.data_classes import dataclass


def sum_in_blocks(func: Func, stmt: NestStmt, names: NameSupply) -> tuple[Func, NestStmt]:
    """`func` with the partial sums among its intermediates, and `stmt` with sums taken in the blocks asked for."""
    found = next(((path, a, cut) for path, a in assigns(stmt) if (cut := _find_cut(path, a)) is not None), None)
    if found is None:
        return func, stmt
    path, update, cut = found
    name = names.fresh(f"{update.array}_part")
    partial = Buffer(name, func.buffer(update.array).shape, update.value.dtype)
    stmt = _BlockedSum(path, update, cut, name, names).replace_loop(stmt)
    return sum_in_blocks(replace(func, temps=(*func.temps, partial)), stmt, names)


@dataclass(frozen=True)
class _Cut:
    """A block is the loop `loop`, or so many `steps` of it where that is not all of them."""

    loop: NestLoop
    steps: int


def _find_cut(path: Path, update: Assign) -> _Cut | None:
    """The loop at which a sum is cut into blocks; None where it is no longer than one, or cannot be cut."""
    length = update.block_length
    if not length or update.reducer is not Reducer.SUM or not update.value.dtype.is_float:
        return None
    own = [loop for loop in _loops_outside_intrinsics(path) if loop.var in update.reduction - update.spatial]
    inside = [loop for loop in path[len(_loops_outside_intrinsics(path)) :] if loop.var in update.reduction]
    terms, found = prod(loop.steps for loop in inside), None
    for loop in reversed(own):
        if terms * loop.steps > length:
            steps = length // terms
            if steps > 1 and _can_split(loop):
                return _Cut(loop, _even_block_length(loop.steps, steps))
            # One that is straight code is a block of its own.
            return found or (_Cut(loop, loop.steps) if loop is not own[0] else None)
        terms *= loop.steps
        found = _Cut(loop, loop.steps)
    return None


def _loops_outside_intrinsics(path: Path) -> Path:
    """The loops that no tensor intrinsic does."""
    return path[: next((n for n, loop in enumerate(path) if loop.tensor is not None), len(path))]


def _can_split(loop: NestLoop) -> bool:
    return not loop.unroll and loop.kind is not LoopKind.PARALLEL


def _even_block_length(steps: int, most: int) -> int:
    """The length of a block of steps: at most `most`, and such that blocks are equal unless that more than halves
    it.
    """
    return next((n for n in range(most, most // 2, -1) if steps % n == 0), most)


class _BlockedSum:
    """A sum taken in blocks, in the place of `update`, which is in the loops of `path`."""

    def __init__(self, path: Path, update: Assign, cut: _Cut, partial: str, names: NameSupply) -> None:
        self._update, self._cut, self._partial, self._names = update, cut, partial, names
        self._inner = path[path.index(cut.loop) :]
        ranges = {loop.var: const(loop.extent) for loop in path}
        own, self._common = (
            _factors(update, self._reduced_loops(), ranges) if update.common_factor else ([update.value], [])
        )
        self._term = _product(own)
        self._wanted = _outer_conditions(path, self._inner, update)

    def replace_loop(self, stmt: NestStmt) -> NestStmt:
        """`stmt` with the loop that is cut replaced."""
        if isinstance(stmt, NestLoop) and stmt.var == self._cut.loop.var:
            return self._block_loop(stmt)
        return map_children(stmt, self.replace_loop)

    def _block_loop(self, loop: NestLoop) -> NestStmt:
        """The loop over blocks, or a single block of all its iterations."""
        begin, end = self._start_partial_sum(), self._add_partial_sum()
        terms = replace_body(loop, map_assigns(loop.body, lambda a: self._partial_update() if a is self._update else a))
        if self._cut.steps == loop.steps:
            return join_statements([begin, terms, end])
        outer = self._names.fresh(f"{loop.var}_block")
        inner = self._names.fresh(f"{loop.var}_term")
        extent = self._cut.steps * loop.lanes
        position = Binary(BinOp.ADD, Binary(BinOp.MUL, Var(outer), const(extent)), Var(inner))
        tail = (Binary(BinOp.LT, position, const(loop.extent)),) if loop.extent % extent else ()
        body = substitute_loops(terms.body, {loop.var: position}, tail)
        part = replace(terms, var=inner, extent=extent, body=_reduce_only_inner(body, self._partial, inner, outer))
        return NestLoop(outer, -(-loop.extent // extent), join_statements([begin, part, end]), limit=loop.limit)

    def _partial_update(self) -> Assign:
        """The update of a partial sum."""
        return replace(
            self._update,
            array=self._partial,
            value=self._term,
            reduction=self._reduced_loops(),
            block_length=0,
            streams=False,
            wanted=self._wanted,
        )

    def _start_partial_sum(self) -> NestStmt:
        nothing = Const(-0.0, self._update.value.dtype)
        begin = replace(self._element_update(), array=self._partial, value=nothing, reducer=None)
        return self._clone_over_elements(replace(begin, starts=self._update.block, begins=nothing, streams=False))

    def _add_partial_sum(self) -> NestStmt:
        part = _product([Load(self._partial, self._update.indices, self._update.value.dtype), *self._common])
        return self._clone_over_elements(replace(self._element_update(), value=part, in_memory=True, streams=False))

    def _element_update(self) -> Assign:
        """The update, where it is about an element and not about its terms in a block."""
        update = self._update
        gone = {loop.var for loop in self._inner} - update.spatial
        return replace(
            update,
            guards=tuple(g for g in update.guards if gone.isdisjoint(free_vars(g))),
            wanted=self._wanted,
            reduction=update.reduction - gone,
            block_length=0,
        )

    def _clone_over_elements(self, body: Assign) -> NestStmt:
        """`body` inside clones of the loops over the elements of a block."""
        loops = [loop for loop in self._inner if loop.var in self._update.spatial]
        clones = [clone_over_elements(loop, self._names.fresh(f"{loop.var}_part")) for loop in loops]
        renamed = {old.var: Var(new.var) for old, new in zip(loops, clones, strict=True)}
        return wrap_loops(clones, substitute_loops(body, renamed))

    def _reduced_loops(self) -> frozenset[str]:
        return self._update.reduction & {loop.var for loop in self._inner}


def _outer_conditions(path: Path, inner: Path, update: Assign) -> tuple[Expr, ...]:
    """The conditions of terms that the loops around a block decide: of the copies of code for the parities of a
    transposed convolution, most have no term.
    """
    inside = {loop.var for loop in inner} | {loop.var for loop in path if loop.is_vector}
    conditions, _ = split_terms(update.value, update.reducer, lambda _: False)
    return tuple(cond for cond in map(drop_multiples, conditions) if inside.isdisjoint(free_vars(cond)))


def _factors(update: Assign, terms: frozenset[str], ranges: Mapping[str, Expr]) -> tuple[list[Expr], list[Expr]]:
    """The factors of a product that vary over loops along its terms, and those that do not; all where none varies."""
    found: list[Expr] = []
    stack = [update.value]
    while stack:
        e = stack.pop()
        if isinstance(e, Binary) and e.op is BinOp.MUL:
            stack += [e.b, e.a]
        else:
            found.append(_resolve_places(e, ranges))
    own = [e for e in found if not terms.isdisjoint(free_vars(e))]
    return (own, [e for e in found if terms.isdisjoint(free_vars(e))]) if own else (found, [])


def _resolve_places(e: Expr, ranges: Mapping[str, Expr]) -> Expr:
    """An expression whose reads depend on the loops that decide their place alone."""
    if isinstance(e, Load):
        return replace(e, indices=tuple(resolve(index, ranges) for index in e.indices))
    return e.map(lambda child: _resolve_places(child, ranges))


def _product(factors: list[Expr]) -> Expr:
    return reduce(lambda a, b: Binary(BinOp.MUL, a, b), factors)


def _reduce_only_inner(body: NestStmt, partial: str, inner: str, outer: str) -> NestStmt:
    """`body` where only the terms of a block are those of a partial sum, not the blocks."""

    def rewrite(a: Assign) -> NestStmt:
        return replace(a, reduction=a.reduction - {outer}) if a.array == partial and inner in a.reduction else a

    return map_assigns(body, rewrite)
