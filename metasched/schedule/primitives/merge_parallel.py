"""merge_parallel: run consecutive parallel loops in one parallel region."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import For, LoopKind, Seq, Stmt
from metasched.ir.regions import is_parallel, parallel_inside, region_of
from metasched.lang.instructions import Instruction, Ref
from metasched.schedule.batching import Batching
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName
from metasched.schedule.primitive import primitive

OP = "merge_parallel"


def _in_batches(batching: Batching, instruction: Instruction) -> None:
    """Merge what threads share in place of the loops; nothing where that is one loop."""
    shared = (batching.shared_loop(arg.name) for arg in instruction.args if isinstance(arg, Ref))
    loops = tuple(dict.fromkeys(shared))
    if len(loops) > 1:
        batching.run(replace(instruction, args=loops))


@primitive(in_batches=_in_batches, threads=True)
def merge_parallel(ctx: Context, *loops: LoopName) -> None:
    """Run consecutive parallel loops in one parallel region, with a barrier between each two.

    Threads are started once for all of the loops and wait at a barrier after each, which is faster than starting them
    again. Statements between the loops are run by one thread while the others wait.

    Args:
        loops: two or more parallel loops, in program order. A loop already in a shared region brings in all loops of
            that region.

    Requires:
        The loops are siblings: outside of all loops, or directly inside the same one. All parallel loops between them
        are given, and no other statement between them contains a parallel loop.

    Rewrite:
        parallel i in 64:                     parallel(region) i in 64:
            B[i] = A[i] * 2            ->         B[i] = A[i] * 2
        parallel j in 32:                     parallel(region) j in 32:
            C[j] = B[j] + B[63 - j]               C[j] = B[j] + B[63 - j]
    """
    if len(set(loops)) != len(loops):
        raise ScheduleError(OP, "a loop is given twice", tuple(loops), "name each loop once")
    if len(loops) < 2:
        raise ScheduleError(OP, "fewer than two loops are given", tuple(loops), "give those that are to share a region")
    wanted = [ctx.loop(OP, var) for var in loops]
    for loop in wanted:
        _require_parallel(loop)
    parent = _parent(ctx, wanted)
    _require_order(parent, wanted)
    joined = {x.region for x in wanted if x.region}
    members = [n for n, s in enumerate(parent.stmts) if _is_one_of(s, wanted) or region_of(s) in joined]
    for stmt in parent.stmts[members[0] : members[-1]]:
        _require_phase(stmt, wanted, joined)
    name = next((x.region for x in wanted if x.region), "") or ctx.fresh("region")
    stmts = tuple(_mark_region(s, name) if n in members else s for n, s in enumerate(parent.stmts))
    ctx.func = query.replace_stmt(ctx.func, parent, Seq(stmts))


def _require_parallel(loop: For) -> None:
    if loop.kind is not LoopKind.PARALLEL:
        kind = "serial" if loop.kind is LoopKind.SERIAL else loop.kind.value
        raise ScheduleError(OP, f"loop `{loop.var}` is {kind}", (loop.var,), "run it on all threads first, by parallel")


def _parent(ctx: Context, loops: list[For]) -> Seq:
    """The sequence that directly contains all of the loops."""
    first, *others = loops
    parents = [query.path_to(ctx.func, loop)[-2:-1] for loop in loops]
    for loop, above in zip(others, parents[1:], strict=True):
        if not above or not isinstance(above[0], Seq) or above[0] is not (parents[0] or (None,))[0]:
            raise ScheduleError(
                OP,
                f"loops `{first.var}` and `{loop.var}` do not stand beside one another",
                (first.var, loop.var),
                "give loops that are outside of all others, or directly inside the same one",
            )
    (parent,) = parents[0]
    assert isinstance(parent, Seq)
    return parent


def _is_one_of(stmt: Stmt, loops: list[For]) -> bool:
    return any(stmt is loop for loop in loops)


def _require_order(parent: Seq, loops: list[For]) -> None:
    ordered = [s for s in parent.stmts if _is_one_of(s, loops)]
    for given, stands in zip(loops, ordered, strict=True):
        if given is not stands:
            assert isinstance(stands, For)
            raise ScheduleError(
                OP,
                f"loop `{stands.var}` comes before `{given.var}` in the program, and is given after it",
                (stands.var, given.var),
                "give the loops in the order in which they run: merging moves none of them",
            )


def _require_phase(stmt: Stmt, given: list[For], joined: set[str]) -> None:
    """Raise for a statement between the loops of a region that cannot be a phase of it."""
    ends = (given[0].var, given[-1].var)
    if is_parallel(stmt) and not _is_one_of(stmt, given) and region_of(stmt) not in joined:
        assert isinstance(stmt, For)
        raise ScheduleError(OP, f"parallel loop `{stmt.var}` stands between them", (*ends, stmt.var), "give it as well")
    inside = parallel_inside(stmt)
    if inside is not None:
        raise ScheduleError(
            OP,
            f"parallel loop `{inside.var}` is inside a loop between them, which one thread would run",
            (*ends, inside.var),
            "make the loop around it parallel instead, or merge only loops with none such between them",
        )


def _mark_region(stmt: Stmt, name: str) -> Stmt:
    assert isinstance(stmt, For)
    return replace(stmt, region=name)
