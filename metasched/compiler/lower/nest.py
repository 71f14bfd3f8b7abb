"""The loop nest that lowering works on, between a `Func` and the low-level program.

As in a `Func`, loops are around statements and buffers have dimensions; but blocks are gone: an `Assign` is over
loop variables directly, extents are integers, and what a schedule says by annotations is a field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from metasched.dtypes import DType
from metasched.ir.node_base import Node, node
from metasched.ir.nodes import Expr, Load, LoopKind, Reducer


class NestStmt(Node):
    """A statement of the loop nest."""


@node
class ArgPositions(Node):
    """What an arg-reduction finds besides values: `array[indices] = value`, where the value beside it is written.

    `init` is what an element starts from. `rising` says that its positions come in rising order, and that it starts
    from the first of them: then no two are ever compared. `narrow` is the type that accumulators may have: the array's
    own, unless positions rise; then the smallest that holds all of them and is no smaller than a value.
    """

    array: str
    indices: tuple[Expr, ...]
    value: Expr
    narrow: DType
    init: Expr | None = None
    rising: bool = False


@node
class Assign(NestStmt):
    """`array[indices] = value`, or with a reducer `array[indices] = reducer(array[indices], value)`.

    It runs when every guard holds. `init` is what the element starts from, until init placement made it a statement.
    `reduction` are the loops that only reduction iterations use, `spatial` those that the indices use. `limit` is the
    unroll limit set on the block itself. `starts` names the block whose elements this initialises, and `begins` is the
    value they start from, over the loops of that block. `fast` and `streams` are as in `lir.Write`. An arg-reduction
    and what starts one have `positions`. `block_length` is how many terms of a sum are summed at a time, 0 for all;
    where `common_factor`, what these have as a factor multiplies their sum.
    `in_memory` says that it updates memory without accumulators, as it runs once for many terms. Where one of `wanted`
    does not hold, nothing needs it: these become guards with the conditions of terms (`terms`).
    """

    block: str
    array: str
    indices: tuple[Expr, ...]
    value: Expr
    guards: tuple[Expr, ...] = ()
    reducer: Reducer | None = None
    init: Expr | None = None
    reduction: frozenset[str] = frozenset()
    spatial: frozenset[str] = frozenset()
    limit: int | None = None
    starts: str | None = None
    begins: Expr | None = None
    fast: bool = False
    streams: bool = False
    positions: ArgPositions | None = None
    block_length: int = 0
    common_factor: bool = False
    in_memory: bool = False
    wanted: tuple[Expr, ...] = ()

    @property
    def written(self) -> dict[str, tuple[Expr, ...]]:
        """The arrays it writes, and where."""
        places = {self.array: self.indices}
        return places if self.positions is None else {**places, self.positions.array: self.positions.indices}

    @property
    def reads(self) -> Iterator[Load]:
        """What its values read, besides the elements that a reduction updates."""
        yield from loads(self.value)
        if self.positions is not None:
            yield from loads(self.positions.value)


@node
class NestLoop(NestStmt):
    """`for var in range(min(extent, *clips))`.

    `unroll` repeats the body (of a vectorised loop: its strips). `limit` is the unroll limit in force, if any, and
    `by_limit` says that the loop is unrolled because of it. `tensor` is the intrinsic that does the whole loop.
    `prefetch` is how many iterations ahead what it reads is asked for, 0 for not at all; `prefetch_tile` the same for
    what is asked for pass by pass of the loops inside. With `rereads`, every iteration reads its operands from memory
    again. `counter` is as in `lir.Loop`. `place` is the only iteration of a scattered loop that is run, where it is one
    of them.
    """

    var: str
    extent: int
    body: NestStmt
    kind: LoopKind = LoopKind.SERIAL
    lanes: int = 1
    unroll: bool = False
    limit: int | None = None
    clips: tuple[Expr, ...] = ()
    tensor: str | None = None
    prefetch: int = 0
    prefetch_tile: int = 0
    rereads: bool = False
    counter: int | None = None
    place: Expr | None = None
    by_limit: bool = False

    @property
    def steps(self) -> int:
        """Times the body runs, a vector of lanes counting once."""
        if self.kind is LoopKind.SCATTERED:
            return 1
        return -(-self.extent // self.lanes)

    @property
    def is_vector(self) -> bool:
        return self.kind is LoopKind.VECTORIZED


@node
class Many(NestStmt):
    """Statements in order."""

    stmts: tuple[NestStmt, ...]


@node
class CountedNest(NestStmt):
    """`body`, with a counter of this number around it; nothing but `flatten` meets one."""

    number: int
    body: NestStmt


@node
class NestRegion(NestStmt):
    """Phases of one parallel region: all threads wait for one another between two of them.

    Each is a parallel loop; what one thread runs is the body of one of a single iteration.
    """

    phases: tuple[NestStmt, ...]


@node
class When(NestStmt):
    """`body`, if every condition holds."""

    conds: tuple[Expr, ...]
    body: NestStmt


Path = tuple[NestLoop, ...]
T = TypeVar("T", bound=NestStmt)


def join_statements(stmts: list[NestStmt] | tuple[NestStmt, ...]) -> NestStmt:
    """A statement of several, flattened."""
    flat: list[NestStmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Many) else (stmt,))
    return flat[0] if len(flat) == 1 else Many(tuple(flat))


def sequence(stmt: NestStmt) -> tuple[NestStmt, ...]:
    """The statements that a sequence or a region is made of; none for any other."""
    return stmt.stmts if isinstance(stmt, Many) else stmt.phases if isinstance(stmt, NestRegion) else ()


def runs_in_threads(path: Path) -> bool:
    """Whether what is inside these loops runs on several threads at once."""
    return any(loop.kind is LoopKind.PARALLEL and loop.extent > 1 for loop in path)


def replace_body(loop: NestLoop, body: NestStmt) -> NestLoop:
    return loop if body is loop.body else replace(loop, body=body)


def clone_over_elements(loop: NestLoop, var: str) -> NestLoop:
    """A clone of a loop, for a statement about every element that its terms go to."""
    kind = LoopKind.SERIAL if loop.kind is LoopKind.SCATTERED else loop.kind
    return replace(loop, var=var, kind=kind, tensor=None, prefetch=0, prefetch_tile=0)


def wrap_loops(loops: Path | list[NestLoop], body: NestStmt) -> NestStmt:
    """`body` inside `loops`, given outermost first."""
    for loop in reversed(loops):
        body = replace_body(loop, body)
    return body


def map_children(stmt: NestStmt, fn: Callable[[NestStmt], NestStmt]) -> NestStmt:
    """`stmt` with the statements directly inside rewritten."""
    if isinstance(stmt, NestLoop):
        return replace_body(stmt, fn(stmt.body))
    if isinstance(stmt, When):
        body = fn(stmt.body)
        return stmt if body is stmt.body else When(stmt.conds, body)
    if isinstance(stmt, NestRegion):
        phases = tuple(fn(child) for child in stmt.phases)
        return stmt if all(a is b for a, b in zip(phases, stmt.phases, strict=True)) else NestRegion(phases)
    if isinstance(stmt, Many):
        stmts = [fn(child) for child in stmt.stmts]
        return stmt if all(a is b for a, b in zip(stmts, stmt.stmts, strict=True)) else join_statements(stmts)
    return stmt


def map_assigns(stmt: NestStmt, fn: Callable[[Assign], NestStmt]) -> NestStmt:
    return fn(stmt) if isinstance(stmt, Assign) else map_children(stmt, lambda child: map_assigns(child, fn))


def assigns(stmt: NestStmt, path: Path = ()) -> Iterator[tuple[Path, Assign]]:
    """Every assignment, with the loops around it from `path` on, in program order."""
    if isinstance(stmt, Assign):
        yield path, stmt
    elif isinstance(stmt, NestLoop):
        yield from assigns(stmt.body, (*path, stmt))
    elif isinstance(stmt, When):
        yield from assigns(stmt.body, path)
    else:
        for child in sequence(stmt):
            yield from assigns(child, path)


def loops(stmt: NestStmt) -> Iterator[NestLoop]:
    """Every loop, parents first."""
    if isinstance(stmt, NestLoop):
        yield stmt
        yield from loops(stmt.body)
    elif isinstance(stmt, When):
        yield from loops(stmt.body)
    else:
        for child in sequence(stmt):
            yield from loops(child)


def loads(e: Expr) -> Iterator[Load]:
    """Every read in an expression."""
    if isinstance(e, Load):
        yield e
    for child in e.children():
        if isinstance(child, Expr):
            yield from loads(child)


class NameSupply:
    """Hands out loop variables that are not in use."""

    def __init__(self, used: set[str]) -> None:
        self._used = used

    def fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._used:
            name, number = f"{wanted}_{number}", number + 1
        self._used.add(name)
        return name
