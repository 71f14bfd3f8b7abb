"""Programs that compute the same for each element of a batch: which dimensions are the batch's, and what an element is.

A product of matrices for each head, a softmax over the last of four axes: dropping the leading dimensions of results,
wherever operands have them, leaves a program of fewer loops, which may be an operator that experts wrote traces for. So
may the program whose operands lie the other way, where these are matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from math import prod

from metasched.ir import query
from metasched.ir.integers.affine import as_int, free_vars
from metasched.ir.nodes import Block, Buffer, Expr, For, Func, IterKind, Load, Stmt, Store, Var
from metasched.ir.program import Program
from metasched.support.data_classes import dataclass

_MATRIX = 2


@dataclass(frozen=True)
class Batch:
    """The leading dimensions of a program's results along which each element is computed alike.

    `element` is the program of one element, of which there are `elements`. `dims` says of each tensor which of its
    dimensions are the batch's, `loops` which loops run over them. Operands in `turned` are transposed matrices in the
    element.
    """

    element: Program
    elements: int
    dims: Mapping[str, tuple[int, ...]]
    loops: frozenset[str]
    turned: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """How a trace for the element is adapted, in words."""
        words = ["for each element of a batch"] if self.loops else []
        if self.turned:
            words.append(f"with {' and '.join(sorted(self.turned))} transposed")
        return ", ".join(words)


def batch_of_one(program: Program) -> Batch:
    """The program as its own element."""
    return Batch(program, 1, {buffer.name: () for buffer in program.func.buffers()}, frozenset())


def transpose_operands(batch: Batch) -> Iterator[Batch]:
    """The batch whose element has some of its operands that are matrices the other way: one of them, then several."""
    matrices = [buffer.name for buffer in batch.element.inputs if len(buffer.shape) == _MATRIX]
    for count in range(1, len(matrices) + 1):
        for turned in combinations(matrices, count):
            element = replace(batch.element, func=_transpose_inputs(batch.element.func, frozenset(turned)))
            yield replace(batch, element=element, turned=frozenset(turned))


def batches(program: Program) -> Iterator[Batch]:
    """The batches that an unscheduled program may be taken for: of one leading dimension, then of two, and so on.

    A dimension is a batch's where every stage that computes something of it has an iteration variable of its own for
    it, which only selects an element of the operands; operands not indexed by it are shared.
    """
    least = min(len(buffer.shape) for buffer in program.outputs)
    for count in range(1, least):
        found = _batch(program, count)
        if found is None:
            return
        yield found


def _batch(program: Program, count: int) -> Batch | None:
    dims = {buffer.name: tuple(range(count)) for buffer in program.outputs}
    variables: dict[str, frozenset[str]] = {}
    for block in reversed(query.blocks(program.func)):
        own = _variables(block, dims)
        if own is None or not _collect(block, own, dims):
            return None
        variables[block.name] = own
    dims = {buffer.name: dims.get(buffer.name, ()) for buffer in program.func.buffers()}
    loops = _loops(program.func, variables)
    if loops is None:
        return None
    element = replace(program, func=_element(program.func, dims, variables, loops))
    elements = prod(as_int(extent) or 1 for extent in program.outputs[0].shape[:count])
    return Batch(element, elements, dims, loops)


def _variables(block: Block, dims: Mapping[str, tuple[int, ...]]) -> frozenset[str] | None:
    """The iteration variables that index the batch's dimensions of what a block writes; None if another index does."""
    spatial = {it.name for it in block.iters if it.kind is IterKind.SPATIAL}
    found: set[str] = set()
    for store in block.stores:
        indices = [store.indices[n] for n in dims.get(store.buffer, ())]
        if not all(isinstance(index, Var) and index.name in spatial for index in indices):
            return None
        found |= {index.name for index in indices if isinstance(index, Var)}
    return frozenset(found)


def _collect(block: Block, variables: frozenset[str], dims: dict[str, tuple[int, ...]]) -> bool:
    """Add the batch's dimensions of what a block reads; False if a batch variable is used in any other way."""
    values = [store.value for store in block.stores] + ([] if block.init is None else [block.init])
    uses = sum(isinstance(n, Var) and n.name in variables for value in values for n in value.walk())
    for load in (load for value in values for load in query.loads(value)):
        found = tuple(n for n, index in enumerate(load.indices) if free_vars(index) & variables)
        if not all(isinstance(load.indices[n], Var) for n in found) or dims.setdefault(load.buffer, found) != found:
            return False
        uses -= len(found)
    return uses == 0


def _loops(func: Func, variables: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    """The loops that a batch's variables are bound to; None if one of them is also used otherwise."""
    own: set[str] = set()
    others: set[str] = set()
    for block in query.blocks(func):
        for it, binding in zip(block.iters, block.bindings, strict=True):
            (own if it.name in variables[block.name] else others).update(free_vars(binding))
    return None if own & others else frozenset(own)


def _element(
    func: Func, dims: Mapping[str, tuple[int, ...]], variables: Mapping[str, frozenset[str]], loops: frozenset[str]
) -> Func:
    """The function without a batch's dimensions and loops."""

    def buffers(given: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        return tuple(replace(b, shape=_others(b.shape, dims[b.name])) for b in given)

    def expr(e: Expr) -> Expr:
        if isinstance(e, Load):
            return Load(e.buffer, tuple(expr(i) for i in _others(e.indices, dims[e.buffer])), e.dtype)
        mapped: Expr = e.map(lambda child: expr(child) if isinstance(child, Expr) else child)
        return mapped

    def store(s: Store) -> Store:
        return Store(s.buffer, _others(s.indices, dims[s.buffer]), expr(s.value))

    def block(b: Block) -> Block:
        kept = [n for n, it in enumerate(b.iters) if it.name not in variables[b.name]]
        return replace(
            b,
            iters=tuple(b.iters[n] for n in kept),
            bindings=tuple(b.bindings[n] for n in kept),
            store=store(b.store),
            index=None if b.index is None else store(b.index),
            init=None if b.init is None else expr(b.init),
        )

    def stmt(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.var in loops:
            return stmt(s.body)
        if isinstance(s, Block):
            return block(s)
        return s.map(lambda child: stmt(child) if isinstance(child, Stmt) else child)

    return replace(
        func,
        inputs=buffers(func.inputs),
        outputs=buffers(func.outputs),
        temps=buffers(func.temps),
        body=stmt(func.body),
    )


def _transpose_inputs(func: Func, turned: frozenset[str]) -> Func:
    """The function with inputs that are matrices transposed."""

    def expr(e: Expr) -> Expr:
        mapped: Expr = e.map(lambda child: expr(child) if isinstance(child, Expr) else child)
        if isinstance(mapped, Load) and mapped.buffer in turned:
            return replace(mapped, indices=mapped.indices[::-1])
        return mapped

    def block(b: Block) -> Block:
        return query.map_values(b, expr)

    inputs = tuple(replace(b, shape=b.shape[::-1]) if b.name in turned else b for b in func.inputs)
    return replace(func, inputs=inputs, body=query.map_blocks(func.body, block))


def _others(items: tuple[Expr, ...], dims: tuple[int, ...]) -> tuple[Expr, ...]:
    return tuple(item for n, item in enumerate(items) if n not in dims)
