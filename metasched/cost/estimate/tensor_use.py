"""What uses of a tensor intrinsic take, over a population: operands that are loaded, and registers for its sums.

A tensorised nest is one operation. Its operands are vectors, or tiles of rows, that the loops around it choose.
"""

from __future__ import annotations

import numpy as np

from metasched.compiler.policy import TILE_ACCUMULATORS, TILE_REGISTERS, accumulator_registers, operand_registers
from metasched.cost.estimate.footprint import Array, Footprint, Ranges
from metasched.cost.program.nest import Statement, StatementAccess
from metasched.schedule.tensor import Intrinsic
from metasched.target import Target


def operand_loads(footprint: Footprint, access: StatementAccess, depth: int, vector_bits: int) -> Array:
    """Loads that bring one operand: whole vectors of each of its runs of neighbours, such as the rows of a tile."""
    run = footprint.run[depth]
    loads: Array = footprint.elements[depth] / run * np.ceil(run * (8 * access.element_bytes / vector_bits))
    return loads


def distinct_operands(access: StatementAccess, ranges: Ranges, depth: int) -> Array:
    """(levels, rows): how many operands the loops outside a nest at `depth` choose, under each level."""
    out = np.ones((ranges.depth + 1, ranges.rows), np.float32)
    for loop in reversed(range(depth)):
        moves = np.zeros(ranges.rows, np.bool_)
        for dim in access.dims:
            moves |= ranges.moves(dim, loop)
        np.multiply(out[loop + 1], np.where(moves, ranges.extents[loop], 1.0), out=out[loop])
    return out


def tile_loads(outer: Array, inner: Array, accumulators: Array) -> Array:
    """Loads of tiles for the products of each of `outer` operands with each of `inner` ones, which are used in turn.

    Operands have the tile registers that accumulators leave, and one that is loaded takes the place of the one whose
    last use is longest ago. Between two uses of an inner one are those of the others, and of two outer ones.
    """
    kept = inner + np.where(inner > 1, 2.0, 1.0) <= TILE_REGISTERS - accumulators
    loads: Array = outer + np.where(kept | (outer == 1), inner, outer * inner)
    return loads


def innermost_choice(statement: Statement, ranges: Ranges, depth: int) -> Array:
    """1 where the second of two reads is chosen by the innermost loop around a nest at `depth` that chooses only one of
    them, else 0: the operand that changes first."""
    second = np.ones(ranges.rows, np.float32)
    for loop in range(depth):
        one, other = (
            np.any([ranges.moves(dim, loop) for dim in access.dims], axis=0) for access in statement.accesses[1:3]
        )
        np.copyto(second, other.astype(np.float32), where=one != other)
    return second


def spilled_vectors(accumulators: Array, outer: Array, inner: Array, comfortable: int) -> Array:
    """Vectors that go to memory and back in every step, for lack of registers.

    With `comfortable` accumulators, two inner operands have registers, and an outer one: inner ones stay where there
    are more of the outer ones to use them.
    """
    staying = np.where(outer > 1, inner, 1.0)
    over: Array = np.maximum(accumulators + (staying - 2.0) - comfortable, 0.0)
    return over


def sum_registers(intrinsic: Intrinsic) -> int:
    """Registers that hold one output: a tile, or vectors."""
    return 1 if intrinsic.tiles else intrinsic.rows


def registers_for_sums(intrinsic: Intrinsic | None, target: Target) -> int:
    """How many registers accumulators may take."""
    return TILE_ACCUMULATORS if intrinsic is not None and intrinsic.tiles else accumulator_registers(target.registers)


def comfortable_registers(intrinsic: Intrinsic | None, target: Target) -> int:
    """How many registers accumulators may take for operands, and what an intrinsic computes between, to have theirs."""
    if intrinsic is None:
        return operand_registers(target.registers)
    return TILE_ACCUMULATORS if intrinsic.tiles else operand_registers(target.registers) - intrinsic.registers
