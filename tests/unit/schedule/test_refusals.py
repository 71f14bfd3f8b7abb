"""Messages of preconditions that need a program or a schedule of their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

import metasched as ms
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import NotAffine, const, linear
from metasched.ir.nodes import Binary, BinOp
from metasched.schedule.primitives.cache_read import cache_read
from metasched.schedule.primitives.cache_write import cache_write
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.primitives.split import split as split_primitive
from metasched.schedule.primitives.store_at import store_at
from metasched.schedule.rewrite import guards, read_regions, written_regions
from metasched.schedule.trace import Trace
from tests.support.programs import DENSE_RELU, STENCIL
from tests.support.schedules import fails, loops_of, schedule
from tests.support.structural import refused, split, start

COPIED = "program copied[N=2](A: f32[N]) -> C: f32[N]:\n    C[i] = A[i]\n"
TURNED = """
program turned[N=8](A: f32[40]) -> C: f32[N, 4]:
    B: f32[40]
    twice: B[n] = A[n] * 2
    read:  C[j, i] = B[(j - 3)*i + 10]
"""
BLUR = """
program blur[H=7, W=5](X: f32[H + 2, W + 2]) -> Y: f32[H, W]:
    across: B[y < H + 2, x < W] = X[y, x + 0] + X[y, x + 1] + X[y, x + 2]
    down:   Y[y, x] = B[y + 0, x] + B[y + 1, x] + B[y + 2, x]
"""


def test_options_that_are_equal() -> None:
    with fails("choose: the options 1 and True are equal, so that no branch can tell them apart", "use texts"):
        schedule().choose("how", [1, True])


def test_a_name_that_is_empty() -> None:
    sch = schedule()
    with fails("sample_tile: name=''", "`name` is a text that is not empty"):
        sch.sample_tile(loops_of(sch, "dense")[0], parts=2, name="")


def test_a_decided_loop() -> None:
    sch = schedule()
    i, _ = loops_of(sch, "relu")
    sch.parallel(i)
    with fails("split: loop `i_relu` is parallel"):
        sch.split(i, [None, 2])


def test_a_trace_without_its_program() -> None:
    sch = schedule()
    sch.sample_tile(loops_of(sch, "dense")[0], parts=2)
    with fails("mutate: a parsed trace does not know its program", "mutate(rng, program)"):
        Trace.parse(str(sch.trace)).mutate(np.random.default_rng(0))


def test_nothing_that_can_move() -> None:
    with fails("mutate: no numeric variable of the trace can take another value"):
        schedule().trace.mutate(np.random.default_rng(0))


def test_a_trace_that_leaves_a_choice_open() -> None:
    sch = schedule()
    sch.choose("how", ["a", "b"])
    trace = sch.trace.with_decisions({"how": None})
    message = 'line 2 of the trace leaves a choice open: how ~ choose("a", "b") @ "how"'
    with pytest.raises(ScheduleError, match="leaves a choice open") as info:
        ms.space(sch.program, trace)
    assert info.value.message == message


# --- what is completed, needed and kept


COMPLETES = "what `{}` completes in an iteration of loop `{}` is not a block of consecutive elements: {}"


def test_an_imperfect_tile_crosses_the_region() -> None:
    ctx = start(COPIED)
    first = cache_write(ctx, "C")
    reverse_compute_at(ctx, first, "i")
    split_primitive(ctx, "i", (const(2), None, const(2)))
    # A lower limit for some of the loops than for all: no primitive leaves one.
    block = query.find_block(ctx.func, first)
    whole, part = block.guards
    assert isinstance(part, Binary)
    lower = replace(block, guards=(whole, Binary(BinOp.LT, part.a, const(1))))
    ctx.func = query.replace_stmt(ctx.func, block, lower)
    second = cache_write(ctx, first)
    with refused(COMPLETES.format("C.C.write", "i_0", "an imperfect tile crosses it")):
        reverse_compute_at(ctx, second, "i_0")


def test_a_guard_of_a_window() -> None:
    ctx = start(BLUR)
    compute_at(ctx, "across", "y_down")
    store_at(ctx, "across", "root")
    loop = loops_around(ctx.func, "across")[-1]
    with refused(COMPLETES.format("across", loop, "a guard is not an upper bound")):
        reverse_compute_at(ctx, "down", loop)


def loops_around(func: object, block: str) -> list[str]:
    from metasched.ir import query

    return [x.var for x in query.loops_above(func, block)]  # type: ignore[arg-type]


def test_a_block_that_nothing_reads_any_more() -> None:
    text = "program f[N=4](A: f32[N], B: f32[N]) -> D: f32[N]:\n    twice: C[i] = A[i] * 2\n"
    ctx = start(f"{text}    D[i] = B[i] if i < 1 or i <= i else C[i]\n")
    copy = cache_read(ctx, "D", "C")
    with refused(f"nothing reads what `{copy}` computes"):
        compute_at(ctx, copy, "i_D")


def test_a_read_whose_direction_is_not_known() -> None:
    ctx = start(TURNED)
    with refused("the part of `B` that is read is not known: the sign of a coefficient depends on tile sizes"):
        compute_at(ctx, "twice", "j")


# Bindings and guards that primitives make are linear. Should one not be, it is said where.


def _unknown(*_: object) -> None:
    raise NotAffine("a product of loop variables")


def test_indices_that_are_not_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = start(DENSE_RELU)
    monkeypatch.setattr(written_regions, "linear", _unknown)
    with refused(COMPLETES.format("dense", "j", "a write index is not linear in the loops")):
        reverse_compute_at(ctx, "relu", "j")


def test_guards_that_are_not_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = start(DENSE_RELU)
    split(ctx, "i", 4)
    calls = count()
    # The two indices first, then the guard.
    monkeypatch.setattr(written_regions, "linear", lambda e, names: linear(e, names) if next(calls) < 2 else _unknown())
    with refused(COMPLETES.format("dense", "j", "a guard is not linear in the loops")):
        reverse_compute_at(ctx, "relu", "j")


def test_what_a_moved_block_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = start(STENCIL)
    monkeypatch.setattr(guards, "region", _unknown)
    with refused("what `double` computes is not known: a product of loop variables"):
        compute_at(ctx, "double", "i_sum3")


def test_what_a_reader_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = start(STENCIL)
    monkeypatch.setattr(read_regions, "region", _unknown)
    with refused("the part of `B` that is read is not known: a product of loop variables"):
        compute_at(ctx, "double", "i_sum3")


NUMBERS = """
program numbers[M=3, K=2]() -> (T: i64[M], F: i64[M]):
    threes: T[i < M] = sum[r < K](3)
    ones:   F[i < M] = 1 if i >= 1 else 2
"""


def test_padding_a_reduction_of_numbers() -> None:
    sch = schedule(NUMBERS)
    message = "pad_einsum: block `threes` reads nothing at `r`, so that padding would add terms"
    with fails(message, "leave `r` as it is with a padding of 1"):
        sch.pad_einsum(sch.get_block("threes"), [1, 4])


def test_decomposing_padding_without_a_copy() -> None:
    sch = schedule(NUMBERS)
    block = sch.get_block("ones")
    with fails("decompose_padding: block `ones` copies nothing: its values are numbers on both sides"):
        sch.decompose_padding(block, loops_of(sch, "ones")[0])


def test_vectorizing_a_loop_that_prefetches() -> None:
    sch = schedule(COPIED)
    (i,) = loops_of(sch, "C")
    sch.annotate(i, "prefetch", 1)
    hint = 'annotate a loop around it instead, after unannotate(i, "prefetch")'
    with fails('vectorize: "prefetch" of loop `i` is about iterations, and those of a vector are lanes', hint):
        sch.vectorize(i, lanes=8)


def test_moving_what_reads_parts() -> None:
    sch = schedule(COPIED, N=8)
    block = sch.get_block("C")
    parts = sch.loop_partition(loops_of(sch, "C")[0], points=[3])
    copy = sch.cache_write(sch.get_block("C.tail"), scope="local")
    assert len(parts) == 2
    assert block.label == "C"
    message = "`C` and `C.tail` each write a part of `C_local`, which `C.tail.C.write` reads"
    with fails(f"reverse_compute_at: {message}", "reverse_compute_at before loop_partition"):
        sch.reverse_compute_at(copy, parts[1])
