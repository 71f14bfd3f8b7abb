"""Where each intermediate lives, and how much of it.

An intermediate belongs to the innermost loop that is around all its accesses, outside any vectorised one; every
iteration of that loop writes what it reads. Below that loop only a region is touched: the array holds just that,
and its base is subtracted from the indices. Where a bound is unknown, the whole dimension stays.

* Below a parallel loop it is one array a thread, elsewhere one array for the call.
* In registers if its scope says so (the loops that index it are then unrolled), or if it fits and all loops that
  index it are unrolled anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from metasched.backend.lir import ArrayKind
from metasched.backend.lower.nest import Loop, Nest, Path, assigns, loads, map_children
from metasched.backend.lower.registers import Machine, registers_needed
from metasched.errors import BuildError
from metasched.ir.affine import ZERO, NotAffine, as_int, coefficient, const, free_vars, region, simplify, substitute
from metasched.ir.dtypes import DType
from metasched.ir.nodes import Binary, BinOp, Buffer, Expr, Func, LoopKind, Scope


@dataclass(frozen=True)
class Storage:
    """An array of `shape`, C order. Element `indices` of the buffer is at `indices - base`."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    base: tuple[Expr, ...]
    kind: ArrayKind

    @property
    def size(self) -> int:
        size = 1
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True)
class Access:
    """One read or write: the loops around it and what it indexes."""

    path: Path
    indices: tuple[Expr, ...]


def whole(buffer: Buffer, kind: ArrayKind) -> Storage:
    """A buffer as it is."""
    shape = tuple(_size(e, buffer.name) for e in buffer.shape)
    return Storage(buffer.name, buffer.dtype, shape, (ZERO,) * len(shape), kind)


def _size(e: Expr, name: str) -> int:
    value = as_int(e)
    if value is None:
        raise BuildError("extent not constant", f"a dimension of `{name}` depends on free variables")
    return value


def accesses(stmt: Nest) -> dict[str, list[Access]]:
    """Every access, by buffer."""
    found: dict[str, list[Access]] = {}
    for path, a in assigns(stmt):
        found.setdefault(a.array, []).append(Access(path, a.indices))
        for load in loads(a.value):
            found.setdefault(load.buffer, []).append(Access(path, load.indices))
    return found


def place_storage(func: Func, stmt: Nest, machine: Machine) -> tuple[Nest, dict[str, Storage]]:
    """`stmt` with the loops over explicit register buffers unrolled, and every buffer's storage by name.

    Raises BuildError when a buffer of scope `register` cannot be in registers.
    """
    storages = {b.name: whole(b, ArrayKind.INPUT) for b in func.inputs}
    storages |= {b.name: whole(b, ArrayKind.OUTPUT) for b in func.outputs}
    found = accesses(stmt)
    budget = machine.accumulators
    for buffer in func.temps:
        if buffer.name not in found:
            continue
        used = found[buffer.name]
        owner = _owner([a.path for a in used])
        storage = _compact(buffer, used, owner)
        if buffer.scope is Scope.REGISTER:
            stmt = _unroll_over(stmt, storage, used, owner)
            used = accesses(stmt)[buffer.name]
            found = accesses(stmt)
        needed = registers_of(storage, used, owner, machine)
        if needed is not None and needed <= budget:
            storage, budget = replace(_padded(storage, used), kind=ArrayKind.REGISTER), budget - needed
        elif buffer.scope is Scope.REGISTER:
            raise BuildError(
                "register tile does not fit",
                f"`{buffer.name}` of {storage.size} elements is to be in registers; {budget} vector registers are left",
            )
        storages[buffer.name] = storage
    return stmt, storages


def _owner(paths: list[Path]) -> Path:
    """The loops around all of the paths, up to the first vectorised one."""
    shared = paths[0]
    for path in paths[1:]:
        count = 0
        while count < min(len(shared), len(path)) and shared[count].var == path[count].var:
            count += 1
        shared = shared[:count]
    for n, loop in enumerate(shared):
        if loop.is_vector:
            return shared[:n]
    return shared


def _compact(buffer: Buffer, used: list[Access], owner: Path) -> Storage:
    full = whole(buffer, ArrayKind.SHARED)
    parallel = any(loop.kind is LoopKind.PARALLEL for loop in owner)
    dimensions = [_dimension(d, extent, used, owner) for d, extent in enumerate(full.shape)]
    return replace(
        full,
        shape=tuple(size for _, size in dimensions),
        base=tuple(base for base, _ in dimensions),
        kind=ArrayKind.THREAD if parallel else ArrayKind.SHARED,
    )


def _dimension(d: int, extent: int, used: list[Access], owner: Path) -> tuple[Expr, int]:
    """Base and size of the region touched in dimension `d`, or all of it."""
    everything = (ZERO, extent)
    first: Expr | None = None
    low, high = 0, 0
    for access in used:
        ranges = {loop.var: const(loop.extent) for loop in access.path[len(owner) :]}
        try:
            lo, span = region(access.indices[d], ranges)
        except NotAffine:
            return everything
        first = lo if first is None else first
        offset, size = as_int(Binary(BinOp.SUB, lo, first)), as_int(span)
        if offset is None or size is None:
            return everything
        low, high = min(low, offset), max(high, offset + size)
    if first is None or high - low >= extent:
        return everything
    return simplify(Binary(BinOp.ADD, first, const(low))), high - low


def relative(storage: Storage, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """`indices` of the buffer as indices of its array."""
    return tuple(
        i if b is ZERO else simplify(Binary(BinOp.SUB, i, b)) for i, b in zip(indices, storage.base, strict=True)
    )


# --- registers -------------------------------------------------------------------------------------------


def _unroll_over(stmt: Nest, storage: Storage, used: list[Access], owner: Path) -> Nest:
    """`stmt` with every loop that indexes the array unrolled."""
    own = {loop.var for loop in owner}
    names = {v for a in used for i in relative(storage, a.indices) for v in free_vars(i)} - own

    def mark(s: Nest) -> Nest:
        s = map_children(s, mark)
        return replace(s, unroll=True) if isinstance(s, Loop) and s.var in names else s

    return mark(stmt)


def vector_dimension(storage: Storage, access: Access) -> tuple[int, Loop] | None:
    """The dimension a vectorised loop runs along, with the loop. Raises NotAffine when registers cannot hold it."""
    vectors = [loop for loop in access.path if loop.is_vector]
    indices = relative(storage, access.indices)
    for loop in vectors:
        along = [d for d, i in enumerate(indices) if loop.var in free_vars(i)]
        if not along:
            continue
        (d,) = along if len(along) == 1 else (None,)
        if d is None or as_int(coefficient(indices[d], loop.var)) != 1:
            raise NotAffine("a vector with a stride")
        others = free_vars(indices[d]) - {loop.var}
        steps = [as_int(coefficient(indices[d], name)) for name in others]
        steps.append(as_int(substitute(indices[d], dict.fromkeys((*others, loop.var), ZERO))))
        if any(step is None or step % loop.lanes for step in steps):
            raise NotAffine("a vector across registers")
        return d, loop
    return None


def registers_of(storage: Storage, used: list[Access], owner: Path, machine: Machine) -> int | None:
    """Vector registers the array takes; None when its indices are not constant once loops are unrolled."""
    if any(loop.kind is LoopKind.PARALLEL for a in used for loop in a.path[len(owner) :]):
        return None
    kinds = set()
    for access in used:
        below = {loop.var: loop for loop in access.path[len(owner) :]}
        for index in relative(storage, access.indices):
            for name in free_vars(index):
                if name not in below or not below[name].unroll:
                    return None
        try:
            found = vector_dimension(storage, access)
        except NotAffine:
            return None
        kinds.add(None if found is None else (found[0], found[1].lanes))
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind is None:
        return storage.size
    if kind[0] != len(storage.shape) - 1:
        return None
    return registers_needed(_padded(storage, used).size, kind[1], storage.dtype, machine)


def _padded(storage: Storage, used: list[Access]) -> Storage:
    """With the last dimension a multiple of the lanes, so that no vector straddles two rows."""
    found = vector_dimension(storage, used[0])
    if found is None:
        return storage
    lanes = found[1].lanes
    return replace(storage, shape=(*storage.shape[:-1], -(-storage.shape[-1] // lanes) * lanes))
