from __future__ import annotations

import pytest

import metasched as ms
from metasched.ir.nodes import LoopKind
from metasched.schedule.analysis import BlockInfo, describe_block
from metasched.schedule.handlers import DrawFromPrior, Symbolic
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL, ROWS, STENCIL
from tests.support.schedules import loops_of, schedule

DIVIDING = """
program dividing[N=6](A: f32[N], I: i64[N]) -> C: f32[N]:
    half: H[i] = A[i] / 2
    odd:  O[i] = exp(H[i]) + sqrt(H[i])
    last: C[i] = O[i] if I[i] % 2 == 0 else O[N - 1 - i]
"""

OF_FLOATS = """
program floats[N=6](A: f32[N], I: i32[N]) -> (C: u8[N], D: u8[N], E: i32[N], F: f32[2], G: bool[N]):
    C[i] = u8(A[i] / 3.0)
    D[i] = u8(max(A[i], 0.5))
    E[i] = max(I[i] // 3, 2)
    F[j] = max[i](A[i])
    G[i] = i32(A[i]) > I[i]
"""


def described(text: str, block: str) -> BlockInfo:
    return describe_block(schedule(text).func, block)


def test_a_reduction() -> None:
    info = described(DENSE_RELU, "dense")
    assert info.reduces
    assert info.initialises
    assert not info.output
    assert not info.elementwise
    assert info.trivial
    assert [(it.name, it.reduces, it.extent, it.loops) for it in info.iters] == [
        ("i", False, 11, ("i",)),
        ("j", False, 9, ("j",)),
        ("k", True, 7, ("k",)),
    ]
    assert [it.name for it in info.spatial] == ["i", "j"]
    assert [it.name for it in info.reduction] == ["k"]
    assert (info.instances, info.size(info.spatial)) == (11 * 9 * 7, 99)
    assert [(r.buffer, r.uses) for r in info.reads] == [
        ("A", (frozenset("i"), frozenset("k"))),
        ("B", (frozenset("k"), frozenset("j"))),
    ]
    assert info.reads[0].iters == frozenset("ik")
    assert (info.readers, info.sources) == (("relu",), ())
    assert info.kinds == (LoopKind.SERIAL,) * 3


def test_what_writes_an_output() -> None:
    info = described(DENSE_RELU, "relu")
    assert info.output
    assert info.elementwise
    assert not info.reduces
    assert (info.readers, info.sources) == ((), ("dense",))
    assert info.loops == ("i_relu", "j_relu")


@pytest.mark.parametrize(
    ("text", "block", "elementwise"),
    [
        (ROWS, "apart", True),  # a row statistic used for each element
        (STENCIL, "double", True),
        (STENCIL, "sum3", False),  # its neighbours
        (CONV, "pad", False),  # shifted
        (RELU_PAD_MATMUL, "pad", True),
        (DIVIDING, "last", False),  # backwards
    ],
)
def test_elementwise(text: str, block: str, elementwise: bool) -> None:
    assert described(text, block).elementwise is elementwise


def test_conditions_functions_and_divisions() -> None:
    assert described(CONV, "pad").conditional
    assert not described(DENSE_RELU, "relu").conditional
    assert described(DIVIDING, "odd").calls == ("exp", "sqrt")
    assert [described(DIVIDING, b).divides for b in ("half", "odd", "last")] == [True, False, True]
    assert described(DENSE_RELU, "relu").compares
    assert not described(DENSE_RELU, "dense").compares
    assert [described(OF_FLOATS, b).floats for b in "CDEFG"] == [True, True, False, True, False]


def test_a_scheduled_block_is_not_trivial() -> None:
    sch = schedule()
    i, j, _ = loops_of(sch, "dense")
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(i0, j, i1)
    sch.parallel(i0)
    info = describe_block(sch.func, "dense")
    assert not info.trivial
    assert info.loops == ("i_0", "j", "i_1", "k")
    assert info.kinds[0] is LoopKind.PARALLEL
    assert info.iters[0].loops == ("i_0", "i_1")
    assert [it.name for it in info.iter_of("i_1")] == ["i"]
    assert describe_block(sch.func, "relu").trivial


def test_a_fused_loop_drives_several_variables() -> None:
    sch = schedule()
    i, j, _ = loops_of(sch, "dense")
    fused = sch.fuse(i, j)
    info = sch.describe(sch.get_block("dense"))
    assert [it.name for it in info.iter_of(sch.name_of(fused))] == ["i", "j"]


def test_a_decomposed_reduction_no_longer_initialises() -> None:
    sch = schedule()
    sch.decompose_reduction(sch.get_block("dense"), loops_of(sch, "dense")[2])
    info = sch.describe(sch.get_block("dense"))
    assert info.reduces
    assert not info.initialises


def test_extents_that_depend_on_tile_sizes() -> None:
    sch = schedule(RELU_PAD_MATMUL, handler=Symbolic(DrawFromPrior(0)))
    *_, k = loops_of(sch, "matmul")
    k0, _ = sch.split(k, sch.sample_tile(k))
    partial = sch.rfactor(k0)
    info = sch.describe(partial)
    assert None in [it.extent for it in info.iters]
    assert info.instances is None
    assert info.size(tuple(it for it in info.iters if it.extent is not None)) == 12


def test_reads_of_one_place_have_one_number() -> None:
    text = "program p(A: f32[9], B: f32[8]) -> C: f32[8]:\n    C[i] = A[i] * B[i] + A[i + 1] * A[i]"
    reads = described(text, "C").reads
    assert [(read.buffer, read.place) for read in reads] == [("A", 0), ("B", 1), ("A", 2), ("A", 0)]


def test_a_block_that_is_gone() -> None:
    with pytest.raises(KeyError):
        describe_block(schedule().func, "nothing")


def test_a_remainder_of_nothing_is_none() -> None:
    text = "program p(I: i64[4]) -> Y: i64[2]:\n    Y[i < 2] = 7 if i % 0 == I[i] else 3\n"
    assert described(text, "Y").remainders == ()


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    text = "program p(A: u8[8, 16], const B: i8[16, 4], const C: u8[]) -> Y: i32[8, 4]:\n    Z: i32[4]\n"
    text += "    Z[o] = sum[k < 16](i32(B[k, o]) * i32(C[]))\n"
    text += "    Y[i, o] = sum[k < 16](i32(A[i, k]) * i32(B[k, o]) - Z[o])\n"
    func = ms.parse_program(text).func
    assert describe_block(func, "Z").once
    assert not describe_block(func, "Y").once
    assert not describe_block(ms.parse_program(text.replace("const C", "C")).func, "Z").once
