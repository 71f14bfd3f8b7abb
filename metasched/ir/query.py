"""Finding things in a `Func`, and replacing them. Every function is at most linear in the size of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Protocol, TypeVar

from metasched.ir.integers.affine import free_vars, free_vars_of, substitute
from metasched.ir.node_base import Node
from metasched.ir.nodes import Block, Expr, For, Func, IterKind, Load, LoopKind, Seq, Stmt, Var, seq
from metasched.support.cached import cached_property, kept_with
from metasched.support.data_classes import dataclass


class HasVariable(Protocol):
    """A loop, of a program or of what it is lowered to: its variable is its name."""

    @property
    def var(self) -> str: ...


L = TypeVar("L", bound=HasVariable)


def walk_stmts(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement at or below, in program order, parents first."""
    stack = [stmt]
    while stack:
        found = stack.pop()
        yield found
        if isinstance(found, For):
            stack.append(found.body)
        elif isinstance(found, Seq):
            stack.extend(reversed(found.stmts))


def blocks_under(stmt: Stmt) -> list[Block]:
    """Blocks at or below, in program order."""
    return [s for s in walk_stmts(stmt) if isinstance(s, Block)]


@dataclass(frozen=True)
class _Places:
    """The blocks and the loops of a program in program order, each with the loops around it, outermost first."""

    blocks: tuple[tuple[Block, tuple[For, ...]], ...]
    loops: tuple[tuple[For, tuple[For, ...]], ...]

    @cached_property
    def block_of(self) -> Mapping[str, tuple[Block, tuple[For, ...]]]:
        return {block.name: (block, above) for block, above in reversed(self.blocks)}

    @cached_property
    def block_counts(self) -> Mapping[str, int]:
        return Counter(loop.var for _, above in self.blocks for loop in above)

    @cached_property
    def loop_of(self) -> Mapping[str, tuple[For, tuple[For, ...]]]:
        return {loop.var: (loop, above) for loop, above in reversed(self.loops)}


_PLACES = "_places"


def _places(func: Func) -> _Places:
    """Kept with the program, as its hash is. Equal programs do not share it: statements are replaced by identity."""
    return kept_with(func, _PLACES, lambda: _find_places(func.body))


def _find_places(body: Stmt) -> _Places:
    found: list[tuple[Block, tuple[For, ...]]] = []
    nested: list[tuple[For, tuple[For, ...]]] = []
    stack: list[tuple[Stmt, tuple[For, ...]]] = [(body, ())]
    while stack:
        stmt, above = stack.pop()
        if isinstance(stmt, For):
            nested.append((stmt, above))
            stack.append((stmt.body, (*above, stmt)))
        elif isinstance(stmt, Block):
            found.append((stmt, above))
        elif isinstance(stmt, Seq):
            stack.extend((child, above) for child in reversed(stmt.stmts))
    return _Places(tuple(found), tuple(nested))


def blocks(func: Func) -> list[Block]:
    """All blocks in program order."""
    return [block for block, _ in _places(func).blocks]


def loops(func: Func) -> list[For]:
    """All loops in program order, outer before inner."""
    return [loop for loop, _ in _places(func).loops]


def find_block(func: Func, name: str) -> Block:
    """The block of a name. Raises KeyError when there is none."""
    return _places(func).block_of[name][0]


def find_loop(func: Func, var: str) -> For:
    """The loop of a variable. Raises KeyError when there is none."""
    return _places(func).loop_of[var][0]


def loops_above(func: Func, block: str) -> tuple[For, ...]:
    """The loops around a block, outermost first. Raises KeyError when there is no such block."""
    return _places(func).block_of[block][1]


def loops_above_loop(func: Func, var: str) -> tuple[For, ...]:
    """The loops around a loop, outermost first, itself excluded. Raises KeyError when there is no such loop."""
    return _places(func).loop_of[var][1]


def block_counts(func: Func, block: str) -> tuple[int, ...]:
    """How many blocks each of the loops around a block has in it, outermost first."""
    counts = _places(func).block_counts
    return tuple(counts[loop.var] for loop in loops_above(func, block))


def reduced_loops(block: Block) -> frozenset[str]:
    """The loops that the reduction iterations of a block use."""
    return _loops_of(block, IterKind.REDUCE)


def spatial_loops(block: Block) -> frozenset[str]:
    """The loops that the spatial iterations of a block use."""
    return _loops_of(block, IterKind.SPATIAL)


def _loops_of(block: Block, kind: IterKind) -> frozenset[str]:
    return free_vars_of(e for it, e in zip(block.iters, block.bindings, strict=True) if it.kind is kind)


def path_to(func: Func, target: Stmt) -> tuple[Stmt, ...]:
    """Statements from the body down to `target`, both included. Raises KeyError when it is not there."""
    path = _path(func.body, target)
    if path is None:
        raise KeyError(target)
    return path


def _path(stmt: Stmt, target: Stmt) -> tuple[Stmt, ...] | None:
    if stmt is target:
        return (stmt,)
    children = (stmt.body,) if isinstance(stmt, For) else stmt.stmts if isinstance(stmt, Seq) else ()
    for child in children:
        below = _path(child, target)
        if below is not None:
            return (stmt, *below)
    return None


def common_loops(*paths: tuple[L, ...]) -> tuple[L, ...]:
    """The loops that paths from the top of a program share, outermost first: those around all of them."""
    shared = paths[0]
    for path in paths[1:]:
        count = 0
        while count < min(len(shared), len(path)) and shared[count].var == path[count].var:
            count += 1
        shared = shared[:count]
    return shared


def ranges(loop_nest: tuple[For, ...] | list[For]) -> dict[str, Expr]:
    """Extents by loop variable."""
    return {loop.var: loop.extent for loop in loop_nest}


def replace_body(loop: For, body: Stmt) -> For:
    """A loop around something else: what `replace` gives, in a fraction of its time."""
    return For(loop.var, loop.extent, body, loop.kind, loop.lanes, loop.annotations, loop.region)


def edit(stmt: Stmt, old: Stmt, new: Stmt | None) -> Stmt | None:
    """`stmt` with the node `old` (by identity) replaced; None deletes it, and parents left empty with it."""
    if stmt is old:
        return new
    if isinstance(stmt, For):
        body = edit(stmt.body, old, new)
        return stmt if body is stmt.body else None if body is None else replace_body(stmt, body)
    if isinstance(stmt, Seq):
        children = [edit(child, old, new) for child in stmt.stmts]
        if all(a is b for a, b in zip(children, stmt.stmts, strict=True)):
            return stmt
        kept = [child for child in children if child is not None]
        return seq(kept) if kept else None
    return stmt


def reduces_in_lanes(loop: For) -> bool:
    """Whether a vectorised loop directly encloses a reduction along it: lanes can hold partial results, to be folded.

    Only reduction iterations use the loop.
    """
    block = loop.body
    if loop.kind is not LoopKind.VECTORIZED or not isinstance(block, Block):
        return False
    uses = [it.kind for it, e in zip(block.iters, block.bindings, strict=True) if loop.var in free_vars(e)]
    return block.reducer is not None and bool(uses) and set(uses) == {IterKind.REDUCE}


def replace_stmt(func: Func, old: Stmt, new: Stmt | None) -> Func:
    """`func` with the statement `old` (by identity) replaced by `new`, or removed when `new` is None."""
    body = edit(func.body, old, new)
    if body is None:
        raise ValueError("the last statement of a program cannot be removed")
    return replace(func, body=body)


def map_blocks(stmt: Stmt, fn: Callable[[Block], Block]) -> Stmt:
    """`stmt` with `fn` applied to every block below."""
    if isinstance(stmt, Block):
        return fn(stmt)
    return stmt.map(lambda child: map_blocks(child, fn) if isinstance(child, Stmt) else child)


def substitute_block(block: Block, values: Mapping[str, Expr], normalise: Callable[[Expr], Expr]) -> Block:
    """A block's bindings and guards with loop variables replaced, then put through `normalise`."""
    return replace(
        block,
        bindings=tuple(normalise(substitute(b, values)) for b in block.bindings),
        guards=tuple(normalise(substitute(g, values)) for g in block.guards),
    )


def loads(node: Node) -> list[Load]:
    """Every read below, in program order."""
    return [n for n in node.walk() if isinstance(n, Load)]


def variables(node: Node) -> set[str]:
    """Names of all variables in a node and everything below it."""
    return {below.name for below in node.walk() if isinstance(below, Var)}


def reads(block: Block) -> tuple[str, ...]:
    """Names of the buffers a block reads (its own accumulator excluded), once each, in order."""
    return _buffers_read(values(block))


@lru_cache(maxsize=1 << 12)
def _buffers_read(computed: tuple[Expr, ...]) -> tuple[str, ...]:
    """The buffers that what is computed reads. Most steps of a schedule leave that as it is, and change its loops."""
    seen = set[int]()
    found = (part for value in computed for part in value.parts(seen))
    return tuple(dict.fromkeys(part.buffer for part in found if isinstance(part, Load)))


def reads_of(block: Block) -> list[Load]:
    """Every read of a block, over its iteration variables: in what it writes, and in what its elements start from."""
    return [load for value in values(block) for load in loads(value)]


def writes(block: Block) -> str:
    """The buffer that a block writes; of an arg-reduction, that of its values."""
    return block.store.buffer


def written_buffers(block: Block) -> tuple[str, ...]:
    """Every buffer that a block writes."""
    return tuple(store.buffer for store in block.stores)


def map_values(block: Block, fn: Callable[[Expr], Expr]) -> Block:
    """A block with `fn` applied to all that it computes: what it stores, and what its elements start from."""
    return replace(
        block,
        store=replace(block.store, value=fn(block.store.value)),
        index=None if block.index is None else replace(block.index, value=fn(block.index.value)),
        init=None if block.init is None else fn(block.init),
    )


def values(block: Block) -> tuple[Expr, ...]:
    """All expressions that a block computes: what it stores, and what its elements start from."""
    stored = tuple(store.value for store in block.stores)
    return stored if block.init is None else (*stored, block.init)


def is_fill(block: Block) -> bool:
    """Whether a block writes a constant, which another block may write over."""
    return block.reducer is None and not any(loads(store.value) for store in block.stores)


def partitions(found: list[Block]) -> list[list[Block]]:
    """Blocks that write one buffer, grouped: those of a group write parts of it, as after loop_partition."""
    groups: list[list[Block]] = []
    for block in found:
        group = next((g for g in groups if _are_parts(g[0], block)), None)
        if group is None:
            groups.append([block])
        else:
            group.append(block)
    return groups


def parts_of(func: Func, block: Block) -> list[Block]:
    """The blocks that write parts of what a block writes, itself included."""
    found = [b for b in blocks(func) if not set(written_buffers(b)).isdisjoint(written_buffers(block))]
    return next(group for group in partitions(found) if block in group)


def _are_parts(a: Block, b: Block) -> bool:
    same = a.iters == b.iters and a.store.indices == b.store.indices and a.reducer is b.reducer
    return same and is_fill(a) is is_fill(b)


def producers(func: Func, block: str) -> list[Block]:
    """Blocks that write what this one reads, in program order, itself excluded."""
    wanted = set(reads(find_block(func, block)))
    return [b for b in blocks(func) if b.name != block and not wanted.isdisjoint(written_buffers(b))]


def consumers(func: Func, block: str) -> list[Block]:
    """Blocks that read what this one writes, in program order, itself excluded."""
    made = written_buffers(find_block(func, block))
    return [b for b in blocks(func) if b.name != block and not set(made).isdisjoint(reads(b))]


def names(func: Func) -> set[str]:
    """Every name in use: buffers, scalars, blocks, loop variables and shared parallel regions."""
    used = {b.name for b in func.buffers()} | {s.name for s in func.scalars}
    for stmt in walk_stmts(func.body):
        if isinstance(stmt, For):
            used.add(stmt.var)
            used.update((stmt.region,) if stmt.region else ())
        elif isinstance(stmt, Block):
            used.add(stmt.name)
    return used


def fresh_name(name: str, used: Container[str]) -> str:
    """`name`, or `name` with the first number that makes it unused."""
    if name not in used:
        return name
    number = 1
    while f"{name}_{number}" in used:
        number += 1
    return f"{name}_{number}"
