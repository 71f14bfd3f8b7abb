"""Prefetches what a loop reads some iterations ahead.

The loop at iteration `n` asks for the lines that iteration `n + distance` reads: in the first pass of the serial loops
inside it, and all of the unrolled and vectorised ones. Elements are asked for one by one, and emission asks for each
line once. Reads that an iteration moves by less than a line are left to the hardware, which follows them: asked for
each time, they would take as many loads as the reads themselves. A tile, a run of elements that the loops inside use
more than once, is asked for in equal parts in all of their passes instead, so that it arrives evenly. Addresses past
the end of an array are only hints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from metasched.compiler import lir
from metasched.ir.integers.affine import ONE, ZERO, as_int, const, free_vars, simplify, substitute
from metasched.ir.nodes import Binary, BinOp, Expr, Load, Var
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE

_Loops = tuple[lir.Loop | lir.VectorLoop, ...]

# Of smaller tiles the hardware finds the next in time.
_LEAST_TILE_BYTES = 1024
# The cache that a tile is asked into: it is used when another has been, which goes through the first.
_SECOND_CACHE = 2


def prefetch_ahead(
    var: str,
    distance: int,
    body: lir.LStmt,
    bytes_of: Callable[[str], int],
    ordered: Callable[[Expr, _Loops], Expr],
) -> lir.LStmt:
    """`body` of the loop over `var`, after statements that ask for what it reads `distance` iterations later.

    `bytes_of` gives the bytes of an element of an array in memory, and 0 for one that is in none; `ordered` puts an
    index in the order of the loops around and those given.
    """
    later = Binary(BinOp.ADD, Var(var), const(distance))
    asked: dict[lir.LStmt, None] = {}
    for loops, load in _reads(body, ()):
        index, size = load.indices[0], bytes_of(load.buffer)
        if not size or var not in free_vars(index) or any(isinstance(x, Load) for x in index.walk()):
            continue
        step = _index_step(index, var)
        if step is not None and abs(step) * size < CACHE_LINE:
            continue
        kept = tuple(x for x in loops if x.var in free_vars(index) and _is_straight(x))
        values: dict[str, Expr] = {x.var: ZERO for x in loops if x not in kept}
        values[var] = later
        place = ordered(simplify(substitute(index, values)), kept)
        asked[_wrap_loops(kept, lir.Prefetch(load.buffer, place))] = None
    return lir.Body((*asked, body)) if asked else body


@dataclass(frozen=True)
class TilePrefetch:
    """Asks, in a loop over `var`, for what its iteration `distance` further on reads, a part in each pass inside.

    `bytes_of` gives the bytes of an element of an array in memory, and 0 for one that is in none; `ordered` puts an
    index in the order of the loops around and those given.
    """

    var: str
    distance: int
    bytes_of: Callable[[str], int]
    ordered: Callable[[Expr, _Loops], Expr]

    def add_prefetches(self, body: lir.LStmt) -> lir.LStmt:
        """Add prefetches to the body of the loop over `var`."""
        return self._prefetch_inside(body, ())

    def _prefetch_inside(self, stmt: lir.LStmt, around: tuple[lir.Loop, ...]) -> lir.LStmt:
        """Add prefetches to the serial loops of a statement, which is inside the loops `around`."""
        if isinstance(stmt, lir.Loop) and not _is_straight(stmt):
            inside = (*around, stmt)
            body = self._prefetch_inside(stmt.body, inside)
            asked = dict.fromkeys(
                each for load in _straight_reads(stmt.body) for each in self._tile_prefetches(*load, inside)
            )
            body = lir.Body((*asked, body)) if asked else body
            return lir.Loop(stmt.var, stmt.extent, stmt.mode, body, stmt.counter)
        return stmt.map(lambda child: self._prefetch_inside(child, around) if isinstance(child, lir.LStmt) else child)

    def _tile_prefetches(self, straight: _Loops, load: Load, around: tuple[lir.Loop, ...]) -> Iterator[lir.LStmt]:
        """The prefetches, in a pass of the serial loops `around`, of its part of the tile that `load` reads later."""
        tile = self._find_tile(load, straight, around)
        if tile is None:
            return
        pass_number, passes = _pass_number([x for x in around if x.var not in tile.gaps])
        each = -(-tile.length // passes)
        for offset in range(0, each, CACHE_LINE // self.bytes_of(load.buffer)):
            part = Binary(BinOp.MUL, pass_number, const(each))
            place = Binary(BinOp.ADD, tile.first, Binary(BinOp.ADD, part, const(offset)))
            yield lir.Prefetch(load.buffer, self.ordered(simplify(place), around), _SECOND_CACHE)

    def _find_tile(self, load: Load, straight: _Loops, around: tuple[lir.Loop, ...]) -> _Tile | None:
        """The tile that the loops read by `load` some iterations later; None where none is to be asked for."""
        index, size, loops = load.indices[0], self.bytes_of(load.buffer), (*around, *straight)
        if not size or not _moves_each_iteration(index, self.var) or any(isinstance(x, Load) for x in index.walk()):
            return None
        used = free_vars(index)
        steps = {x.var: _index_step(index, x.var) for x in loops if x.var in used}
        if any(step is None or step < 0 for step in steps.values()):
            return None
        length, gaps = 1, set[str]()
        for loop in sorted((x for x in loops if x.var in used), key=lambda x: steps[x.var] or 0):
            step = steps[loop.var] or 0
            if step > length:
                gaps.add(loop.var)
            else:
                length += step * (_most_iterations(loop.extent) - 1)
        reused = any(_most_iterations(x.extent) > 1 for x in loops if x.var not in used)
        if not reused or any(x.var in gaps for x in straight):
            return None
        runs = prod(_most_iterations(x.extent) for x in around if x.var in gaps)
        if length * size < CACHE_LINE or runs * length * size < _LEAST_TILE_BYTES:
            return None
        later = Binary(BinOp.ADD, Var(self.var), const(self.distance))
        values: dict[str, Expr] = {x.var: ZERO for x in loops if x.var not in gaps} | {self.var: later}
        return _Tile(simplify(substitute(index, values)), length, frozenset(gaps))


@dataclass(frozen=True)
class _Tile:
    """Runs of `length` elements, one for each of the values of the variables `gaps`, that begin at `first`."""

    first: Expr
    length: int
    gaps: frozenset[str]


def _moves_each_iteration(index: Expr, var: str) -> bool:
    """Whether most iterations of a loop read elsewhere than the one before; what quotients alone decide does not."""
    if isinstance(index, Binary) and index.op is BinOp.FLOORDIV:
        return False
    return index == Var(var) or any(
        _moves_each_iteration(child, var) for child in index.children() if isinstance(child, Expr)
    )


def _index_step(index: Expr, var: str) -> int | None:
    """How far an index moves with a variable, where that is known."""
    moved = substitute(index, {var: Binary(BinOp.ADD, Var(var), ONE)})
    return as_int(simplify(Binary(BinOp.SUB, moved, index)))


def _most_iterations(extent: Expr) -> int:
    """The iterations of a loop where nothing clips it."""
    while isinstance(extent, Binary) and extent.op is BinOp.MIN:
        extent = extent.a
    known = as_int(extent)
    return 1 if known is None else max(known, 1)


def _pass_number(loops: Sequence[lir.Loop]) -> tuple[Expr, int]:
    """The number of a pass of nested loops, and how many there are."""
    number: Expr = ZERO
    count = 1
    for loop in reversed(loops):
        number = Binary(BinOp.ADD, number, Binary(BinOp.MUL, Var(loop.var), const(count)))
        count *= _most_iterations(loop.extent)
    return number, count


def _straight_reads(body: lir.LStmt) -> Iterator[tuple[_Loops, Load]]:
    """The reads of a serial loop's body that are in no other serial loop."""
    return ((loops, load) for loops, load in _reads(body, ()) if all(map(_is_straight, loops)))


def _is_straight(loop: lir.Loop | lir.VectorLoop) -> bool:
    """Whether all iterations are asked for: the extent may not depend on anything that runs."""
    if free_vars(loop.extent):
        return False
    return isinstance(loop, lir.VectorLoop) or loop.mode is lir.LoopMode.UNROLLED


def _wrap_loops(loops: _Loops, stmt: lir.LStmt) -> lir.LStmt:
    for loop in reversed(loops):
        if isinstance(loop, lir.VectorLoop):
            stmt = lir.VectorLoop(loop.var, loop.extent, loop.lanes, loop.unroll_strips, stmt)
        else:
            stmt = lir.Loop(loop.var, loop.extent, loop.mode, stmt)
    return stmt


def _reads(stmt: lir.LStmt, loops: _Loops) -> Iterator[tuple[_Loops, Load]]:
    """Every read, with the loops around it from the body on, but for those at a place that data tells."""
    told = {stmt.var} if isinstance(stmt, lir.AtPlace) else set()
    inner = (*loops, stmt) if isinstance(stmt, lir.Loop | lir.VectorLoop) else loops
    for child in stmt.children():
        if isinstance(child, lir.LStmt):
            found = _reads(child, inner)
            yield from ((loops, load) for loops, load in found if told.isdisjoint(free_vars(load.indices[0])))
        elif not isinstance(stmt, lir.Prefetch):
            yield from ((inner, node) for node in child.walk() if isinstance(node, Load))
