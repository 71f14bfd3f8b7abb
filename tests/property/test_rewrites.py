"""Random legal steps give well-formed programs with the same results, and with free tile sizes the same programs."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import as_int, const, free_vars
from metasched.ir.integers.evaluate import evaluate
from metasched.ir.nodes import For, Var
from metasched.schedule.context import Context
from metasched.schedule.primitive import registry
from metasched.schedule.rewrite.parts import reduction
from metasched.schedule.rewrite.tensorize_safe import require_tensorize_safe
from metasched.schedule.rewrite.vector_sums import require_sums_apart
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL, ROWS, STENCIL, SUMS_STENCIL, TRANSPOSED
from tests.support.structural import at_values, by_place, same, start

Step = tuple[str, tuple[object, ...]]

# Odd extents, and small: the reference runs after every example.
PROGRAMS = [
    (DENSE_RELU, {"N": 5, "M": 6, "K": 7}),
    (RELU_PAD_MATMUL, {"N": 3}),
    (CONV, {"H": 4}),
    (ROWS, {}),
    (STENCIL, {}),
    (SUMS_STENCIL, {"N": 5}),
    (TRANSPOSED, {}),
]
LOOP_STEPS = ("split", "split", "split", "fuse", "reorder", "reorder", "vectorize")
BLOCK_STEPS = (
    *("compute_at", "reverse_compute_at") * 3,
    *("cache_read", "cache_write", "compute_inline", "reverse_compute_inline", "rfactor", "decompose_reduction"),
)


LANE_STEPS = (*("reorder", "vectorize") * 3, "split", "fuse", "decompose_reduction")


def propose(
    draw: Callable[[st.SearchStrategy[object]], object],
    ctx: Context,
    among: tuple[str, ...] = (*LOOP_STEPS, *BLOCK_STEPS),
) -> Step | None:
    """A step that may be legal."""
    pick = lambda options: draw(st.sampled_from(list(options)))  # noqa: E731
    op = pick(among)
    loop = query.find_loop(ctx.func, pick(x.var for x in query.loops(ctx.func)))
    block = pick(b.name for b in query.blocks(ctx.func))
    near = query.producers if op == "reverse_compute_at" else query.consumers
    around = [x.var for b in near(ctx.func, block) for x in query.loops_above(ctx.func, b.name)]
    reduced = [v for b in query.blocks(ctx.func) for _, e in reduction(b) for v in sorted(free_vars(e))]
    nest = [loop.var]
    inner = loop.body
    while isinstance(inner, For):
        nest.append(inner.var)
        inner = inner.body
    steps: dict[str, Callable[[], Step | None]] = {
        "split": lambda: ("split", (loop.var, draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))),
        "fuse": lambda: ("fuse", tuple(nest[:2])),
        "reorder": lambda: ("reorder", tuple(draw(st.permutations(nest)))),
        "vectorize": lambda: ("vectorize", (loop.var, draw(st.integers(1, 4)))),
        "compute_at": lambda: ("compute_at", (block, pick(around))) if around else None,
        "reverse_compute_at": lambda: ("reverse_compute_at", (block, pick(around))) if around else None,
        "cache_read": lambda: ("cache_read", (block, pick(query.reads(query.find_block(ctx.func, block)) or ["A"]))),
        "rfactor": lambda: ("rfactor", (pick(reduced), pick((0, 1)))) if reduced else None,
        "decompose_reduction": lambda: ("decompose_reduction", (block, loop.var)),
    }
    return steps.get(op, lambda: (op, (block,)))()


def take(ctx: Context, step: Step, tiles: list[str] | None = None) -> ScheduleError | None:
    """Run a step, with these names for the factors of a split; the error when it is refused.

    As in a schedule, nothing stays of what a refused step asked for.
    """
    op, args = step
    before, func = list(ctx.constraints), ctx.func
    named: dict[str, object] = {}
    if op == "vectorize":
        args, named = args[:1], {"lanes": const(int(str(args[1])))}
    if op == "split":
        var, inner = args
        assert isinstance(inner, list)
        factors = [const(f) for f in inner] if tiles is None else [Var(t) for t in tiles]
        ctx.free |= set(tiles or ())
        args = (var, (None, *factors))
    refused = None
    try:
        registry()[op].run(ctx, *args, **named)
        require_tensorize_safe(op, func, ctx.func)
        require_sums_apart(ctx, op)
    except ScheduleError as error:
        refused = error
        ctx.func, ctx.constraints = func, before
    assert refused is None or refused.hint
    return refused


def too_deep(ctx: Context, step: Step) -> bool:
    """Whether a split would only make loops of one iteration, or names without end."""
    return step[0] == "split" and (
        as_int(query.find_loop(ctx.func, str(step[1][0])).extent) == 1 or str(step[1][0]).count("_") > 4
    )


@given(st.data(), st.sampled_from(PROGRAMS), st.integers(2, 12))
@settings(max_examples=settings.default.max_examples // 2)  # whole schedules: half as many as of single steps
def test_results_stay(data: st.DataObject, program: tuple[str, dict[str, int]], count: int) -> None:
    ctx = start(program[0], **program[1])
    before = ctx.func
    for _ in range(count):
        step = propose(data.draw, ctx)
        if step is not None and not too_deep(ctx, step):
            unchanged = ctx.func
            assert take(ctx, step) is None or ctx.func is unchanged
    same(before, ctx.func)


@given(st.data(), st.integers(1, 2), st.integers(2, 6))
@settings(max_examples=settings.default.max_examples * 4)
def test_lanes_add_no_term_twice(data: st.DataObject, depth: int, count: int) -> None:
    """Sums under a loop of what reads them, where its iterations compute the same ones again."""
    ctx = start(SUMS_STENCIL)
    before = ctx.func
    at = query.loops_above(ctx.func, "near")[depth - 1]
    assert take(ctx, ("compute_at", ("sums", at.var))) is None
    for _ in range(count):
        step = propose(data.draw, ctx, LANE_STEPS)
        if step is not None and not too_deep(ctx, step):
            take(ctx, step)
    same(before, ctx.func)


@given(st.data(), st.sampled_from(PROGRAMS), st.integers(2, 10))
@settings(max_examples=settings.default.max_examples // 2)  # whole schedules: half as many as of single steps
def test_with_free_tile_sizes_programs_are_what_they_are_with_numbers(
    data: st.DataObject, program: tuple[str, dict[str, int]], count: int
) -> None:
    concrete, symbolic = start(program[0], **program[1]), start(program[0], **program[1])
    values: dict[str, int] = {}
    for _ in range(count):
        step = propose(data.draw, concrete)
        if step is None or too_deep(concrete, step):
            continue
        tiles = None
        if step[0] == "split":
            inner = step[1][1]
            assert isinstance(inner, list)
            tiles = [f"t{len(values) + n}" for n in range(len(inner))]
            values |= dict(zip(tiles, inner, strict=True))
        refused = take(symbolic, step, tiles)
        allowed = all(evaluate(c.cond, values) for c in symbolic.constraints)
        if take(concrete, step) is not None:
            # What is refused for these sizes is refused for all, or left out by a constraint.
            assert refused is not None or not allowed
            if refused is None:
                return
        elif refused is not None:
            return  # More is decidable with numbers.
        assert allowed
    assert by_place(at_values(symbolic.func, values)) == by_place(at_values(concrete.func, {}))
