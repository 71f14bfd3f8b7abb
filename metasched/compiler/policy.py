"""What lowering decides by numbers, and the cost model has to know: registers, the order of operands, cases of guards.

Lowering asks about one program, the cost model about a population: every function takes numbers and arrays alike.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", int, NDArray[Any])

# Left for an operand beside accumulators. Where more operands do not fit, they are read again.
_RESERVED_REGISTERS = 1
# Two operands of one kind and one of the other: with fewer registers left for them, accumulators are spilled.
_OPERAND_REGISTERS = 3
# What addresses and the order of instructions take besides.
_SPARE_REGISTERS = 2

# Imperfect tiles: for so many guards there are cases of whole and partial tiles, of each guard two.
SPECIALISED_GUARDS = 2
SPECIALISED_CASES = 2**SPECIALISED_GUARDS
# Parts of a register tile that have a term where others do not: up to so many are cases of their own, the whole among
# them, where all of them together are so many statements at most.
MOST_TERM_CASES = 8
MOST_STATEMENTS_IN_TERM_CASES = 1024

# Lanes that are spread over up to so many times their number of elements are loaded with what lies between, and picked:
# vectors and shuffles. Those further apart are loaded one by one.
MOST_SPREAD = 4
# Lanes that share so many elements, wherever these are, are filled by a load of each.
MOST_SHARED_ELEMENTS = 4
# Lanes that read so many pieces of memory at most, of so many neighbours each on average, are loaded piece by piece
# under masks.
MOST_PIECES = 4
LANES_PER_PIECE = 4
# Runs of neighbours, of some lanes at least, that the lanes of a vector read in another order: more loads, and a gather
# is as good.
MOST_RUNS = 8
LEAST_RUN_LANES = 4

# Unrolling repeats statements so often at most, all statements of a program together.
MAX_COPIES = 4096

# Statements of a block of unrolled terms, of which the last block may be in code of its own.
MOST_STATEMENTS_IN_TWO_BLOCKS = 256

# AMX's tile registers; two are left for operands.
TILE_REGISTERS = 8
TILE_ACCUMULATORS = TILE_REGISTERS - 2


class OperandOrder(Enum):
    """The order in which a tile uses its operands (`metasched.compiler.lower.operand_order`)."""

    AS_WRITTEN = "as written"
    BY_BROADCASTS = "one broadcast at a time"
    BY_VECTORS = "one vector at a time"
    REREADING_BROADCASTS = "one vector at a time, broadcasts read again"
    REREADING_VECTORS = "one broadcast at a time, vectors read again"


def lanes_used(lanes: T, extent: T) -> T:
    """Lanes of a vectorised loop: of one that is shorter, those of the vector that holds it whole."""
    used: T = np.minimum(lanes, np.exp2(np.ceil(np.log2(extent))))
    return used


def vectors_for(lanes: T, bits: int, vector_bits: int) -> T:
    """Vector registers that `lanes` elements of `bits` take."""
    whole: T = -(-lanes * bits // vector_bits)
    return whole


def accumulator_registers(registers: int) -> int:
    """How many vector registers accumulators may take."""
    return registers - _RESERVED_REGISTERS


def operand_registers(registers: int) -> int:
    """How many registers accumulators may take for the operands of a tile to have theirs beside them."""
    return registers - _OPERAND_REGISTERS


def rereads(accumulators: T, fewest: T, registers: int) -> Any:
    """Whether a tile reads operands again for lack of registers: of both kinds it has `fewest` at least."""
    return (fewest > 1) & (accumulators > operand_registers(registers))


def loads_rereading(accumulators: T, fewest: T) -> T:
    """Loads of a tile that reads operands again: one for each product, and the operands that it keeps."""
    loads: T = accumulators + fewest
    return loads


def operand_order(vectors: int, broadcasts: int, accumulators: int, registers: int) -> OperandOrder:
    """The order for a tile of products of `vectors` and `broadcasts` beside its accumulators."""
    fewest, free = min(vectors, broadcasts), registers - accumulators
    if rereads(accumulators, fewest, registers):
        return OperandOrder.REREADING_BROADCASTS if vectors <= broadcasts else OperandOrder.REREADING_VECTORS
    if fewest < 2 or max(vectors, broadcasts) + _SPARE_REGISTERS < free:
        return OperandOrder.AS_WRITTEN
    return OperandOrder.BY_BROADCASTS if broadcasts >= vectors else OperandOrder.BY_VECTORS


def joins_unrolled(copies: T, limit: T) -> Any:
    """Whether a loop is unrolled with those inside it, which makes `copies` of a statement, under an unroll limit."""
    return copies <= limit
