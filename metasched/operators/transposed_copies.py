"""Copies of transposed operands in vectors: runs of neighbours are read and transposed in registers.

An expert's copy reads along the rows of an operand. Where that is transposed, its lanes are far apart, but the
iterations of a loop around them lie side by side. Unrolled, that loop reads whole runs
(`metasched.compiler.cpu.emit.accesses.transposed_loads`) instead of an element for each lane.
"""

from __future__ import annotations

from collections.abc import Set
from functools import reduce

from metasched.ir import query
from metasched.ir.integers.affine import free_vars, substitute
from metasched.ir.integers.evaluate import evaluate
from metasched.ir.nodes import Block, Const, For, Load, LoopKind
from metasched.schedule.trace import Schedule
from metasched.support.data_classes import dataclass
from metasched.target import TRANSPOSED_BYTES

_PREFETCH = "prefetch"


@dataclass(frozen=True)
class _Run:
    """A loop whose iterations read neighbours, `count` of them at once, and the loops between it and the vectors."""

    loop: For
    between: tuple[For, ...]
    count: int


def transpose_copies(sch: Schedule, operands: Set[str]) -> None:
    """Unroll what lies side by side in copies of some operands that are read across their rows."""
    for name in [block.name for block in query.blocks(sch.func) if _source(block) in operands]:
        run = _find_run(sch, query.find_block(sch.func, name))
        if run is not None:
            _unroll(sch, name, run)


def _source(block: Block) -> str | None:
    """The operand that a block copies, if that is all it does."""
    value = block.store.value
    return value.buffer if isinstance(value, Load) and block.reducer is None else None


def _find_run(sch: Schedule, block: Block) -> _Run | None:
    load = block.store.value
    assert isinstance(load, Load)
    loops = query.loops_above(sch.func, block.name)
    source = sch.func.buffer(load.buffer)
    shape = [int(size.value) for size in source.shape if isinstance(size, Const)]
    if not loops or loops[-1].kind is not LoopKind.VECTORIZED or len(shape) != len(source.shape):
        return None
    bound = dict(zip((it.name for it in block.iters), block.bindings, strict=True))
    index = [substitute(part, bound) for part in load.indices]
    start = {loop.var: 0 for loop in loops}

    def step(loop: For, iteration: int = 1) -> int:
        """How far an iteration reads beyond the first one, in elements."""
        places = [int(evaluate(part, {**start, loop.var: iteration})) for part in index]
        return reduce(lambda at, pair: at * pair[1] + pair[0], zip(places, shape, strict=True), 0)

    run, extent = TRANSPOSED_BYTES // source.dtype.bytes, loops[-1].extent
    lanes = int(extent.value) if isinstance(extent, Const) else 1
    unit = next((n for n in range(1, min(lanes, run)) if step(loops[-1], n) != n), lanes)
    if unit == lanes or run % unit or unit == run:
        return None
    for at in reversed(range(len(loops) - 1)):
        loop = loops[at]
        if loop.kind is not LoopKind.UNROLLED and loop.var in free_vars(index[-1]):
            whole = isinstance(loop.extent, Const) and int(loop.extent.value) % (run // unit) == 0
            fits = whole and loop.kind is LoopKind.SERIAL and step(loop) == unit
            return _Run(loop, tuple(loops[at + 1 : -1]), run // unit) if fits else None
        if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED):
            return None
    return None


def _unroll(sch: Schedule, block: str, run: _Run) -> None:
    handles = {sch.name_of(handle): handle for handle in sch.get_loops(sch.get_block(block))}
    loop = handles[run.loop.var]
    if any(annotation.key == _PREFETCH for annotation in run.loop.annotations):
        sch.unannotate(loop, _PREFETCH)  # whole runs are what the hardware follows
    _, inner = sch.split(loop, [None, run.count])
    if run.between:
        sch.reorder(*(handles[each.var] for each in run.between), inner)
    sch.unroll(inner)
