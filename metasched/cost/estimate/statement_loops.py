"""The loops around one statement over a population: their extents, vectors, unrolled copies and threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from metasched.compiler.policy import joins_unrolled, lanes_used, vectors_for
from metasched.cost.estimate.footprint import Array, Ranges, Sizes, ones
from metasched.cost.estimate.shares import Shares
from metasched.cost.estimate.threads import part_of_a_thread, ranges_of_a_thread
from metasched.cost.program.index import Index
from metasched.cost.program.nest import Statement, StatementAccess
from metasched.ir.nodes import LoopKind
from metasched.support.data_classes import dataclass
from metasched.target import Target

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Vector:
    """How a statement uses vectors.

    `steps` counts vectors of `lanes` along the vectorised loop and `strips` the machine's vectors that they take, in
    the widest type that is computed; `useful` is the share of lanes at work, `masked` that of vectors with a mask (a
    tail that is no power of two), `inside` the product of the loops inside it. `of_terms` says where all of the loop is
    one vector of terms of a reduction, inside other loops of terms: it is then no loop, and each lane is a sum of its
    own until these end.
    """

    lanes: Array
    extent: Array
    steps: Array
    strips: Array
    useful: Array
    masked: Array
    inside: Array
    of_terms: Flags


class StatementLoops:
    """The loops around one statement, as arrays.

    Args:
        statement: the statement, its loops and its accesses.
        sizes: float32 of shape (rows,), or numbers, by slot.
        rows: of the population.
        target: vector width and threads to judge by.

    Attributes:
        iterates: (loops, rows) whether a loop has more than one iteration.
        outer: (levels, rows) the product of the extents of the outer loops that are fixed.
        iterations: the product of the extents of all loops.
        domain: elements and terms of the block, or those in a part of a loop (loop_partition).
        strips: (loops, rows) how often each loop runs in machine code: a vectorised one for each strip.
        strips_inside: (levels, rows) the product of the strips of the loops inside.
        instances: how often the statement runs, a vector at a time.
        unrolled: (loops, rows) 1 where a loop is unrolled.
        copies: of the statement that unrolled loops make.
        shares: for which share of the instances conditions hold.
        parallel: the loops whose iterations threads share.
        tasks: iterations of these.
        speedup: how many tasks run at a time, on average.
        of_a_thread: the loops' ranges in the largest part that a thread has.
    """

    def __init__(self, statement: Statement, sizes: Sizes, rows: int, target: Target) -> None:
        self.statement = statement
        self.sizes = sizes
        self.rows = rows
        self.target = target
        self.ranges = Ranges(statement, sizes, rows)
        self.extents = self.ranges.extents
        self.depth = self.ranges.depth
        self._full: dict[float, Array] = {}
        self._set_iterations()
        self._set_vectors_and_copies()
        self._set_threads()

    def full(self, value: float) -> Array:
        """A constant for every row; shared, so it cannot be written."""
        found = self._full.get(value)
        if found is None:
            found = self._full[value] = np.empty(self.rows, np.float32)
            found.fill(value)
            found.setflags(write=False)
        return found

    # --- iterations

    def _set_iterations(self) -> None:
        self.iterates: Flags = self.extents > 1
        self.outer = self._products_outside()
        self.iterations: Array = self.outer[-1]
        self.domain = self._domain()

    def _products_outside(self) -> Array:
        out = ones((self.depth + 1, self.rows))
        # One by one: `np.multiply.accumulate` takes five times as long along this axis.
        for loop in range(self.depth):
            np.multiply(out[loop], self.extents[loop], out=out[loop + 1])
        return out

    def _domain(self) -> Array:
        total = self.full(1.0)
        for slot in self.statement.domain:
            total = total * self.sizes[slot]
        here: Array = np.minimum(total, self.iterations)
        return here

    def _products_inside(self, extents: Array) -> Array:
        out = ones((self.depth + 1, self.rows))
        for loop in reversed(range(self.depth)):
            np.multiply(out[loop + 1], extents[loop], out=out[loop])
        return out

    # --- vectors and unrolled copies

    def _set_vectors_and_copies(self) -> None:
        self.vector = self._vector()
        self.strips = self._strips()
        self.strips_inside = self._products_inside(self.strips)
        self.instances: Array = self.strips_inside[0]
        self.unrolled = self._unroll_flags()
        self.copies: Array = np.multiply.reduce(_values_or_one(self.unrolled, self.strips), axis=0) * self.full(1.0)
        self.shares = Shares(self.ranges, self._loop_copies(), tuple(info.reduces for info in self.statement.loops))

    def _vector(self) -> Vector:
        depth = self.statement.vector
        one = self.full(1.0)
        if depth is None:
            return Vector(one, one, one, one, one, self.full(0.0), one, np.zeros(self.rows, np.bool_))
        slot = self.statement.loops[depth].lanes
        extent = self.extents[depth]
        lanes = self.full(1.0) if slot is None else lanes_used(self.full(0.0) + self.sizes[slot], extent)
        steps = np.ceil(extent / lanes)
        strips = steps * vectors_for(lanes, 8 * self.statement.computed_bytes, self.target.vector_bits)
        tail = extent - np.floor(extent / lanes) * lanes
        masked = (np.exp2(np.ceil(np.log2(np.maximum(tail, 1.0)))) > tail) & (tail > 0)
        inside = np.prod(self.extents[depth + 1 :], axis=0) if depth + 1 < self.depth else one
        of_terms = (steps == 1) & self._has_terms_around(depth)
        return Vector(lanes, extent, steps, strips, extent / (steps * lanes), masked / steps, inside, of_terms)

    def _has_terms_around(self, depth: int) -> Flags:
        """Where a loop over terms is inside another one: (rows,)."""
        loops = self.statement.loops
        around = [self.iterates[loop] for loop in range(depth) if loops[loop].reduces]
        if not loops[depth].reduces or self.statement.tensor is not None or not around:
            return np.zeros(self.rows, np.bool_)
        return any_of(around)

    def _strips(self) -> Array:
        depth = self.statement.vector
        if depth is None:
            return self.extents
        strips = self.extents.copy()
        strips[depth] = self.vector.strips
        strips[self.statement.depth :] = 1.0  # one operation does all of a tensorised nest
        return strips

    def _unroll_flags(self) -> Array:
        """Unrolled are loops marked so, loops that index a register buffer, and the innermost run of loops as far out
        as the product of their steps stays within the unroll limit.
        """
        unrolled = np.zeros((self.depth, self.rows), np.float32)
        product = self.full(1.0)
        joins = np.ones(self.rows, dtype=bool)
        for loop in reversed(range(self.depth)):
            info = self.statement.loops[loop]
            if loop >= self.statement.depth:
                unrolled[loop] = 1.0
                continue
            product = product * (self.vector.steps if loop == self.statement.vector else self.extents[loop])
            always = info.kind is LoopKind.UNROLLED
            limited = self.statement.limit is not None and (info.limited or self.statement.own_limit)
            if not info.alone or not (limited or always) or info.kind is LoopKind.PARALLEL:
                joins = np.zeros(self.rows, dtype=bool)
            elif self.statement.limit is not None and not always:
                joins = joins & joins_unrolled(product, self.sizes[self.statement.limit])
            unrolled[loop] = joins
            if always:
                unrolled[loop] = 1.0
            for dim in self._register_indices(loop):
                np.maximum(unrolled[loop], self.ranges.moves(dim, loop), out=unrolled[loop])
        return unrolled

    def _register_indices(self, loop: int) -> list[Index]:
        """Indices of register buffers that live outside `loop`."""
        accesses = [a for a in self.statement.accesses if a.is_register and loop >= (a.alloc or 0)]
        return [dim for access in accesses for dim in access.dims if dim.uses(loop)]

    def _loop_copies(self) -> Array:
        """(loops, rows) how many copies of the statement each loop makes: of a vectorised one, its strips."""
        steps = self.extents
        depth = self.statement.vector
        if depth is not None:
            steps = steps.copy()
            steps[depth] = self.vector.steps
        return _values_or_one(self.unrolled, steps)

    # --- threads

    def _set_threads(self) -> None:
        threads = self.target.threads
        self.parallel = [n for n, info in enumerate(self.statement.loops) if info.kind is LoopKind.PARALLEL]
        self.tasks: Array = self.full(1.0)
        self.speedup: Array = self.full(1.0)
        if self.parallel:
            self.tasks = np.prod(self.extents[self.parallel], axis=0)
            self.speedup = self.tasks / np.ceil(self.tasks / max(threads, 1))
        self.of_a_thread = ranges_of_a_thread(self.ranges, self.statement, self.parallel, threads)

    def part_of_a_thread(self, access: StatementAccess) -> Array:
        """The share that one thread touches of what a statement touches by an access."""
        return part_of_a_thread(access, self.of_a_thread, self.ranges, self.parallel)


def any_of(flags: Sequence[Flags]) -> Flags:
    """Where any of some arrays of flags holds, of one at least."""
    found = flags[0]
    for each in flags[1:]:
        found = found | each
    return found


def _values_or_one(flags: Array, values: Array) -> Array:
    """Values of at least 1 where a flag, 0 or 1, is set, else 1. `np.where` takes three times as long."""
    chosen: Array = np.maximum(flags * values, 1.0)
    return chosen
