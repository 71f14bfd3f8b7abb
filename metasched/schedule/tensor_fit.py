"""How a block could be computed with a tensor intrinsic: which of its iteration variables are the instruction's axes.

Loop orders, layouts and sizes do not matter here. An axis of the instruction is told by which operands it indexes, and
so is a variable of the block: those of a matmul's rows index the first operand and the result. Padding makes sizes fit,
and copies make layouts fit; `TensorFit` says which of them it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from math import prod
from types import MappingProxyType

from metasched.dtypes import DType
from metasched.ir import query
from metasched.ir.integers.affine import ONE, NotAffine, as_int, free_vars, free_vars_of, linear
from metasched.ir.nodes import Block, Expr, Func, IterKind, Load, Reducer, Var
from metasched.ir.printer import print_expr
from metasched.schedule.tensor import Intrinsic, Mismatch, intrinsics, intrinsics_for, unify_operands
from metasched.support.cached import kept_with
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing

Operands = frozenset[int]
"""Which operands a variable indexes, by number; the result is 0."""


@dataclass(frozen=True)
class TensorAxis:
    """The block's variables that become some axes of an intrinsic, which index the same operands.

    `axes` are the intrinsic's and `sizes` their extents, outermost first. With several `iters` the block's are to be
    fused first, in this order; `extent` is the product of theirs.
    """

    iters: tuple[str, ...]
    extent: int
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    reduces: bool

    @property
    def size(self) -> int:
        """Values of the variable in one use of the intrinsic."""
        return prod(self.sizes)

    @property
    def padded(self) -> int:
        """The extent as a multiple of the size."""
        return -(-self.extent // self.size) * self.size


@dataclass(frozen=True)
class Digit:
    """The part `// divisor % modulo` of an index; `modulo` is None for the highest part."""

    dim: int
    divisor: int
    modulo: int | None

    def text(self, name: str) -> str:
        """The access as index arithmetic."""
        quotient = name if self.divisor == 1 else f"{name}//{self.divisor}"
        return quotient if self.modulo is None else f"{quotient}%{self.modulo}"


@dataclass(frozen=True)
class TensorOperand:
    """An access of the block that is an operand of the intrinsic, number 0 the result.

    `ready`: it lies in memory as the intrinsic takes it. `digits` are the parts of the buffer's indices in the order in
    which a copy has them for the intrinsic, outermost first; none where only a copy that is indexed by the block's
    own variables can be laid out so.
    """

    number: int
    buffer: str
    rank: int
    ready: bool
    digits: tuple[Digit, ...]

    @property
    def layout(self) -> str:
        """The index map for `transform_layout`."""
        names = [f"d{n}" for n in range(self.rank)]
        return f"{', '.join(names)} -> {', '.join(d.text(names[d.dim]) for d in self.digits)}"


@dataclass(frozen=True)
class TensorFit:
    """A way to compute a block with an intrinsic; `uses` says of each variable which operands it indexes."""

    intrinsic: Intrinsic
    axes: tuple[TensorAxis, ...]
    operands: tuple[TensorOperand, ...]
    uses: Mapping[str, Operands]

    @property
    def waste(self) -> float:
        """What is computed, padding included, over what is needed."""
        return prod(axis.padded / axis.extent for axis in self.axes)

    @property
    def fused(self) -> bool:
        """Whether variables are to be fused first."""
        return any(len(axis.iters) > 1 for axis in self.axes)

    @property
    def axis_of_lanes(self) -> TensorAxis:
        """The axis that vector lanes run along: the last of the result."""
        return next(axis for axis in self.axes if self.intrinsic.axes[-1] in axis.axes)

    def axis_of(self, name: str) -> TensorAxis | None:
        """What an iteration variable of the block is an axis of."""
        return next((axis for axis in self.axes if name in axis.iters), None)


# A fit that fuses variables copies its operands and its result: what it saves has to be worth that.
_WORTH_FUSING = 1.25
# Copies of an operand that lies otherwise, and of the result, as shares of the whole.
_COPY, _COPY_OF_RESULT = 0.01, 0.05


_FITS = "_tensor_fits"


def fits_of(func: Func, block: Block, names: Sequence[str]) -> tuple[TensorFit, ...]:
    """The ways to compute a block of a program with one of some intrinsics, the most promising first, kept with it.

    Raises Mismatch where there is none, and KeyError for an unknown intrinsic.
    """
    known: dict[tuple[str, ...], tuple[TensorFit, ...]] = kept_with(func, _FITS, dict)
    key = (block.name, *names)
    if key not in known:
        known[key] = _find_fits(func, block, names)
    return known[key]


def _find_fits(func: Func, block: Block, names: Sequence[str]) -> tuple[TensorFit, ...]:
    known = [intrinsics()[name] for name in names]
    _require_sum(block)
    dtype = func.buffer(block.store.buffer).dtype
    fitting = {intrinsic.name for intrinsic in intrinsics_for(block, dtype)}
    found: list[TensorFit] = []
    why: Mismatch | None = None
    for intrinsic in known:
        if intrinsic.name in fitting:
            try:
                found += _fits_one(func, block, intrinsic)
            except Mismatch as error:
                why = why or error
    if not found:
        raise why or Mismatch(_type_mismatch(block, dtype, names))
    return tuple(sorted(found, key=_effort))


def _type_mismatch(block: Block, dtype: DType, names: Sequence[str]) -> str:
    factors = " and ".join(str(load.type) for load in query.loads(block.store.value))
    shown = listing(names, "or")
    summed = print_expr(block.store.value)
    return f"it sums {summed} in {dtype}, with elements of {factors}, which is not what {shown} does"


def _fits_one(func: Func, block: Block, intrinsic: Intrinsic) -> list[TensorFit]:
    written = Load(block.store.buffer, block.store.indices, func.buffer(block.store.buffer).dtype)
    found: list[TensorFit] = []
    why: Mismatch | None = None
    for accesses in unify_operands(intrinsic, written, block.store.value):
        try:
            found += _fits(block, intrinsic, accesses)
        except Mismatch as error:
            why = why or error
    if not found:
        raise why or Mismatch(
            f"what `{intrinsic.name}` sums over would have to be padded, and is part of a sum of indices"
        )
    return found


def _require_sum(block: Block) -> None:
    if block.reducer is not Reducer.SUM or block.index is not None or block.init is None:
        raise Mismatch(f"block `{block.name}` is no sum")


def _effort(fit: TensorFit) -> float:
    """What is computed and copied over the products of a cycle, to compare ways with one another."""
    copies = sum(_COPY if x.number else _COPY_OF_RESULT for x in fit.operands if not x.ready)
    speed = fit.intrinsic.products / fit.intrinsic.throughput
    return fit.waste * (_WORTH_FUSING if fit.fused else 1.0) * (1.0 + copies) / speed


def _fits(block: Block, intrinsic: Intrinsic, accesses: Sequence[Load]) -> Iterator[TensorFit]:
    own = _uses(accesses, [it.name for it in block.iters])
    wanted = _uses(intrinsic.operands, [it.name for it in intrinsic.block.iters])
    groups: dict[Operands, list[str]] = {}
    for axis in (it.name for it in intrinsic.block.iters):
        groups.setdefault(wanted[axis], []).append(axis)
    candidates = [_axes(block, intrinsic, own, uses, axes) for uses, axes in groups.items()]
    numbers = range(len(accesses))
    # An operand is the same whatever the axes are that it is not indexed by.
    operand = cache(partial(_operand, intrinsic, accesses))
    for axes in product(*candidates):
        operands = tuple(operand(n, tuple(axis for axis in axes if n in own[axis.iters[0]])) for n in numbers)
        padded = [axis for axis in axes if axis.reduces and axis.padded > axis.extent and len(axis.iters) == 1]
        if all(_paddable(axis, own[axis.iters[0]], accesses, operands) for axis in padded):
            yield TensorFit(intrinsic, axes, operands, MappingProxyType(own))


def _paddable(axis: TensorAxis, own: Operands, accesses: Sequence[Load], operands: Sequence[TensorOperand]) -> bool:
    """Whether what is summed over can be padded: where all operands are padded with zeros, or of integers one of them
    is, and the others lie as the intrinsic takes them."""
    places = {n: _place(axis, accesses[n]) for n in own}
    bare = {n for n, place in places.items() if place is not None and place.bare}
    if None in places.values() or not bare:
        return False
    return bare == own or (accesses[0].type.is_integer and all(operands[n].ready for n in own - bare))


def _uses(accesses: Sequence[Load], names: Sequence[str]) -> dict[str, Operands]:
    """The operands that each variable indexes."""
    used = [free_vars_of(access.indices) for access in accesses]
    return {name: frozenset(n for n, free in enumerate(used) if name in free) for name in names}


def _axes(
    block: Block, intrinsic: Intrinsic, own: Mapping[str, Operands], uses: Operands, axes: list[str]
) -> list[TensorAxis]:
    """What can be these axes: each of the block's variables that index the same operands, and all of them fused."""
    sizes = tuple(intrinsic.extent(axis) for axis in axes)
    extents: dict[str, int] = {}
    for it in block.iters:
        extent = as_int(it.extent)
        if own[it.name] == uses and extent is not None and extent > 1:
            extents[it.name] = extent
    if not extents:
        raise Mismatch(_no_variable(intrinsic, uses, axes))
    reduces = any(it.kind is IterKind.REDUCE for it in intrinsic.block.iters if it.name in axes)
    # Of two that are as good, the later one moves less far in memory.
    ways: list[tuple[tuple[str, ...], int]] = [((name,), extents[name]) for name in reversed(extents)]
    if len(extents) > 1:
        ways.append((tuple(extents), prod(extents.values())))
    return [TensorAxis(iters, extent, tuple(axes), sizes, reduces) for iters, extent in ways]


def _no_variable(intrinsic: Intrinsic, uses: Operands, axes: list[str]) -> str:
    names = [x.buffer for x in intrinsic.operands]
    along = listing(names[n] for n in sorted(uses))
    without = [f"`{name}`" for n, name in enumerate(names) if n not in uses]
    apart = f" and not {' or '.join(without)}" if without else ""
    return f"none of its variables is as `{axes[0]}` of `{intrinsic.name}`, which indexes {along}{apart}"


# --- operands --------------------------------------------------------------------------------------------


def _operand(
    intrinsic: Intrinsic, accesses: Sequence[Load], number: int, axes: tuple[TensorAxis, ...]
) -> TensorOperand:
    """An access as an operand of the intrinsic; `axes` are those that it is indexed by."""
    pattern, access = intrinsic.operands[number], accesses[number]
    order = [e.name for e in pattern.indices if isinstance(e, Var)]
    places = {axis.axes: _place(axis, access) for axis in axes}
    of_axis = {name: axis for axis in axes for name in axis.axes}
    ready = _lies_ready(intrinsic, pattern, order, of_axis, places, len(access.indices))
    return TensorOperand(
        number, access.buffer, len(access.indices), ready, _digits(order, of_axis, places, len(access.indices))
    )


@dataclass(frozen=True)
class _Place:
    """The index that a variable is in, its step there, and whether it is all of the index."""

    dim: int
    step: int
    bare: bool


def _place(axis: TensorAxis, access: Load) -> _Place | None:
    """Where an access has an axis; None where that is several places, or none that moves by a number."""
    (name, *others) = axis.iters
    found = [(d, index) for d, index in enumerate(access.indices) if name in free_vars(index)]
    if others or len(found) != 1:
        return None
    dim, index = found[0]
    step = _step(index, name)
    return None if step is None else _Place(dim, step, index == Var(name))


def _step(index: Expr, name: str) -> int | None:
    try:
        terms = linear(index, free_vars(index))[1]
    except NotAffine:
        return None
    if any(name in free_vars(atom) and atom != Var(name) for atom in terms):
        return None
    return as_int(terms.get(Var(name), ONE))


def _lies_ready(
    intrinsic: Intrinsic,
    pattern: Load,
    order: Sequence[str],
    of_axis: Mapping[str, TensorAxis],
    places: Mapping[tuple[str, ...], _Place | None],
    rank: int,
) -> bool:
    """Whether the axes from the lanes on, at least those that must be, are neighbours in memory as they are."""
    lane = intrinsic.axes[-1]
    dense = max(intrinsic.dense_axes(pattern), len(order) - order.index(lane) if lane in order else 1)
    last = of_axis[order[-1]]
    place = places[last.axes]
    if place is None or place.dim != rank - 1 or place.step != 1:
        return False
    inner = last.axes[-dense:]
    whole = all(of_axis[a].axes == tuple(b for b in order if b in of_axis[a].axes) for a in order)
    together = all(_neighbours(axis.axes, order) for axis in of_axis.values())
    return whole and together and tuple(order[-dense:]) == inner and None not in places.values()


def _neighbours(axes: Sequence[str], order: Sequence[str]) -> bool:
    first = order.index(axes[0])
    return tuple(order[first : first + len(axes)]) == tuple(axes)


def _digits(
    order: Sequence[str],
    of_axis: Mapping[str, TensorAxis],
    places: Mapping[tuple[str, ...], _Place | None],
    rank: int,
) -> tuple[Digit, ...]:
    """The parts of the indices: those that no axis is in, tiles of the instruction, and what is inside one."""
    found = [(axis, place) for axis in dict.fromkeys(of_axis[a] for a in order) if (place := places[axis.axes])]
    dims = [place.dim for _, place in found]
    if None in places.values() or len(set(dims)) != len(dims) or any(place.step != 1 for _, place in found):
        return ()
    if any(axis.reduces and not place.bare for axis, place in found):
        return ()
    outside = [Digit(d, 1, None) for d in range(rank) if d not in dims]
    tiles = {axis.axes: Digit(place.dim, axis.size, None) for axis, place in found}
    panels = [axis for axis, place in found if not axis.reduces and place.bare]
    steps = [axis for axis, _ in found if axis.reduces]
    out = [*outside, *(tiles[axis.axes] for axis in (*panels, *steps))]
    for name in order:
        axis = of_axis[name]
        place = places[axis.axes]
        assert place is not None
        if axis.reduces or place.bare:
            at = axis.axes.index(name)
            out.append(Digit(place.dim, prod(axis.sizes[at + 1 :]), axis.sizes[at]))
        else:
            out.append(Digit(place.dim, 1, None))  # Tiles that do not start at multiples of their size overlap.
    return tuple(_join_digits(out))


def _join_digits(digits: Sequence[Digit]) -> Iterator[Digit]:
    """Neighbouring parts of one index as one."""
    before: Digit | None = None
    for digit in digits:
        if before is not None and before.dim == digit.dim and before.divisor == digit.divisor * (digit.modulo or 0):
            modulo = None if before.modulo is None else before.modulo * (digit.modulo or 1)
            before = Digit(digit.dim, digit.divisor, modulo)
            continue
        if before is not None:
            yield before
        before = digit
    if before is not None:
        yield before
