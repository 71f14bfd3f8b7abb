"""tensorize: compute a loop nest with a tensor intrinsic."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Annotation, LoopKind
from metasched.schedule.annotations import tensorize as annotation
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName, Text
from metasched.schedule.primitive import primitive
from metasched.schedule.tensor import Intrinsic, Mismatch, intrinsics, match

OP = "tensorize"


@primitive(in_batches=unchanged)
def tensorize(ctx: Context, loop: LoopName, intrinsic: Text) -> None:
    """Compute a nest of loops with a tensor intrinsic: an instruction that does all of it at once.

    The loops stay in the program and cannot be changed afterwards. Compiling for a target that lacks the instruction is
    an error.

    Args:
        loop: the outermost loop of the nest.
        intrinsic: its name, such as "dot_u8i8_vnni"; `metasched/schedule/intrinsics/` has a file for each.

    Requires:
        The nest computes what the intrinsic does, up to names and the order of products: the same loops with the same
        extents, in any order, and the same element types. The last axis of each of the intrinsic's operands is
        contiguous in memory; the others may have any stride, unless the intrinsic requires otherwise. No guard skips
        any of its iterations, and no loop around it is vectorised. Where the intrinsic flushes denormals to zero, the
        block has the annotation "flush_denormals".

    Rewrite:
        for k_0 in 16:                               for k_0 in 16:
            for j, k_1 in grid(16, 4):                   for j in 16:  @tensorize("dot_u8i8_vnni")
                dot: C[j] += ...              ->             for k_1 in 4:
                                                                 dot: C[j] += ...
    """
    target = ctx.loop(OP, loop)
    wanted = _find_intrinsic(intrinsic)
    around = next((x for x in query.loops_above_loop(ctx.func, loop) if x.kind is LoopKind.VECTORIZED), None)
    if around is not None:
        raise ScheduleError(OP, f"loop `{around.var}` around it is vectorized", (loop, around.var), "vectorize neither")
    try:
        found = match(ctx.func, target, wanted)
    except Mismatch as error:
        raise _differs(loop, wanted, str(error)) from None
    for condition, why in found.conditions:
        ctx.require(condition, _differs(loop, wanted, why))
    above = query.loops_above(ctx.func, found.block.name)
    for guard in found.guards:
        left_out = ScheduleError(
            OP,
            f"a guard of block `{found.block.name}` leaves out part of the nest",
            (found.block.name, loop),
            "choose tiles that divide the extents, or pad the program with pad_einsum",
        )
        ctx.require_everywhere(guard, above, left_out)
    added = Annotation(annotation.tensorize.name, wanted.name)
    ctx.func = query.replace_stmt(ctx.func, target, replace(target, annotations=(*target.annotations, added)))


def _find_intrinsic(name: str) -> Intrinsic:
    known = intrinsics()
    if name not in known:
        raise ScheduleError(OP, f'there is no intrinsic "{name}"', hint=f"there are {', '.join(known)}")
    return known[name]


def _differs(loop: str, intrinsic: Intrinsic, why: str) -> ScheduleError:
    program = query.blocks(intrinsic.func)[0].store
    inputs = ", ".join(
        f"{b.name}: {b.dtype}[{', '.join(str(_size(e)) for e in b.shape)}]" for b in intrinsic.func.inputs
    )
    return ScheduleError(
        OP,
        f"the nest of loop `{loop}` is not `{intrinsic.name}`: {why}",
        (loop,),
        f"`{intrinsic.name}` takes {inputs} and updates {program.buffer}; split and reorder loops until the innermost "
        f"ones are just that{'. ' if intrinsic.layout else ''}{intrinsic.layout}",
    )


def _size(e: object) -> object:
    return getattr(e, "value", e)
