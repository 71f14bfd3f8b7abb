"""Where each intermediate is stored, and how much of it.

An intermediate belongs to the innermost loop that is around all its accesses, outside any vectorised one; every
iteration of that loop writes what it reads. Below that loop only a region is touched: the array holds just that,
and its base is subtracted from the indices. Where a bound is unknown, the whole dimension stays.

* Below a parallel loop it is one array a thread, elsewhere one array for the call: so is what one phase of a shared
  parallel region writes and another reads.
* In registers if its scope says so (the loops that index it are then unrolled), or if it fits and all loops that
  index it are unrolled anyway. What belongs further inside, and so is used more often, has registers first: sums of
  blocks before the totals that these are added to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.nest import NestLoop, NestStmt, Path, assigns, map_children, runs_in_threads
from metasched.compiler.lower.registers import registers_needed
from metasched.dtypes import DType
from metasched.errors import BuildError
from metasched.ir import query
from metasched.ir.integers.affine import (
    ZERO,
    NotAffine,
    as_int,
    coefficient,
    const,
    free_vars,
    free_vars_of,
    simplify,
    substitute,
)
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.ranges import region
from metasched.ir.nodes import Binary, BinOp, Buffer, Expr, Func, LoopKind, Scope, Var
from metasched.ir.pitch import span
from metasched.ir.rolling import storage_loops
from metasched.support.data_classes import dataclass
from metasched.target import Target

# Of a dimension of what may be in registers: a vector's lanes are not counted, and no CPU has so many registers.
_MOST_POSITIONS = 1024


@dataclass(frozen=True)
class Storage:
    """An array of `shape`, C order: element `indices` of the buffer is at `indices - base`, in the order of `axes`.

    `shape` goes with `axes`, `base` with the buffer's dimensions. `alignments` are (dimension, factor, offset): rows of
    an array in memory are that far apart, modulo the factor. `fold` is (dimension, window): of a rolling buffer just a
    window of the dimension is there, index modulo its size. `spare_lanes` is as of `lir.Array`.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    base: tuple[Expr, ...]
    kind: ArrayKind
    axes: tuple[int, ...]
    alignments: tuple[tuple[int, int, int], ...] = ()
    fold: tuple[int, int] | None = None
    spare_lanes: bool = False

    @property
    def size(self) -> int:
        """Elements of memory: whole rows, of a caller's array up to its last element."""
        if self.kind in (ArrayKind.INPUT, ArrayKind.OUTPUT):
            return span(self.shape, self.strides)
        return self.shape[0] * self.strides[0] if self.shape else 1

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension."""
        step, steps = 1, []
        for axis in reversed(range(len(self.shape))):
            for dimension, factor, offset in self.alignments:
                step += (offset - step) % factor if dimension == axis else 0
            steps.append(step)
            step *= self.shape[axis]
        return tuple(reversed(steps))


Inside = Mapping[str, NestLoop]
"""Loops that an array outlives, by variable."""


@dataclass(frozen=True)
class BufferAccess:
    """One read or write: the loops around it and what it indexes."""

    path: Path
    indices: tuple[Expr, ...]

    def loops_inside(self, owner: Path) -> Inside:
        """The loops between `owner` and the access."""
        return {loop.var: loop for loop in self.path[len(owner) :]}


def whole_storage(buffer: Buffer, kind: ArrayKind) -> Storage:
    """A buffer as it is."""
    shape = tuple(_require_size(e, buffer.name) for e in buffer.shape)
    aligned = tuple(
        (a.axis, _require_size(a.factor, buffer.name), _require_size(a.offset, buffer.name)) for a in buffer.alignments
    )
    return Storage(buffer.name, buffer.dtype, shape, (ZERO,) * len(shape), kind, tuple(range(len(shape))), aligned)


def _require_size(e: Expr, name: str) -> int:
    value = as_int(e)
    if value is None:
        raise BuildError("extent not constant", f"a dimension of `{name}` depends on free variables")
    return value


def accesses(stmt: NestStmt) -> dict[str, list[BufferAccess]]:
    """Every access, by buffer."""
    found: dict[str, list[BufferAccess]] = {}
    for path, a in assigns(stmt):
        for array, indices in a.written.items():
            found.setdefault(array, []).append(BufferAccess(path, indices))
        for load in a.reads:
            found.setdefault(load.buffer, []).append(BufferAccess(path, load.indices))
    return found


def place_storage(func: Func, stmt: NestStmt, target: Target, budget: Budget) -> tuple[NestStmt, dict[str, Storage]]:
    """`stmt` with the loops over explicit register buffers unrolled, and every buffer's storage by name.

    Raises BuildError when a buffer of scope `register` cannot be in registers.
    """
    storages = {b.name: whole_storage(b, ArrayKind.INPUT) for b in func.inputs}
    storages |= {b.name: whole_storage(b, ArrayKind.OUTPUT) for b in func.outputs}
    found = accesses(stmt)
    used = [buffer for buffer in func.temps if buffer.name in found]
    storages |= {b.name: whole_storage(b, ArrayKind.SHARED) for b in used}
    for buffer in _registers_first(func, used, found):
        owner = _owner_loops([a.path for a in found[buffer.name]], func, buffer)
        full = whole_storage(buffer, ArrayKind.THREAD if runs_in_threads(owner) else ArrayKind.SHARED)
        tile = shrink_to_use(full, [(a.indices, a.loops_inside(owner)) for a in found[buffer.name]])
        storage = _fold_to_window(_limit_to_full(tile, full), buffer)
        if buffer.scope is Scope.REGISTER:
            stmt = _unroll_over(stmt, tile, found[buffer.name], owner)
            found = accesses(stmt)
        laid_out = lay_out_in_registers(full, [(a.indices, a.loops_inside(owner)) for a in found[buffer.name]], target)
        if laid_out is not None and laid_out[1] <= budget.remaining_registers(owner):
            spare = _has_spare_lanes(stmt, laid_out[0], owner)
            storage = replace(laid_out[0], spare_lanes=spare)
            budget.take_registers(owner, laid_out[1])
        elif buffer.scope is Scope.REGISTER:
            why = "its indices are not constant" if laid_out is None else f"it takes {laid_out[1]} vector registers"
            raise BuildError(
                "register tile does not fit",
                f"`{buffer.name}`: {why}; {budget.remaining_registers(owner)} registers are left",
            )
        storages[buffer.name] = storage
    return stmt, storages


def _registers_first(func: Func, temps: list[Buffer], found: Mapping[str, list[BufferAccess]]) -> list[Buffer]:
    """Intermediates in the order in which they get registers: those that must have some, then from the inside out."""
    depth = {b.name: len(_owner_loops([a.path for a in found[b.name]], func, b)) for b in temps}
    return sorted(temps, key=lambda b: (b.scope is not Scope.REGISTER, -depth[b.name]))


def _owner_loops(paths: list[Path], func: Func, buffer: Buffer) -> Path:
    """The loops around all of the paths, up to the first vectorised one, or to where a rolling buffer is stored."""
    shared = query.common_loops(*paths)
    outside = storage_loops(func, buffer) if buffer.roll is not None else None
    for n, loop in enumerate(shared):
        if loop.is_vector or (outside is not None and loop.var not in outside):
            return shared[:n]
    return shared


def _fold_to_window(storage: Storage, buffer: Buffer) -> Storage:
    """`storage` with just the window of a rolling buffer, where that is less."""
    if buffer.roll is None:
        return storage
    axis, window = buffer.roll.axis, _require_size(buffer.roll.window, buffer.name)
    if storage.shape[axis] <= window:
        return storage
    shape = (*storage.shape[:axis], window, *storage.shape[axis + 1 :])
    return replace(storage, shape=shape, fold=(axis, window))


def shrink_to_use(full: Storage, used: list[tuple[tuple[Expr, ...], Inside]]) -> Storage:
    """`full` with each dimension the region indexed while the loops inside run, guarded away or not.

    So it may be larger than `full`; a dimension of unknown region stays.
    """
    regions: list[tuple[tuple[Expr, ...], dict[str, Expr]]] = [
        (indices, {name: const(loop.extent) for name, loop in inside.items()}) for indices, inside in used
    ]
    shape, bases = list(full.shape), list(full.base)
    for d in range(len(shape)):
        found = _joined_region([(indices[d], ranges) for indices, ranges in regions])
        if found is not None:
            bases[d], shape[d] = found
    return replace(full, shape=tuple(shape), base=tuple(bases), fold=None)


def _limit_to_full(tile: Storage, full: Storage) -> Storage:
    """`tile`, with a dimension that is no smaller than that of `full` as it is there."""
    dimensions = [
        (tile.base[d], size) if size < full.shape[d] else (full.base[d], full.shape[d])
        for d, size in enumerate(tile.shape)
    ]
    return replace(tile, base=tuple(b for b, _ in dimensions), shape=tuple(n for _, n in dimensions))


def _joined_region(used: list[tuple[Expr, dict[str, Expr]]]) -> tuple[Expr, int] | None:
    """Base and size of what the indices touch; None when unknown."""
    first: Expr | None = None
    low, high = 0, 0
    for index, ranges in used:
        try:
            lo, span = region(index, ranges)
        except NotAffine:
            return None
        first = lo if first is None else first
        offset, size = as_int(Binary(BinOp.SUB, lo, first)), as_int(span)
        if offset is None or size is None:
            return None
        low, high = min(low, offset), max(high, offset + size)
    return None if first is None else (simplify(Binary(BinOp.ADD, first, const(low))), high - low)


def array_indices(storage: Storage, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """`indices` of the buffer as indices of its array."""
    return tuple(_fold_index(storage, axis, _subtract_base(indices[axis], storage.base[axis])) for axis in storage.axes)


def _fold_index(storage: Storage, axis: int, index: Expr) -> Expr:
    if storage.fold is None or storage.fold[0] != axis:
        return index
    return simplify(Binary(BinOp.MOD, index, const(storage.fold[1])))


def _subtract_base(index: Expr, base: Expr) -> Expr:
    return index if base is ZERO else simplify(Binary(BinOp.SUB, index, base))


# --- registers -------------------------------------------------------------------------------------------


def _unroll_over(stmt: NestStmt, storage: Storage, used: list[BufferAccess], owner: Path) -> NestStmt:
    """`stmt` with every loop that indexes the array unrolled."""
    own = {loop.var for loop in owner}
    names = {v for a in used for i in array_indices(storage, a.indices) for v in free_vars(i)} - own

    def mark(s: NestStmt) -> NestStmt:
        s = map_children(s, mark)
        return replace(s, unroll=True) if isinstance(s, NestLoop) and s.var in names else s

    return mark(stmt)


def lay_out_in_registers(
    full: Storage, used: list[tuple[tuple[Expr, ...], Inside]], target: Target
) -> tuple[Storage, int] | None:
    """What is used of `full`, laid out in registers, and how many vector registers it takes.

    None when an index is not constant once loops are unrolled, or accesses disagree on how vectors lie.
    """
    storage = replace(shrink_to_use(full, used), alignments=())
    lanes: set[tuple[int, int] | None] = set()
    for indices, inside in used:
        here = array_indices(storage, indices)
        names = free_vars_of(here)
        if any(depends_on_data(i) for i in here):
            return None
        if any(loop.kind is LoopKind.PARALLEL for loop in inside.values()):
            return None
        if not all(name in inside and inside[name].unroll for name in names):
            return None
        try:
            lanes.add(_vector_dimension(here, inside))
        except NotAffine:
            return None
    if len(lanes) != 1:
        return None
    (found,) = lanes
    if found is None:
        return replace(storage, kind=ArrayKind.REGISTER), _count_rows(storage, full, used, None)
    laid_out = _move_vector_last(storage, *found)
    elements = _count_rows(storage, full, used, found[0]) * laid_out.shape[-1]
    return laid_out, registers_needed(elements, found[1], storage.dtype, target)


def _count_rows(storage: Storage, full: Storage, used: list[tuple[tuple[Expr, ...], Inside]], along: int | None) -> int:
    """How many rows along a dimension are accessed, or elements without one.

    What a stride leaves out takes no registers, nor what a tile has that `full` has not, which guards leave out: each
    element of an unrolled tile is a value of its own.
    """
    accesses = [(array_indices(storage, indices), inside) for indices, inside in used]
    count = 1
    for d, size in enumerate(storage.shape):
        if d != along:
            found = [_index_values(here[d], inside) for here, inside in accesses]
            known = [positions for positions in found if positions is not None]
            most = min(size, full.shape[d])
            count *= min(most, len(frozenset[int]().union(*known))) if len(known) == len(found) else most
    return count


def _index_values(index: Expr, inside: Inside) -> frozenset[int] | None:
    """The values that an index takes; None where they are not known, or more than there are registers for."""
    names = free_vars(index)
    try:
        steps = {name: as_int(coefficient(index, name)) for name in names}
    except NotAffine:
        return None
    start = as_int(substitute(index, dict.fromkeys(names, ZERO)))
    found = None if start is None else {start}
    for name, step in steps.items():
        if found is None or step is None or len(found) * inside[name].extent > _MOST_POSITIONS:
            return None
        found = {at + step * n for at in found for n in range(inside[name].extent)}
    return None if found is None else frozenset(found)


def _has_spare_lanes(stmt: NestStmt, storage: Storage, owner: Path) -> bool:
    """Whether all that writes a register array writes the same part of its rows, each a vector loop from their start:
    then nothing reads what is behind.

    A store that had to keep the lanes behind would have them carried from one iteration of the owner to the next.
    """
    outside = {loop.var for loop in owner}
    parts = set[tuple[int, frozenset[Expr]]]()
    for path, assign in assigns(stmt):
        if storage.name not in assign.written:
            continue
        indices = array_indices(storage, assign.written[storage.name])
        loop = next((loop for loop in path if loop.is_vector), None)
        if loop is None or indices[-1:] != (Var(loop.var),):
            return False
        own = [guard for guard in (*assign.guards, *assign.wanted) if loop.var in free_vars(guard)]
        if not free_vars_of(own) <= {loop.var, *outside} or any(map(depends_on_data, own)):
            return False
        place = {loop.var: Var("lane")}
        parts.add((loop.extent, frozenset(simplify(substitute(guard, place)) for guard in own)))
    return len(parts) == 1


def _vector_dimension(indices: tuple[Expr, ...], inside: Inside) -> tuple[int, int] | None:
    """The dimension that lanes run along, and how many; None for a scalar. Raises NotAffine when neither."""
    for loop in inside.values():
        along = [d for d, i in enumerate(indices) if loop.is_vector and loop.var in free_vars(i)]
        if along:
            (d, *more) = along
            others = free_vars(indices[d]) - {loop.var}
            steps = [as_int(coefficient(indices[d], name)) for name in others]
            steps.append(as_int(substitute(indices[d], dict.fromkeys((*others, loop.var), ZERO))))
            if more or as_int(coefficient(indices[d], loop.var)) != 1:
                raise NotAffine("lanes are not neighbours")
            if any(step is None or step % loop.lanes for step in steps):
                raise NotAffine("a vector straddles two registers")
            return d, loop.lanes
    return None


def _move_vector_last(storage: Storage, d: int, lanes: int) -> Storage:
    """Dimension `d` last, and a multiple of the lanes, so that no vector straddles two rows."""
    order = [*(n for n in range(len(storage.shape)) if n != d), d]
    shape = [storage.shape[n] for n in order]
    shape[-1] = -(-shape[-1] // lanes) * lanes
    return replace(storage, shape=tuple(shape), axes=tuple(storage.axes[n] for n in order), kind=ArrayKind.REGISTER)


class Budget:
    """Which of `total` registers are in use while loops run: what lives around or inside a place counts against it."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._live: list[tuple[tuple[str, ...], int]] = []

    def remaining_registers(self, path: Path) -> int:
        here = tuple(loop.var for loop in path)
        return self._total - sum(
            count for there, count in self._live if all(a == b for a, b in zip(here, there, strict=False))
        )

    def used_registers(self, path: Path) -> int:
        """The number of registers taken by what lives around or inside a place."""
        return self._total - self.remaining_registers(path)

    def take_registers(self, path: Path, count: int) -> None:
        self._live.append((tuple(loop.var for loop in path), count))
