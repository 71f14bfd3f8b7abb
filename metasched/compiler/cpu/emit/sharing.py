"""How threads share the iterations of a parallel loop: each begins with a range of its own, and then helps others.

A chunk is an equal range of the iterations. That of a long loop is divided into pieces: a half of it first, then
eighths, then sixteenths. Whoever runs a chunk takes its pieces one after another, and then those that are left of the
chunks after it. So where all threads are as fast, each runs its range, which its caches may hold from the loop before;
and where one is slower, begins later or is not run for a while, another takes up to the half of its range: guided
self-scheduling (Polychronopoulos and Kuck 1987), bound to ranges.

A piece costs one atomic addition and a call: loops of 256 and 1,024 vectors took .1 to 1.4 us longer in pieces on two
threads of an Emerald Rapids. Workspaces belong to chunks: a piece computes in the slice of the chunk whose thread took
it. What it computes is the same wherever that is.

How many pieces of a chunk were taken is on a cache line of its own, zero when the region starts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from metasched.compiler import lir
from metasched.compiler.lir import LStmt
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Load

# Bytes for the count of a chunk.
COUNT_BYTES = 64
# Where the pieces of a chunk begin, in sixteenths of it, and its end.
_PIECE_STARTS = (0, 8, 10, 12, 13, 14, 15, 16)
_START_SHIFT = 4
_PIECE_COUNT = len(_PIECE_STARTS) - 1
_START_TABLE = sum(start << 8 * n for n, start in enumerate(_PIECE_STARTS))
# How many other chunks a thread looks at: of many threads, all would look at all at the end of a loop.
_MOST_HELPED_CHUNKS = 7
# The loads and stores of a loop from which on it is long, a vector's being one: 12,000 took 7 to 11 us on the threads
# above.
_LEAST_LONG_ACCESSES = 1 << 15
# What an instruction of tiles or the move of one counts for.
_TENSOR_ACCESSES = 16

_RANGE_TEXT = """\
  %following = add i64 %owner, 1
  %below = mul i64 %owner, %extent
  %start = udiv i64 %below, %chunks
  %up = mul i64 %following, %extent
  %end = udiv i64 %up, %chunks
"""

_UNSHARED_TEXT = """\
define internal void @share.{name}({parameters}, i64 %extent, i64 %chunks, i64 %owner, ptr %counts) nounwind {{
{range}  call void @phase.{name}({parameters}, i64 %start, i64 %end)
  ret void
}}
"""

_SHARED_TEXT = """\
define internal void @share.{name}({parameters}, i64 %extent, i64 %chunks, i64 %chunk, ptr %counts) nounwind {{
entry:
  %few = icmp slt i64 %chunks, {looked_at}
  %looks = select i1 %few, i64 %chunks, i64 {looked_at}
  br label %range
range:
  %n = phi i64 [ 0, %entry ], [ %n.next, %all.taken ]
  %after = add i64 %chunk, %n
  %wraps = icmp sge i64 %after, %chunks
  %before = sub i64 %after, %chunks
  %owner = select i1 %wraps, i64 %before, i64 %after
{range}  %length = sub i64 %end, %start
  %offset = mul i64 %owner, {count_bytes}
  %count = getelementptr i8, ptr %counts, i64 %offset
  br label %look
look:
  %seen = load atomic i64, ptr %count monotonic, align 8
  %left = icmp ult i64 %seen, {pieces}
  br i1 %left, label %take, label %all.taken
take:
  %piece = atomicrmw add ptr %count, i64 1 monotonic
  %ours = icmp ult i64 %piece, {pieces}
  br i1 %ours, label %bounds, label %all.taken
bounds:
  %bit = shl i64 %piece, 3
  %from.here = lshr i64 {table}, %bit
  %from.next = lshr i64 %from.here, 8
  %from.part = and i64 %from.here, 255
  %to.part = and i64 %from.next, 255
  %from.scaled = mul i64 %length, %from.part
  %to.scaled = mul i64 %length, %to.part
  %from = lshr i64 %from.scaled, {shift}
  %to = lshr i64 %to.scaled, {shift}
  %lo = add i64 %start, %from
  %hi = add i64 %start, %to
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %run, label %look
run:
  call void @phase.{name}({parameters}, i64 %lo, i64 %hi)
  br label %look
all.taken:
  %n.next = add i64 %n, 1
  %more = icmp slt i64 %n.next, %looks
  br i1 %more, label %range, label %done
done:
  ret void
}}
"""


def share_text(name: str, parameters: Sequence[str], loop: lir.Loop) -> str:
    """The function `@share.NAME` that runs a chunk of a parallel loop, and pieces of others where the loop is long.

    Its parameters are those of `@phase.NAME`, up to the bounds, and then the loop's extent, the number of chunks, the
    chunk, and the counts of all chunks, which nothing is kept in where the loop is not long.
    """
    texts = {"name": name, "parameters": ", ".join(parameters), "range": _RANGE_TEXT}
    if not is_long(loop):
        return _UNSHARED_TEXT.format(**texts)
    numbers = {
        "looked_at": _MOST_HELPED_CHUNKS + 1,
        "count_bytes": COUNT_BYTES,
        "pieces": _PIECE_COUNT,
        "table": _START_TABLE,
        "shift": _START_SHIFT,
    }
    return _SHARED_TEXT.format(**texts, **numbers)


def is_long(loop: lir.Loop) -> bool:
    """Whether a loop takes so long that threads help each other."""
    return _count_accesses(loop) >= _LEAST_LONG_ACCESSES


def _count_accesses(stmt: LStmt) -> float:
    """How many vectors, or single elements, a statement loads and stores at most; infinity where that is not known."""
    here = sum(isinstance(node, Load) for child in stmt.children() if isinstance(child, Expr) for node in child.walk())
    inside = sum(_count_accesses(child) for child in stmt.children() if isinstance(child, LStmt))
    match stmt:
        case lir.Loop():
            return _most_iterations(stmt.extent) * inside
        case lir.VectorLoop():
            return math.ceil(_most_iterations(stmt.extent) / stmt.lanes) * inside
        case lir.IntrinsicCall() | lir.TileMove():
            return _TENSOR_ACCESSES
        case lir.Write() | lir.ArgReduction():
            return here + 1
        case _:
            return here + inside


def _most_iterations(extent: Expr) -> float:
    match extent:
        case Const():
            return float(extent.value)
        case Binary(BinOp.MIN):
            return min(_most_iterations(extent.a), _most_iterations(extent.b))
        case _:
            return math.inf
