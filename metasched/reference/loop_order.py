"""The order in which the compiled reference goes through a perfect nest, and its memory.

Which element is next changes no result, as long as the terms of each keep the order of the program. So the reductions
run inside the loops over tiles and outside those over the elements of a tile: what a tile reads is read from caches by
all its elements, and a row of it is what LLVM vectorises. What a row reads with a stride is copied once, with that
dimension last. A product of 1000 x 1000 x 1200 by a transposed matrix takes an eighth of the time that it took
element by element.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from metasched.ir import query
from metasched.ir.integers.affine import NotAffine, as_int, coefficient, const, free_vars, simplify
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, IterKind, Load, Seq, Stmt, Store, Var
from metasched.support.data_classes import dataclass

# Elements: a tile of f64 and one of its error bounds are in a second-level cache, a row of each in the first.
_TILE_ELEMENTS = 4096
_ROW_ELEMENTS = 128
_OTHER_DIM_ELEMENTS = 16

# Elements of f64 in a line of a cache: further apart, each is read from a line of its own.
_LINE_ELEMENTS = 8

# Reads of an element, on average, that make up for a copy.
_READS_OF_A_COPY = 8


@dataclass(frozen=True)
class NestOrder:
    """A nest in the order that it runs in, and for each buffer to copy before it the dimension that comes last."""

    nest: Stmt
    last: Mapping[str, int] = field(default_factory=dict)


def order_nest(stmt: Stmt, shapes: Mapping[str, tuple[int, ...]], may_copy: frozenset[str] = frozenset()) -> NestOrder:
    """The order of a perfect nest whose reductions run inside the loops over tiles of elements; any other as it is.

    Where a block may compute an element more than once, the last loop over elements alone moves inside the reductions.

    Args:
        stmt: the nest.
        shapes: of its buffers.
        may_copy: the buffers that may be copied before it.
    """
    loops, body = _split_nest(stmt)
    inside = body.stmts if isinstance(body, Seq) else (body,)
    blocks = [b for b in inside if isinstance(b, Block)]
    if len(blocks) < len(inside) or any(not set(query.written_buffers(b)).isdisjoint(query.reads(b)) for b in blocks):
        return NestOrder(stmt)
    reducing = frozenset[str]().union(*map(query.reduced_loops, blocks))
    elements = [loop for loop in loops if loop.var not in reducing]
    reductions = [loop for loop in loops if loop.var in reducing]
    if not elements or not reductions:
        return NestOrder(stmt)
    if not all(_computes_each_once(b, elements) for b in blocks):
        return NestOrder(_wrap_loops([*elements[:-1], *reductions, elements[-1]], body))
    nest = _Nest(elements, reductions, body, blocks, shapes)
    return NestOrder(_tile_loops(nest), _copied_dims(nest, may_copy))


@dataclass(frozen=True)
class _Nest:
    """A nest of loops over elements, each of which is an iteration of every block, and of loops over terms."""

    elements: Sequence[For]
    reductions: Sequence[For]
    body: Stmt
    blocks: Sequence[Block]
    shapes: Mapping[str, tuple[int, ...]]

    def loops_by_step(self) -> list[For]:
        """The loops over elements, first that which moves the accesses least: the row. Of equal ones, the last."""
        last_first = self.elements[::-1]
        return sorted(last_first, key=lambda loop: self._step(loop.var))

    def accesses(self) -> Iterator[tuple[Block, Load | Store]]:
        for block in self.blocks:
            for node in block.walk():
                if isinstance(node, Load | Store):
                    yield block, node

    def _step(self, var: str) -> int:
        """The elements of lines by which an iteration moves all accesses together; what is stored was read before."""
        return sum(
            min(abs(self.distance(node, var, block)), _LINE_ELEMENTS) * (2 if isinstance(node, Store) else 1)
            for block, node in self.accesses()
        )

    def distance(self, node: Load | Store, var: str, block: Block) -> int:
        """The elements of a buffer by which an access moves with a loop; a line's, where that differs."""
        total, stride = 0, 1
        for index, size in zip(reversed(node.indices), reversed(self.shapes[node.buffer]), strict=True):
            total += stride * _index_distance(index, var, block)
            stride *= size
        return total


def _split_nest(stmt: Stmt) -> tuple[list[For], Stmt]:
    """The loops of a nest that are around all that it does, and what is inside them."""
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def _wrap_loops(loops: Sequence[For], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body


def _computes_each_once(block: Block, elements: Sequence[For]) -> bool:
    """Whether each loop over elements is an iteration of the block, so that no two instances compute one element."""
    iterations = {e for it, e in zip(block.iters, block.bindings, strict=True) if it.kind is IterKind.SPATIAL}
    return all(as_int(loop.extent) == 1 or Var(loop.var) in iterations for loop in elements) and all(
        as_int(loop.extent) is not None for loop in elements
    )


def _index_distance(index: Expr, var: str, block: Block) -> int:
    """The distance by which an index of a block moves with a loop; a line's elements, where that differs."""
    total = 0
    for iteration, binding in zip(block.iters, block.bindings, strict=True):
        if var in free_vars(binding) and iteration.name in free_vars(index):
            try:
                total += as_int(coefficient(index, iteration.name)) or _LINE_ELEMENTS
            except NotAffine:
                total += _LINE_ELEMENTS
    return total


def _tile_loops(nest: _Nest) -> Stmt:
    """Loops over tiles, over the terms, and over the elements of a tile, of which those of a row come last."""
    by_step, room = nest.loops_by_step(), _TILE_ELEMENTS
    tiles, inside = dict[str, For](), dict[str, For]()
    values = dict[str, Expr]()
    for loop in by_step:
        extent = as_int(loop.extent)
        assert extent is not None
        size = _even_tile(extent, min(room, _ROW_ELEMENTS if loop is by_step[0] else _OTHER_DIM_ELEMENTS))
        room //= size
        tile, element = f"{loop.var}.tile", f"{loop.var}.element"
        first = simplify(Var(tile) * size)
        left = simplify(Binary(BinOp.SUB, const(extent), first))
        tiles[loop.var] = replace(loop, var=tile, extent=const(math.ceil(extent / size)))
        length = const(size) if extent % size == 0 else Binary(BinOp.MIN, const(size), left)
        inside[loop.var] = replace(loop, var=element, extent=length)
        values[loop.var] = simplify(first + Var(element))
    order = [loop.var for loop in nest.elements if loop is not by_step[0]] + [by_step[0].var]
    body = query.map_blocks(nest.body, lambda b: query.substitute_block(b, values, simplify))
    outside = [tiles[loop.var] for loop in nest.elements]
    return _wrap_loops([*outside, *nest.reductions, *(inside[var] for var in order)], body)


def _even_tile(extent: int, most: int) -> int:
    """The size of tiles of at most `most`, as alike as can be."""
    return math.ceil(extent / math.ceil(extent / max(most, 1)))


def _copied_dims(nest: _Nest, may_copy: frozenset[str]) -> Mapping[str, int]:
    """The dimension of each buffer that a row goes through where it lies apart, if copies are worth their time."""
    row = nest.loops_by_step()[0].var
    terms = math.prod(as_int(loop.extent) or 1 for loop in [*nest.elements, *nest.reductions])
    found = dict[str, int]()
    for block, node in nest.accesses():
        size = math.prod(nest.shapes[node.buffer])
        if node.buffer not in may_copy or terms < _READS_OF_A_COPY * size:
            continue
        moved = [d for d, index in enumerate(node.indices) if _index_distance(index, row, block)]
        if len(moved) == 1 and abs(nest.distance(node, row, block)) >= _LINE_ELEMENTS:
            found.setdefault(node.buffer, moved[0])
    return found
