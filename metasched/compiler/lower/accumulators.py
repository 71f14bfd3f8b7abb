"""Accumulators in registers.

An update `C[at] = C[at] op x` inside a loop that `at` does not depend on keeps its elements in registers while that
loop runs: loaded before it, stored after it. Where the reduction starts right before the loop, the registers start
from `init` and nothing is loaded. The loop is the outermost one such that

* nothing else inside it touches C;
* every loop inside it that `at` depends on is unrolled, so that each element has a register of its own;
* the elements fit in the registers that are left.

The output of a tensor intrinsic with tiles goes to tile registers, under the same conditions (see `tiles`).
Where no loop qualifies, the update stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.arg_positions import cast_position
from metasched.compiler.lower.nest import (
    ArgPositions,
    Assign,
    Many,
    NameSupply,
    NestLoop,
    NestRegion,
    NestStmt,
    Path,
    When,
    assigns,
    clone_over_elements,
    join_statements,
    loads,
    map_assigns,
    map_children,
    replace_body,
    sequence,
    wrap_loops,
)
from metasched.compiler.lower.register_warnings import RegisterWarnings
from metasched.compiler.lower.storage import Budget, Inside, Storage, lay_out_in_registers
from metasched.compiler.lower.strip_mining import substitute_loops
from metasched.compiler.lower.tiles import Tiles, find_tile_nest, starts_at_zero, tiles_for
from metasched.compiler.policy import TILE_ACCUMULATORS
from metasched.ir.integers.affine import free_vars, free_vars_of, simplify
from metasched.ir.nodes import Expr, Load, LoopKind, Var
from metasched.lang.elaboration.bounds import Assumptions
from metasched.support.data_classes import dataclass
from metasched.target import Target

Conditions = tuple[Expr, ...]


@dataclass(frozen=True)
class _Accumulator:
    """A register array for an update, and the element in it; `tiles` where it is in tile registers.

    Of an arg-reduction, `positions` is the array of positions, the element in it and the positions found.
    """

    name: str
    indices: tuple[Expr, ...]
    tiles: Tiles | None = None
    positions: ArgPositions | None = None

    def can_start_with(self, start: Assign) -> bool:
        """Whether it can begin with the initial value of a reduction."""
        return self.tiles is None or starts_at_zero(start)


class Promotion:
    """Moves accumulators to registers: one run of the pass, with the accumulators made so far."""

    def __init__(
        self,
        storages: Mapping[str, Storage],
        target: Target,
        budget: Budget,
        names: NameSupply,
        declined: RegisterWarnings,
    ) -> None:
        self._storages = storages
        self._target = target
        self._budget = budget
        self._names = names
        self._tiles = Budget(TILE_ACCUMULATORS)
        self._made: dict[str, Storage] = {}
        self._declined = declined

    def run(self, stmt: NestStmt) -> tuple[NestStmt, dict[str, Storage]]:
        """`stmt` with accumulators in registers, and their storage by name."""
        return join_statements(self._promote_in(stmt, (), (), [])), self._made

    def _promote_in(self, stmt: NestStmt, path: Path, conds: Conditions, before: list[NestStmt]) -> list[NestStmt]:
        """What replaces `stmt`, which runs under `conds`. `before` are the statements before it in its sequence, and
        may lose some.
        """
        if isinstance(stmt, Many):
            out: list[NestStmt] = []
            for child in stmt.stmts:
                out += self._promote_in(child, path, conds, out)
            return out
        if isinstance(stmt, NestRegion):
            return [map_children(stmt, lambda phase: join_statements(self._promote_in(phase, path, conds, [])))]
        if isinstance(stmt, When):
            # A case of its own: registers of the others are free in it.
            case = NestLoop(self._names.fresh("case"), 1, stmt.body)
            return [
                replace(
                    stmt, body=join_statements(self._promote_in(stmt.body, (*path, case), (*conds, *stmt.conds), []))
                )
            ]
        if not isinstance(stmt, NestLoop):
            return [stmt]
        loads_before: list[NestStmt] = []
        stores_after: list[NestStmt] = []
        if stmt.kind is LoopKind.SERIAL:
            for inner, update in list(assigns(stmt)):
                made = self._accumulator(stmt, path, conds, inner, update)
                if made is not None:
                    start = _take_start(before, update.block, made.can_start_with)
                    # Conditions inside the loop are guards of what is loaded before it and stored after it.
                    guarded = replace(update, guards=(*update.guards, *_conditions(stmt, update)))
                    loads_before.append(self._load_tile(inner, guarded, made, start))
                    stores_after.append(self._store_tile(inner, guarded, made))
                    stmt = replace_body(stmt, _redirect_update(stmt.body, update, made))
        body = join_statements(self._promote_in(stmt.body, (*path, stmt), conds, []))
        return [*loads_before, replace_body(stmt, body), *stores_after]

    def _accumulator(
        self, loop: NestLoop, path: Path, conds: Conditions, inner: Path, update: Assign
    ) -> _Accumulator | None:
        """A register array for `update` while `loop` runs, where there can be one."""
        storage = self._storages.get(update.array)
        if storage is None or storage.kind is ArrayKind.REGISTER or update.reducer is None or update.in_memory:
            return None
        if any(loop.var in free_vars(i) for i in update.indices):
            return None
        if any(outer.kind is LoopKind.SCATTERED for outer in path):
            return None  # Where its terms are is found in the statement as it stands.
        if not _is_only_access(loop, update):
            if _is_only_access(loop, update, cases=True):
                # Cases of a tile are inside the reduction where a loop of the tile is not unrolled.
                self._note_rolled(loop, path, inner, update)
            return None
        if not self._stays_inside(loop, path, conds, inner, update, storage):
            return None
        nest = find_tile_nest(inner)
        if nest is not None:
            tiles = tiles_for(update, nest, loop, path, inner, self._tiles)
            return None if tiles is None else self._new_accumulator(update, tiles.indices, storage, tiles)
        # Lanes of vectors outside the loop have registers of their own, too.
        inside = {x.var: x for x in (*path, *inner) if x.is_vector} | {x.var: x for x in inner}
        laid_out = [self._lay_out(each, indices, inside) for each, indices in self._target_storages(update)]
        found = [each for each in laid_out if each is not None]
        if len(found) != len(laid_out):
            self._note_rolled(loop, path, inner, update)
            return None
        needed, left = sum(count for _, count in found), self._budget.remaining_registers((*path, loop))
        if needed > left:
            self._declined.note_too_many(update.block, needed, left)
            return None
        self._budget.take_registers((*path, loop), needed)
        made = self._new_accumulator(update, update.indices, found[0][0], None)
        return made if update.positions is None else self._add_positions(made, update.positions, found[1][0])

    def _stays_inside(
        self, loop: NestLoop, path: Path, conds: Conditions, inner: Path, update: Assign, storage: Storage
    ) -> bool:
        """Whether elements that the loop updates are there also where a guard that ends with the loop does not hold.

        Guards over loops that end and loops that go on are looked at: the store behind the loop lacks them.
        """
        guards = (*update.guards, *_conditions(loop, update))
        absent = _loops_outside_update(inner, update)
        lost = [g for g in guards if not absent.isdisjoint(free_vars(g))]
        if all(free_vars(g) <= absent for g in lost):
            return True
        assumed = Assumptions({each.var: each.extent for each in (*path, loop, *inner)})
        for condition in (*conds, *(g for g in guards if g not in lost)):
            assumed = assumed.assume(condition, True)
        for dim, extent in zip(storage.axes, storage.shape, strict=True):
            if storage.fold is not None and storage.fold[0] == dim:
                continue
            lo, hi = assumed.range(simplify(update.indices[dim] - storage.base[dim]))
            if lo < 0 or hi >= extent:
                return False
        return True

    def _note_rolled(self, loop: NestLoop, path: Path, inner: Path, update: Assign) -> None:
        """Record a warning where a tile would be in registers if its loops were unrolled."""
        indexing = free_vars_of(i for indices in update.written.values() for i in indices)
        rolled = [x for x in inner if x.var in indexing and not x.unroll]
        if not rolled or any(x.kind in (LoopKind.PARALLEL, LoopKind.SCATTERED) for x in rolled):
            return
        straight = {x.var: replace(x, unroll=True) for x in inner}
        inside = {x.var: x for x in path if x.is_vector} | straight
        found = [self._lay_out(each, indices, inside) for each, indices in self._target_storages(update)]
        needed = sum(count for _, count in (each for each in found if each is not None))
        if None in found or needed > self._budget.remaining_registers((*path, loop)):
            return
        self._declined.note_rolled(update.block, needed, rolled, inner)

    def _target_storages(self, update: Assign) -> list[tuple[Storage, tuple[Expr, ...]]]:
        """The storages and indices that an update writes, in the types of accumulators."""
        targets = [(self._storages[update.array], update.indices)]
        if update.positions is not None:
            positions = self._storages[update.positions.array]
            targets.append((replace(positions, dtype=update.positions.narrow), update.positions.indices))
        return targets

    def _lay_out(self, storage: Storage, indices: tuple[Expr, ...], inside: Inside) -> tuple[Storage, int] | None:
        if storage.kind is ArrayKind.REGISTER:
            return None
        return lay_out_in_registers(storage, [(indices, inside)], self._target)

    def _new_accumulator(
        self, update: Assign, indices: tuple[Expr, ...], storage: Storage, tiles: Tiles | None
    ) -> _Accumulator:
        name = self._names.fresh(f"{update.array}.acc")
        self._declined.note_promoted(update.block)
        # One update writes it, and in no row lanes that its loop has not.
        made = replace(storage, name=name, spare_lanes=True) if tiles is None else tiles.storage(name, storage)
        self._made[name] = made
        return _Accumulator(name, indices, tiles)

    def _add_positions(self, made: _Accumulator, positions: ArgPositions, storage: Storage) -> _Accumulator:
        name = self._names.fresh(f"{positions.array}.acc")
        self._made[name] = replace(storage, name=name)
        value = cast_position(positions.value, positions.narrow)
        return replace(made, positions=replace(positions, array=name, value=value))

    def _load_tile(self, inner: Path, update: Assign, made: _Accumulator, start: Assign | None) -> NestStmt:
        place = replace(update, array=made.name, indices=made.indices, reducer=None)
        place = replace(place, positions=self._first_positions(update, made, start))
        if start is None:
            value = Load(update.array, update.indices, update.value.dtype)
            return self._copy_tile(inner, replace(place, value=value), update, made)
        # Registers may be set whether or not the element exists: guards over the tile need not hold.
        assert start.begins is not None
        # What they start from is only there for elements that exist.
        tile = set() if any(True for _ in loads(start.begins)) else {loop.var for loop in inner}
        guards = tuple(g for g in update.guards if tile.isdisjoint(free_vars(g)))
        return self._copy_tile(inner, replace(place, value=start.begins, guards=guards), update, made)

    def _first_positions(self, update: Assign, made: _Accumulator, start: Assign | None) -> ArgPositions | None:
        """What the positions of an arg-reduction are when its loop begins."""
        if update.positions is None or made.positions is None:
            return None
        if start is None or start.positions is None:
            value: Expr = Load(update.positions.array, update.positions.indices, update.positions.value.dtype)
        else:
            value = start.positions.value
        return replace(made.positions, value=cast_position(value, made.positions.narrow))

    def _store_tile(self, inner: Path, update: Assign, made: _Accumulator) -> NestStmt:
        value = Load(made.name, made.indices, update.value.dtype)
        positions = update.positions
        if positions is not None and made.positions is not None:
            found = Load(made.positions.array, made.positions.indices, positions.narrow)
            positions = replace(positions, value=cast_position(found, positions.value.dtype))
        return self._copy_tile(inner, replace(update, value=value, reducer=None, positions=positions), update, made)

    def _copy_tile(self, inner: Path, copy: Assign, update: Assign, made: _Accumulator) -> NestStmt:
        """`copy` inside fresh clones of the loops of the tile."""
        tile = free_vars_of(update.indices)
        loops = [loop for loop in inner if loop.var in tile]
        absent = _loops_outside_update(inner, update)
        guards, wanted = (
            tuple(each for each in conditions if absent.isdisjoint(free_vars(each)))
            for conditions in (copy.guards, copy.wanted)
        )
        body: NestStmt = replace(copy, guards=guards, wanted=wanted)
        clones = [clone_over_elements(loop, self._names.fresh(f"{loop.var}_tile")) for loop in loops]
        if made.tiles is not None:
            rows = len(clones) - len(made.indices) + 1
            clones[rows] = replace(clones[rows], tensor=made.tiles.nest.tensor)
        renamed = {old.var: Var(new.var) for old, new in zip(loops, clones, strict=True)}
        return wrap_loops(clones, substitute_loops(body, renamed))


def _loops_outside_update(inner: Path, update: Assign) -> frozenset[str]:
    """The loops that are not around the loads before, and the stores after, all updates of an element."""
    tile = free_vars_of(update.indices)
    return frozenset({loop.var for loop in inner} - tile | update.reduction - update.spatial)


def _conditions(stmt: NestStmt, update: Assign) -> tuple[Expr, ...]:
    """The conditions inside `stmt` under which `update` runs."""
    if isinstance(stmt, Many | NestRegion):
        holding = (s for s in sequence(stmt) if any(a is update for _, a in assigns(s)))
        return next((_conditions(s, update) for s in holding), ())
    if isinstance(stmt, When):
        return (*stmt.conds, *_conditions(stmt.body, update))
    return _conditions(stmt.body, update) if isinstance(stmt, NestLoop) else ()


def _is_only_access(loop: NestLoop, update: Assign, *, cases: bool = False) -> bool:
    """Whether `update`, or with `cases` others of its block, is all that touches its buffers inside `loop`."""
    written = update.written
    for _, a in assigns(loop):
        of_block = a is update or (cases and a.block == update.block and a.reducer is not None)
        if not of_block and any(array in written for array in a.written):
            return False
        if any(load.buffer in written for load in a.reads):
            return False
    return True


def _redirect_update(body: NestStmt, update: Assign, made: _Accumulator) -> NestStmt:
    instead = replace(update, array=made.name, indices=made.indices, positions=made.positions)
    return map_assigns(body, lambda a: instead if a is update else a)


def _take_start(before: list[NestStmt], block: str, fits: Callable[[Assign], bool]) -> Assign | None:
    """The statement that starts `block`'s reduction, removed from the end of `before`; None unless it fits."""
    for n in reversed(range(len(before))):
        found = [a for _, a in assigns(before[n])]
        if len(found) != 1 or found[0].starts is None:
            return None
        if found[0].starts == block:
            if not fits(found[0]):
                return None
            del before[n]
            return found[0]
    return None
