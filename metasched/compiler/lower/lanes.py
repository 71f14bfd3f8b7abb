"""Reductions in vector lanes: a vectorised loop that a reduction runs along.

Each lane has a sum of its own: it starts from the neutral element, takes one term of each vector, and stays in
registers where that is possible while the whole reduction runs. At its end the lanes are folded, half onto half, into
the element:

    for k0 in 8:                             L[0:16] = 0
        vector(16) k1 in 64:                 for k0 in 8:
            C[i] += A[i, k0*64 + k1]   ->        vector(16) k1 in 64:
                                                     L[k1 % 16] += A[i, k0*64 + k1]
                                             vector(16) l in 16:
                                                 C[i] += L[l]

With lanes for several vectors there are several accumulators, which do not wait for one another.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

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
    assigns,
    join_statements,
    map_assigns,
    map_children,
    replace_body,
    runs_in_threads,
    wrap_loops,
)
from metasched.compiler.lower.register_warnings import RegisterWarnings
from metasched.compiler.lower.registers import registers_needed
from metasched.compiler.lower.storage import Budget, Storage
from metasched.compiler.lower.strip_mining import substitute_loops
from metasched.dtypes import DType
from metasched.ir.integers.affine import ZERO, const, free_vars, free_vars_of
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Load, Reducer, Var, no_position
from metasched.target import Target


class ReductionLanes:
    """Puts reductions in lanes: one run of the pass, with the registers that are left and the arrays of lanes made."""

    def __init__(self, target: Target, budget: Budget, names: NameSupply, declined: RegisterWarnings) -> None:
        self._target = target
        self._budget = budget
        self._names = names
        self._declined = declined
        self._made: dict[str, Storage] = {}

    def run(self, stmt: NestStmt) -> tuple[NestStmt, dict[str, Storage]]:
        """`stmt` with reductions along vectorised loops in lanes, and the lanes' storage by name."""
        return join_statements(self._lanes_in(stmt, ())), self._made

    def _lanes_in(self, stmt: NestStmt, path: Path) -> list[NestStmt]:
        if isinstance(stmt, Many):
            return [made for child in stmt.stmts for made in self._lanes_in(child, path)]
        if isinstance(stmt, NestRegion):
            return [map_children(stmt, lambda phase: join_statements(self._lanes_in(phase, path)))]
        if not isinstance(stmt, NestLoop):
            return [stmt]
        before: list[NestStmt] = []
        after: list[NestStmt] = []
        outside = {loop.var for loop in path}
        for inner, update in list(assigns(stmt)):
            own = update.reduction - update.spatial
            if _reduces_lanes(inner, update) and stmt.var in own and own.isdisjoint(outside):
                start, lanes, fold = self._split_reduction(update, inner, path)
                before.append(start)
                after.append(fold)
                stmt = replace_body(stmt, _replace_assign(stmt.body, update, lanes))
        return [*before, replace_body(stmt, join_statements(self._lanes_in(stmt.body, (*path, stmt)))), *after]

    def _split_reduction(self, update: Assign, inner: Path, path: Path) -> tuple[NestStmt, Assign, NestStmt]:
        """The start of the lanes, the update of a lane, and the fold of the lanes."""
        assert update.reducer is not None
        vector, dtype = inner[-1], update.value.dtype
        indexing = free_vars_of(update.indices)
        tile = [loop for loop in inner if loop.var in indexing]
        name = self._new_lane_array(update.block, update.array, dtype, tile, (path, inner))
        place = tuple(Var(loop.var) for loop in tile)
        lane: Expr = Var(vector.var)
        if vector.extent > vector.lanes:
            lane = Binary(BinOp.MOD, lane, const(vector.lanes))
        # Loops that are done when lanes are folded: those of the reduction, and any that the update does not use.
        done = {loop.var for loop in inner} - {loop.var for loop in tile}
        start = replace(
            update,
            array=name,
            indices=(*place, Var(vector.var)),
            value=_neutral_element(update.reducer, dtype),
            guards=(),
            reducer=None,
            streams=False,
        )
        fold = replace(
            update,
            value=Load(name, (*place, Var(vector.var)), dtype),
            guards=tuple(g for g in update.guards if done.isdisjoint(free_vars(g))),
        )
        lanes = replace(update, array=name, indices=(*place, lane), streams=False)
        if update.positions is not None:
            at = self._new_lane_array(
                update.block, update.positions.array, update.positions.narrow, tile, (path, inner)
            )
            of_start, of_lanes, of_fold = _lane_positions(update.positions, at, (*place, Var(vector.var)))
            start, fold = replace(start, positions=of_start), replace(fold, positions=of_fold)
            lanes = replace(lanes, positions=replace(of_lanes, indices=lanes.indices))
        loops = [*tile, replace(vector, extent=vector.lanes, unroll=True)]
        return self._clone_loops(loops, start), lanes, self._clone_loops(loops, fold)

    def _clone_loops(self, loops: list[NestLoop], body: Assign) -> NestStmt:
        """`body` inside clones of loops."""
        clones = [
            replace(loop, var=self._names.fresh(f"{loop.var}_lanes"), prefetch=0, prefetch_tile=0) for loop in loops
        ]
        renamed = {old.var: Var(new.var) for old, new in zip(loops, clones, strict=True)}
        return wrap_loops(clones, substitute_loops(body, renamed))

    def _new_lane_array(
        self, block: str, array: str, dtype: DType, tile: list[NestLoop], paths: tuple[Path, Path]
    ) -> str:
        """An array of lanes for every element of the tile: in registers where each has its own and they fit.

        `paths` are the loops around the lanes' whole life and those inside it.
        """
        path, inner = paths
        lanes = inner[-1].lanes
        shape = (*(loop.extent for loop in tile), lanes)
        name = self._names.fresh(f"{array}.lanes")
        place = (*path, inner[0])
        needed, left = (
            registers_needed(prod(shape), lanes, dtype, self._target),
            self._budget.remaining_registers(place),
        )
        rolled = [loop for loop in tile if not loop.unroll]
        if not rolled and needed <= left:
            self._budget.take_registers(place, needed)
            kind = ArrayKind.REGISTER
        else:
            if not rolled:
                self._declined.note_too_many(block, needed, left)
            elif needed <= left:
                self._declined.note_rolled(block, needed, rolled, inner)
            kind = ArrayKind.THREAD if runs_in_threads(path) else ArrayKind.SHARED
        self._made[name] = Storage(name, dtype, shape, (ZERO,) * len(shape), kind, tuple(range(len(shape))))
        return name


def _lane_positions(
    positions: ArgPositions, name: str, place: tuple[Expr, ...]
) -> tuple[ArgPositions, ArgPositions, ArgPositions]:
    """The positions that lanes start from, those of lanes, and those of the fold."""
    narrow = positions.narrow
    value = cast_position(positions.value, narrow)
    # A lane has none of its own until it finds more than what it starts from. Where positions rise, all start from the
    # first of the element: it is the right one if no lane finds any, and that of no value that is better.
    first: Expr = no_position(narrow)
    if positions.rising and positions.init is not None:
        first = cast_position(positions.init, narrow)
    lanes = ArgPositions(name, place, value, narrow, rising=positions.rising)
    found = cast_position(Load(name, place, narrow), positions.value.dtype)
    return replace(lanes, value=first), lanes, replace(positions, value=found, rising=False)


def _replace_assign(stmt: NestStmt, old: Assign, new: Assign) -> NestStmt:
    return map_assigns(stmt, lambda a: new if a is old else a)


def _reduces_lanes(inner: Path, update: Assign) -> bool:
    """Whether an update is a reduction along the lanes of the innermost loop."""
    vector = inner[-1]
    return update.reducer is not None and vector.is_vector and vector.var in update.reduction - update.spatial


def _neutral_element(reducer: Reducer, dtype: DType) -> Const:
    """The value that a lane starts from. Of floats only -0 leaves every summand as it is, 0 included."""
    if reducer is Reducer.SUM and dtype.is_float:
        return Const(-0.0, dtype)
    return reducer.identity(dtype)
