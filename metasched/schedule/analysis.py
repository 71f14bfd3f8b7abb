"""Properties of a block in the current program, for rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from metasched.dtypes import DType
from metasched.functions.registry import functions
from metasched.ir import query
from metasched.ir.integers.affine import NotAffine, as_int, free_vars, free_vars_of, linear
from metasched.ir.integers.data import depends_on_data, is_index_variable
from metasched.ir.integers.ranges import prove
from metasched.ir.node_base import Node
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Call,
    Cast,
    Expr,
    For,
    Func,
    IterKind,
    IterVar,
    Load,
    LoopKind,
    Reducer,
    Select,
    Store,
    Unary,
    Var,
)
from metasched.ir.places import place_of
from metasched.ir.prologue import unpacks
from metasched.schedule.rewrite.borders import BOUNDS, change_along
from metasched.schedule.summation import block_length
from metasched.schedule.term_share import share_of_terms
from metasched.support.cached import kept_with
from metasched.support.data_classes import dataclass

_COMPARING_REDUCERS = (Reducer.MAX, Reducer.MIN, Reducer.ARGMAX, Reducer.ARGMIN)


@dataclass(frozen=True)
class IterInfo:
    """An iteration variable: `extent` is None when it depends on tile sizes; `loops` are the loops it is bound to."""

    name: str
    reduces: bool
    extent: int | None
    loops: tuple[str, ...]


@dataclass(frozen=True)
class ReadInfo:
    """A read: the buffer, its element type, and which iteration variables each of its indices uses.

    `bare` has the iteration variable that an index is, and None for any other index; `beside` the variables that each
    index moves by one with; `shape` the buffer's extents, and None for those that depend on tile sizes. `place` numbers
    the places of all reads of the block: reads of one place, which may be several, have the same one.
    """

    buffer: str
    dtype: DType
    uses: tuple[frozenset[str], ...]
    bare: tuple[str | None, ...] = ()
    beside: tuple[frozenset[str], ...] = ()
    shape: tuple[int | None, ...] = ()
    place: int = 0

    @property
    def iters(self) -> frozenset[str]:
        return frozenset().union(*self.uses)


@dataclass(frozen=True)
class Inside:
    """The values `low` .. `high` - 1 of an iteration variable: for them every bound in a condition on it holds.

    That is so whatever values other variables have.
    """

    low: int
    high: int


@dataclass(frozen=True)
class Remainder:
    """`(...) % divisor` in a condition: the iteration variables that it depends on, and no others.

    In `(h + 2*r) % 2 == 0` it is `h` alone.
    """

    divisor: int
    iters: frozenset[str]


@dataclass(frozen=True)
class BlockInfo:
    """A block as rules see it.

    Attributes:
        iters: the iteration variables, spatial and reduction.
        reads: every read of its right-hand side, the accumulator excluded.
        reduces: it is a reduction.
        initialises: it is a reduction whose initial value is not written by a separate block.
        output: it writes an output of the program.
        operations: operations of its right-hand side, each as often as it is written; index arithmetic does not count.
        conditional: its right-hand side has a condition, such as padding, that does not always hold.
        inside: for spatial iteration variables that are bounded in its conditions, where no bound is met: what is
            outside are borders.
        present: the share of a reduction's iterations that have a term, by the bounds in its condition; 1 where that
            depends on data or on tile sizes.
        remainders: those in its conditions, by a number, of sums of iteration variables.
        calls: names of the math functions it uses.
        divides: it divides or takes a remainder.
        compares: it takes a maximum or a minimum, of terms or of operands.
        floats: it computes with floats, whatever type it stores.
        expensive: it calls a math function that is a chain of many instructions (`metasched.functions`).
        costly: an element takes at least a division or a square root.
        elementwise: it is no reduction, and every read uses each iteration variable at most once, bare.
        trivial: each loop around it is serial and bound to one iteration variable, and each variable to one loop.
        loops: the loops around it, outermost first; `kinds` has the kind of each, `extents` how often it runs, None
            where that depends on tile sizes, and `held` the number of blocks that it contains, so that two loops with
            equal numbers are directly nested.
        readers, sources: the blocks that read its buffer, and that write what it reads.
        dtype: the element type of the buffer that it writes; those of its operands are in `reads`.
        writes: the buffer that it writes; `positions`: it is an arg-reduction, which also writes a buffer of positions.
        shared: the spatial variables that a read divides by a number which divides the extent, such as `o // 32` for
            the group of a channel, with that number.
        places: the iteration variables whose value a condition of each term gives, such as `v` in a histogram's sum of
            what equals `v`, with the variables that this depends on.
        sum_block: for a long sum of f32, the best number of terms to sum in a block; 0 for any other.
        steps: the iteration variables that a read divides by numbers, such as `k // 32` for the scale of a weight, with
            these numbers.
        unpacks: it makes constant arguments larger, element by element, such as weights of few bits.
        once: it depends on constant arguments alone, and no result does: `pack` computes it, and no call.
    """

    name: str
    iters: tuple[IterInfo, ...]
    reads: tuple[ReadInfo, ...]
    reduces: bool
    initialises: bool
    output: bool
    operations: int
    conditional: bool
    inside: Mapping[str, Inside]
    present: float
    remainders: tuple[Remainder, ...]
    calls: tuple[str, ...]
    divides: bool
    compares: bool
    floats: bool
    expensive: bool
    costly: bool
    elementwise: bool
    trivial: bool
    loops: tuple[str, ...]
    kinds: tuple[LoopKind, ...]
    extents: tuple[int | None, ...]
    readers: tuple[str, ...]
    sources: tuple[str, ...]
    held: tuple[int, ...]
    dtype: DType
    writes: str
    positions: bool
    shared: tuple[tuple[str, int], ...]
    places: Mapping[str, frozenset[str]]
    sum_block: int
    steps: Mapping[str, tuple[int, ...]]
    unpacks: bool
    once: bool

    @property
    def spatial(self) -> tuple[IterInfo, ...]:
        return tuple(it for it in self.iters if not it.reduces)

    @property
    def reduction(self) -> tuple[IterInfo, ...]:
        return tuple(it for it in self.iters if it.reduces)

    def size(self, iters: tuple[IterInfo, ...]) -> int | None:
        """The product of extents; None when one depends on tile sizes."""
        product = 1
        for it in iters:
            if it.extent is None:
                return None
            product *= it.extent
        return product

    @property
    def instances(self) -> int | None:
        """How often the block runs in all."""
        return self.size(self.iters)

    def iter_of(self, loop: str) -> tuple[IterInfo, ...]:
        """The iteration variables that a loop drives."""
        return tuple(it for it in self.iters if loop in it.loops)


_DESCRIBED = "_described"


def describe_block(func: Func, name: str) -> BlockInfo:
    """The properties of a block, kept with the program. Raises KeyError if there is no such block."""
    known: dict[str, BlockInfo] = kept_with(func, _DESCRIBED, dict)
    if name not in known:
        known[name] = _described(func, query.find_block(func, name))
    return known[name]


def _described(func: Func, block: Block) -> BlockInfo:
    nest = query.loops_above(func, block.name)
    own = _own_info(block.iters, block.stores, block.reducer)
    output = any(b.name in query.written_buffers(block) for b in func.outputs)
    constant = bool(own.reads) and all(func.buffer(name).const for name in query.reads(block))
    widens = constant and unpacks(func, block)
    iters = tuple(
        IterInfo(it.name, it.kind is IterKind.REDUCE, as_int(it.extent), _loops(binding, nest))
        for it, binding in zip(block.iters, block.bindings, strict=True)
    )
    return BlockInfo(
        **{**vars(own), "reads": _reads(func, own.reads)},
        name=block.name,
        iters=iters,
        reduces=block.reducer is not None,
        initialises=block.init is not None,
        output=output,
        trivial=all(isinstance(b, Var) for b in block.bindings)
        and len(nest) == len(block.bindings)
        and all(loop.kind is LoopKind.SERIAL for loop in nest),
        loops=tuple(loop.var for loop in nest),
        kinds=tuple(loop.kind for loop in nest),
        extents=tuple(as_int(loop.extent) for loop in nest),
        readers=tuple(b.name for b in query.consumers(func, block.name)),
        sources=tuple(b.name for b in query.producers(func, block.name)),
        held=query.block_counts(func, block.name),
        dtype=func.buffer(query.writes(block)).dtype,
        writes=query.writes(block),
        positions=block.index is not None,
        sum_block=block_length(func, block),
        unpacks=widens,
        once=constant and not widens and not output,
    )


# The buffer, `uses`, `bare`, `beside` and `place` of a ReadInfo.
_Read: TypeAlias = tuple[str, tuple[frozenset[str], ...], tuple[str | None, ...], tuple[frozenset[str], ...], int]


@dataclass(frozen=True)
class _Own:
    """What a block's statement alone determines, wherever it stands and whatever loops it is bound to.

    All but the reads are attributes of `BlockInfo`, by the same names.
    """

    reads: tuple[_Read, ...]
    operations: int
    conditional: bool
    inside: Mapping[str, Inside]
    present: float
    remainders: tuple[Remainder, ...]
    calls: tuple[str, ...]
    divides: bool
    compares: bool
    floats: bool
    expensive: bool
    costly: bool
    elementwise: bool
    shared: tuple[tuple[str, int], ...]
    places: Mapping[str, frozenset[str]]
    steps: Mapping[str, tuple[int, ...]]


@lru_cache(maxsize=1 << 12)
def _own_info(iters: tuple[IterVar, ...], stores: tuple[Store, ...], reducer: Reducer | None) -> _Own:
    """The facts that a statement alone determines; cached, as schedules move statements more often than they change
    them.
    """
    nodes = [node for store in stores for node in store.value.walk()]
    domain = {it.name: it.extent for it in iters}
    names = frozenset(domain)
    calls = tuple(dict.fromkeys(n.func for n in nodes if isinstance(n, Call)))
    loads = [load for store in stores for load in query.loads(store.value)]
    places = {load: n for n, load in enumerate(dict.fromkeys(loads))}
    return _Own(
        reads=tuple(
            (
                load.buffer,
                tuple(free_vars(i) & names for i in load.indices),
                tuple(i.name if is_index_variable(i) else None for i in load.indices),
                tuple(_moved_by_one(i, names) for i in load.indices),
                places[load],
            )
            for load in loads
        ),
        operations=sum(_operations(store.value) for store in stores),
        conditional=any(isinstance(n, Select) and prove(n.cond, domain) is not True for n in nodes),
        inside=_insides(nodes, iters),
        present=share_of_terms(iters, stores[0], reducer),
        remainders=_remainders(nodes, names),
        calls=calls,
        divides=any(isinstance(n, Binary) and n.op in (BinOp.DIV, BinOp.FLOORDIV, BinOp.MOD) for n in nodes),
        compares=reducer in _COMPARING_REDUCERS
        or any(isinstance(n, Binary) and n.op in (BinOp.MAX, BinOp.MIN) for n in nodes),
        floats=any(store.value.dtype.is_float for store in stores)
        or any(isinstance(n, Binary | Unary | Call) and n.dtype.is_float for n in nodes),
        expensive=any(functions()[name].expensive for name in calls),
        costly=any(isinstance(n, Binary) and n.op is BinOp.DIV for n in nodes)
        or any(functions()[name].costly for name in calls),
        elementwise=_is_elementwise(stores, reducer),
        shared=_shared_variables(iters, stores),
        places=_places(iters, stores[0].value, reducer),
        steps=_steps(stores),
    )


def _moved_by_one(index: Expr, names: frozenset[str]) -> frozenset[str]:
    """The variables whose next iteration is the next element along a dimension."""
    try:
        _, terms = linear(index, names)
    except NotAffine:
        return frozenset()
    return frozenset(atom.name for atom, step in terms.items() if isinstance(atom, Var) and as_int(step) == 1)


def _insides(nodes: list[Node], iters: tuple[IterVar, ...]) -> Mapping[str, Inside]:
    extents = {it.name: it.extent for it in iters}
    found: dict[str, Inside] = {}
    bounds = [
        node
        for select in nodes
        if isinstance(select, Select)
        for node in select.cond.walk()
        if isinstance(node, Binary) and node.op in BOUNDS and not depends_on_data(node)
    ]
    for it in iters:
        extent = as_int(it.extent)
        if it.kind is not IterKind.SPATIAL or extent is None:
            continue
        others = {name: e for name, e in extents.items() if name != it.name}
        changes = [change for bound in bounds if (change := change_along(bound, it.name, others)) is not None]
        low = max((c.at for c in changes if c.begins), default=0)
        high = min((c.at for c in changes if not c.begins), default=extent)
        if changes:
            found[it.name] = Inside(min(max(low, 0), extent), max(min(high, extent), 0))
    return found


def _remainders(nodes: list[Node], names: frozenset[str]) -> tuple[Remainder, ...]:
    found: dict[Remainder, None] = {}
    conditions = (node for select in nodes if isinstance(select, Select) for node in select.cond.walk())
    for node in conditions:
        if not isinstance(node, Binary) or node.op is not BinOp.MOD or depends_on_data(node):
            continue
        divisor = as_int(node.b)
        if not divisor:  # of zero, every remainder is zero
            continue
        try:
            _, terms = linear(node.a, names)
        except NotAffine:
            continue
        steps = {atom: as_int(step) for atom, step in terms.items()}
        if not all(isinstance(atom, Var) for atom in steps) or None in steps.values():
            continue
        moving = [atom.name for atom, step in steps.items() if isinstance(atom, Var) and (step or 0) % divisor]
        found[Remainder(divisor, frozenset(moving))] = None
    return tuple(found)


def _operations(e: Expr) -> int:
    if isinstance(e, Load):
        return 0
    own = isinstance(e, Binary | Unary | Call | Select | Cast)
    return own + sum(_operations(child) for child in e.children() if isinstance(child, Expr))


def _loops(binding: Expr, nest: tuple[For, ...]) -> tuple[str, ...]:
    used = free_vars(binding)
    return tuple(loop.var for loop in nest if loop.var in used)


def _reads(func: Func, reads: tuple[_Read, ...]) -> tuple[ReadInfo, ...]:
    return tuple(
        ReadInfo(
            name,
            func.buffer(name).dtype,
            uses,
            bare,
            beside,
            tuple(as_int(e) for e in func.buffer(name).shape),
            place,
        )
        for name, uses, bare, beside, place in reads
    )


def _shared_variables(iters: tuple[IterVar, ...], stores: tuple[Store, ...]) -> tuple[tuple[str, int], ...]:
    extents = {it.name: as_int(it.extent) for it in iters if it.kind is IterKind.SPATIAL}
    found: dict[str, int] = {}
    for name, divisor in _divisions(stores):
        extent = extents.get(name)
        if extent and not extent % divisor:
            found.setdefault(name, divisor)
    return tuple(found.items())


def _steps(stores: tuple[Store, ...]) -> Mapping[str, tuple[int, ...]]:
    found: dict[str, set[int]] = {}
    for name, divisor in _divisions(stores):
        found.setdefault(name, set()).add(divisor)
    return {name: tuple(sorted(divisors)) for name, divisors in found.items()}


def _divisions(stores: tuple[Store, ...]) -> Iterator[tuple[str, int]]:
    """The variables that indices of reads divide by numbers, with these."""
    indices = (index for store in stores for load in query.loads(store.value) for index in load.indices)
    for node in (node for index in indices for node in index.walk()):
        if isinstance(node, Binary) and node.op is BinOp.FLOORDIV and isinstance(node.a, Var):
            divisor = as_int(node.b)
            if divisor:
                yield node.a.name, divisor


def _places(iters: tuple[IterVar, ...], value: Expr, reducer: Reducer | None) -> Mapping[str, frozenset[str]]:
    extents = {it.name: it.extent for it in iters}
    found = {name: place for name in extents if (place := place_of(value, reducer, name, extents)) is not None}
    return {name: free_vars_of((place.index, *place.conds)) & extents.keys() for name, place in found.items()}


def _is_elementwise(stores: tuple[Store, ...], reducer: Reducer | None) -> bool:
    if reducer is not None or len(stores) > 1:
        return False
    for load in query.loads(stores[0].value):
        seen = [i.name for i in load.indices if is_index_variable(i)]
        if any(free_vars(i) for i in load.indices if not is_index_variable(i)) or len(set(seen)) != len(seen):
            return False
    return True
