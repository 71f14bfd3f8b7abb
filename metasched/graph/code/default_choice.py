"""The schedule of a program that nothing is known for."""

from __future__ import annotations

from collections.abc import Container

from metasched.calibration.store import core_of
from metasched.errors import NoRecord
from metasched.functions.registry import functions
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.value_type import type_of
from metasched.ir.integers.affine import free_vars
from metasched.ir.nodes import Block, Call, Const, For, IterKind, Load, Stmt
from metasched.ir.program import Program
from metasched.ir.query import blocks
from metasched.target import Target

# A program of no more than so many elements and operations is not worth the whole space, nor tuning: even a guess
# takes longer to find than a thousand of its calls.
_MOST_SMALL_OPERATIONS = 50_000
# No more than so many in all runs of a call, a math function counting as what it takes: it runs as it is written, in a
# microsecond or two. In loops, too, where it has no more than a few vectors.
_TINY, _FEW_VECTORS = 2_000, 250
# What puts loops into vectors and sums into registers. A guess among these takes .03 to .22 s of a core, and its kernel
# 1/9 to 2/3 of the time of the program as it is written (sums, copies, products of one row, softmax, layer norm).
_FEW_RULES = (
    "scans,gates,inline,multi_level_tiling,tile_transposition,columns,short_rows,reduction_lanes,vectorize,unroll"
)
# Those, and what copies constants ahead. That takes up to .15 s of a core, and is for those whose neighbours along a
# vector of results are rows: of 64 x 256 weights of a recurrent layer vectors are read in 1/9 of the time then.
_RULES_TO_PACK = "scans,gates,multi_level_tiling,packing,tile_transposition,columns,reduction_lanes,vectorize,unroll"


def default_choice(program: Program, target: Target, runs: int = 1) -> Choice:
    """The guess, that by a few rules where the program is small; or as it is written, where it is tiny, or no schedule
    of the rules can be run. A call is taken to run it `runs` times.
    """
    if is_tiny(program, runs):
        return Choice(None, ScheduleOrigin.AS_WRITTEN)
    from metasched.search.guesses.guess import guess  # a start from the cache has no use for it

    try:
        found = guess(program, target, _rules(program), core=core_of(target))
    except NoRecord as none:  # it says why, and so does what the network says of its kernels
        return Choice(None, ScheduleOrigin.AS_WRITTEN, str(none))
    chosen = found.expert or ("a neighbour" if found.neighbour is not None else "the model")
    return Choice(found.trace, ScheduleOrigin.GUESS, chosen, found.func)


def load_guess_data() -> None:
    """Import what the first guess would import, and read the rules and the knowledge that it goes by."""
    from metasched.knowledge.library import shipped
    from metasched.lang.text.syntax import grammar
    from metasched.space.registry import resolve

    grammar()
    resolve(None)
    shipped()


def is_small(program: Program) -> bool:
    """Whether a program's schedule matters too little to look for one in the whole space."""
    return _size(program) <= _MOST_SMALL_OPERATIONS


def is_tiny(program: Program, runs: int = 1) -> bool:
    """Whether a program runs as it is written, as that takes too little to look for a schedule at all."""
    taken = _size(program) + _math_cost(program.func.body)
    return taken <= _FEW_VECTORS or taken * runs <= _TINY


def _rules(program: Program) -> str | None:
    """The rules whose space is looked at; None for all of the preset."""
    if not is_small(program):
        return None
    constants = {argument.name for argument in program.inputs if argument.const}
    across = any(_reads_rows_across(block, constants) for block in blocks(program.func))
    return _RULES_TO_PACK if across else _FEW_RULES


def _reads_rows_across(block: Block, constants: Container[str]) -> bool:
    """Whether a block sums along rows of a constant, of which each of its results reads another."""
    summed = {it.name for it in block.iters if it.kind is IterKind.REDUCE}
    for load in block.store.value.walk():
        if isinstance(load, Load) and load.buffer in constants and len(load.indices) > 1:
            *rows, last = map(free_vars, load.indices)
            if last and last <= summed and not frozenset[str]().union(*rows) <= summed:
                return True
    return False


def _size(program: Program) -> int:
    """Elements that are written, and operations."""
    elements = sum(type_of(buffer).size for buffer in (*program.outputs, *program.func.temps))
    return elements + program.work.operations


def _math_cost(stmt: Stmt) -> float:
    """What the math functions of a statement take, in operations."""
    if isinstance(stmt, For):
        assert isinstance(stmt.extent, Const)
        return float(stmt.extent.value) * _math_cost(stmt.body)
    if isinstance(stmt, Block):
        calls = (node for store in stmt.stores for node in store.value.walk() if isinstance(node, Call))
        return sum(functions()[call.func].cost for call in calls)
    return sum(_math_cost(child) for child in stmt.children() if isinstance(child, Stmt))
