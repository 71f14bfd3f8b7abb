"""Transpositions in registers: what lanes read far apart, and iterations of unrolled loops side by side.

`X[8*a + l, 4*b + j]` over eight lanes `l`, in four iterations `j` of an unrolled loop, is eight runs of four
neighbours. They are loaded as they lie, in four vectors of two runs each, and interleaved two by two until a vector has
what the lanes of one iteration read:

    x0[0:4] x4[0:4]      x0[0] x1[0] x0[1] x1[1] | x4 x5      x0[0] x1[0] x2[0] x3[0] | x4 x5 x6 x7
    x1[0:4] x5[0:4]  ->  x0[2] x1[2] x0[3] x1[3] | ...    ->  x0[1] x1[1] x2[1] x3[1] | ...
    x2[0:4] x6[0:4]      x2[0] x3[0] x2[1] x3[1] | ...        x0[2] x1[2] x2[2] x3[2] | ...
    x3[0:4] x7[0:4]      x2[2] x3[2] x2[3] x3[3] | ...        x0[3] x1[3] x2[3] x3[3] | ...

No element crosses the 16 bytes that it was loaded into, so that all of x86's vectors, of whatever width, take an
instruction a step. What lanes read may be units of some neighbours instead of elements, such as the pairs and fours
that operands of tensor instructions consist of: `X[16*a + l//2, 8*b + 2*j + l%2]`. Fewer steps are left then.
"""

from __future__ import annotations

from collections.abc import Sequence

from metasched.compiler import lir
from metasched.compiler.cpu.emit.text import FunctionText
from metasched.compiler.cpu.emit.types import lane_list, memory_text
from metasched.compiler.lir import LoopMode
from metasched.compiler.policy import MOST_SPREAD
from metasched.dtypes import DType
from metasched.ir.nodes import Binary, Const, Select
from metasched.support.data_classes import dataclass
from metasched.target import TRANSPOSED_BYTES


def run_length(dtype: DType) -> int:
    """How many neighbours of a type are loaded at once."""
    return TRANSPOSED_BYTES // dtype.bytes


@dataclass(frozen=True)
class LaneUnits:
    """Units of `unit` lanes read neighbours; the first begins at `start`, each other `step` elements after one."""

    start: int
    step: int
    unit: int


def find_lane_units(offsets: Sequence[int], run: int) -> LaneUnits | None:
    """How lanes that read so far from a common place are apart.

    None where they are near one another, where a run has no more than a unit, or where the runs of a vector are no
    power of two, by which they are joined.
    """
    first = offsets[0]
    unit = next((n for n, at in enumerate(offsets) if at != first + n), len(offsets))
    if run % unit or unit == run or len(offsets) % run or (len(offsets) // run).bit_count() != 1:
        return None
    step = offsets[unit] - first
    regular = all(at == first + step * (n // unit) + n % unit for n, at in enumerate(offsets))
    return LaneUnits(first, step, unit) if regular and step > MOST_SPREAD * unit else None


def is_straight(stmt: lir.LStmt) -> bool:
    """Whether a statement is straight code: in every iteration of a loop around it, all that it reads is read."""
    if isinstance(stmt, lir.Loop):
        return stmt.mode is LoopMode.UNROLLED and is_straight(stmt.body)
    if isinstance(stmt, lir.VectorLoop):
        repeated = isinstance(stmt.extent, Const) and (stmt.unroll_strips or stmt.extent.value < 2 * stmt.lanes)
        return repeated and is_straight(stmt.body)
    if isinstance(stmt, lir.Body):
        return all(map(is_straight, stmt.stmts))
    return isinstance(stmt, lir.Write) and not any(map(_is_choice, stmt.walk()))


def _is_choice(node: object) -> bool:
    return isinstance(node, Select) or (isinstance(node, Binary) and node.op.is_logical)


def join_runs(text: FunctionText, runs: Sequence[str], dtype: DType) -> str:
    """One vector of the runs in order; their number is a power of two."""
    length = run_length(dtype)
    while len(runs) > 1:
        picks = lane_list(range(2 * length))
        type_ = memory_text(dtype, length)
        pairs = zip(runs[::2], runs[1::2], strict=True)
        runs = [
            text.emit_pure(f"shufflevector {type_} {a}, {type_} {b}, <{2 * length} x i32> <{picks}>") for a, b in pairs
        ]
        length *= 2
    return runs[0]


def transpose_rows(text: FunctionText, rows: Sequence[str], dtype: DType, width: int, unit: int = 1) -> list[str]:
    """Rows transposed, in as many vectors: the first has the first element of each run of each row, and so on.

    Args:
        width: lanes of a row, a multiple of a run's.
        unit: elements of a run that belong together already.
    """
    if len(rows) == 1:
        return list(rows)
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    halves = []
    for half in range(2):
        picks = lane_list(_interleave_units(run_length(dtype), width, unit, half))
        type_ = memory_text(dtype, width)
        step = f"shufflevector {type_} {{}}, {type_} {{}}, <{width} x i32> <{picks}>"
        mixed = [text.emit_pure(step.format(a, b)) for a, b in pairs]
        halves += transpose_rows(text, mixed, dtype, width, 2 * unit)
    return halves


def _interleave_units(run: int, width: int, unit: int, half: int) -> list[int]:
    """Units of two vectors by turns, those of the first or second half of each run."""
    out = []
    for start in range(half * run // 2, width, run):
        for at in range(start, start + run // 2, unit):
            out += [*range(at, at + unit), *range(width + at, width + at + unit)]
    return out
