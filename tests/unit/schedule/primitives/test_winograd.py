from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.ir import query
from metasched.ir.node_base import Node
from metasched.ir.nodes import Const, Func
from metasched.ir.prologue import constants, divide
from metasched.ir.validate import validate
from metasched.measure.checking.arithmetic import Computation, arithmetic_of
from metasched.measure.checking.check import mismatch, prepare
from metasched.measure.checking.inputs import given_inputs
from metasched.operators import load
from metasched.permissions import Permission
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.primitives.fuse_reduction_epilogue import fuse_reduction_epilogue
from metasched.schedule.primitives.winograd import winograd
from metasched.schedule.trace import Trace
from metasched.target import Target
from tests.support.agreement import check_kernel
from tests.support.programs import DENSE_RELU
from tests.support.structural import body, refused, start

LINE = """
program line[L=8](X: f32[L + 2], const K: f32[3]) -> Y: f32[L]:
    conv: Y[h < L] = sum[r](X[h + r] * K[r])
"""
PLANE = """
program plane[H=5, W=6, C=3, O=2, R=3, S=2, T=f32](X: T[H, W, C], const K: T[R, S, C, O]) -> Y: T[P, Q, O]:
    let P = H - R + 1
    let Q = W - S + 1
    conv: Y[h < P, w < Q, o] = sum[r, s, c](X[h + r, w + s, c] * K[r, s, c, o])
"""


def transformed(text: str, tile: int, **params: int) -> tuple[ms.Program, ms.Schedule]:
    program = ms.parse_program(text, **params)
    return program, applied(program, tile)


def applied(program: ms.Program, tile: int) -> ms.Schedule:
    sch = ms.Schedule(program, seed=0)
    sch.winograd(sch.get_block("conv"), tile)
    validate(sch.func)
    return sch


def wrong(program: ms.Program, sch: ms.Schedule, func: Func | None = None) -> list[str]:
    """What the machine code of a transformed program computes that is further off than rounding is."""
    by = arithmetic_of(str(sch.trace)).computation_of(program)
    cases = prepare(program.func, given_inputs(program.func, None, seed=0), seed=0, by=by)
    out = []
    kernel = Kernel(build(sch.func if func is None else func, Target.detect(threads=2)))
    for case in (cases.integers, cases.random):
        result = kernel(*case.inputs)
        out.append(mismatch(np.asarray(result), case.expected[0], case.tolerance[0]))
    return [problem for problem in out if problem is not None]


def test_along_one_axis() -> None:
    ctx = start(LINE)
    before = ctx.func
    assert winograd(ctx, "conv", 2) == ("conv.K.winograd", "conv.X.winograd", "conv.inverse")
    assert (
        body(ctx.func)
        == """
temp K_winograd: f32[4]
temp X_winograd: f32[4, 4]
temp Y_products: f32[4, 4]
for ht in 4:
    conv.K.winograd: K_winograd[ht] = -K[0] if ht == 0 else K[0] * 0.5 + K[1] * 0.5 + K[2] * 0.5 if ht == 1 else K[0] * 0.5 + K[2] * 0.5 - K[1] * 0.5 if ht == 2 else K[2]
for ht_conv_X_winograd, h_conv_X_winograd in grid(4, 4):
    conv.X.winograd: X_winograd[ht, h] = X[h*2 + 2] - X[h*2] if ht == 0 else X[h*2 + 1] + X[h*2 + 2] if ht == 1 else X[h*2 + 2] - X[h*2 + 1] if ht == 2 else X[h*2 + 3] - X[h*2 + 1]
        with ht = ht_conv_X_winograd, h = h_conv_X_winograd
for ht_conv, h_conv in grid(4, 4):
    conv: Y_products[ht, h] = X_winograd[ht, h] * K_winograd[ht]  with ht = ht_conv, h = h_conv
for h_conv_inverse in 8:
    conv.inverse: Y[h] = Y_products[0, h // 2] + Y_products[1, h // 2] + Y_products[2, h // 2] if h % 2 == 0 else Y_products[1, h // 2] + Y_products[3, h // 2] - Y_products[2, h // 2]
        with h = h_conv_inverse
"""  # noqa: E501
    )
    x, k = np.arange(10, dtype=np.float32), np.array([2, -4, 6], np.float32)
    np.testing.assert_array_equal(reference(before)(x, k), reference(ctx.func)(x, k))


FLAT = """
program flat[H=4, C=3](X: f32[(H + 2) * C], K: f32[3, C]) -> Y: f32[H]:
    conv: Y[h < H] = sum[r, c](X[(h + r) * C + c] * K[r, c])
"""
AT_X, AT_K = "X[h + r, w + s, c]", "K[r, s, c, o]"
CONVOLUTIONS = {
    "one row": (LINE, {"L": 11}, 4),
    "two windows": (PLANE, {"H": 9, "W": 8}, 2),
    "longer windows": (PLANE, {"H": 8, "W": 8, "R": 5, "S": 4}, 3),
    "the longest window": (PLANE, {"H": 9, "W": 9, "R": 7, "S": 7}, 2),
    "along columns alone": (PLANE, {"R": 1, "S": 3}, 6),
    "a tile larger than the result": (PLANE, {"H": 4, "W": 5, "R": 3, "S": 3}, 6),
    "doubles": (PLANE.replace("T=f32", "T=f64"), {}, 3),
    "the filter first": (
        PLANE.replace("X[h + r, w + s, c] * K[r, s, c, o]", "K[r, s, c, o] * X[h + r, w + s, c]"),
        {},
        2,
    ),
    "the filter turned round": (
        PLANE.replace("K[r, s, c, o])", "K[R - 1 - r, s, c, o])").replace("sum[r,", "sum[r < R,"),
        {},
        2,
    ),
    "against the window": (PLANE.replace("X[h + r,", "X[h - r + R - 1,"), {}, 2),
    "a part of the channels": (
        PLANE.replace("w + s, c] *", "w + s, c + 1] *").replace("r, s, c]", "r, s, c < 2]"),
        {},
        2,
    ),
    "a padding where it is read": (
        PLANE.replace("X[h + r, w + s, c]", "(X[h + r, w + s - 1, c] if w + s >= 1 else 0)"),
        {},
        4,
    ),
    "a padding that is not there": (PLANE.replace("sum[r, s, c]", "sum[r < R, s < S, c < C if w + s >= 1]"), {}, 4),
    "halves in f32": (
        PLANE.replace("X: T[", "X: bf16[").replace("X[h + r, w + s, c]", "f32(X[h + r, w + s, c])"),
        {},
        4,
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_it_gives_the_results_of_the_convolution(name: str) -> None:
    text, params, tile = CONVOLUTIONS[name]
    program, sch = transformed(text, tile, **params)
    assert wrong(program, sch) == []
    assert Trace.parse(str(sch.trace)).apply_to(program).func == sch.func


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("conv1d_ncl", {"N": 2, "L": 11, "CI": 3, "CO": 4, "R": 3, "S": 1, "P": 1}),
        ("conv2d_nhwc", {"N": 1, "H": 5, "W": 4, "CI": 4, "CO": 2, "R": 3, "P": 1, "G": 2}),
        ("conv3d_ndhwc", {"D": 1, "H": 3, "W": 3, "CI": 2, "CO": 3, "R": 3, "S": 1, "P": 1}),
        ("conv2d_transpose_nchw", {"N": 1, "H": 5, "W": 6, "CI": 2, "CO": 3, "R": 3, "S": 1, "P": 1}),
        ("depthwise_conv2d_nhwc", {"N": 1, "H": 7, "W": 7, "C": 5, "R": 3, "S": 1, "P": 1}),
    ],
)
def test_operators_of_the_library(name: str, params: dict[str, int]) -> None:
    program = load(name, **params)
    sch = ms.Schedule(program, seed=0)
    block = next(n for n in sch.block_names() if sch.describe(sch.get_block(n)).reduces)
    sch.winograd(sch.get_block(block), 2)
    assert wrong(program, sch) == []


def test_random_convolutions_in_machine_code() -> None:
    rng = np.random.default_rng(3)
    for _ in range(2):
        r, s = (int(n) for n in rng.integers(2, 5, 2))
        sizes = {"R": r, "S": s, "H": r + int(rng.integers(1, 9)), "W": s + int(rng.integers(1, 9))}
        program, sch = transformed(PLANE, int(rng.choice([2, 3, 4, 5])), **sizes, C=int(rng.integers(1, 6)))
        check_kernel(ms.compile(program, trace=sch.trace), program)


def test_a_constant_filter_is_transformed_ahead_of_calls() -> None:
    program, sch = transformed(PLANE, 2)
    division = divide(sch.func, constants(sch.func))
    assert division.prologue is not None
    assert [b.name for b in query.blocks(division.prologue)] == ["conv.K.rows", "conv.K.winograd"]
    kernel = ms.compile(program, trace=sch.trace)
    rng = np.random.default_rng(0)
    x, k = (rng.random(tuple(int(n.value) for n in b.shape), np.float32) for b in program.inputs)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(kernel.pack(K=k)(x), kernel(x, k))


@pytest.mark.parametrize(("old", "new"), [(0.25, 0.26), (4.0, 4.1), (5.0, 5.1)])
def test_a_wrong_transform_is_no_rounding(old: float, new: float) -> None:
    program, sch = transformed(PLANE, 4, H=10, W=10, C=16)

    def changed(node: Node) -> Node:
        is_old = isinstance(node, Const) and node.type.is_float and node.value == old
        return Const(new, DType.F32) if is_old else node.map(changed)

    other = sch.func.map(changed)
    assert other != sch.func
    assert len(wrong(program, sch, other)) == 2


def test_the_tolerance_is_for_what_was_transformed_only() -> None:
    program, sch = transformed(PLANE, 4)
    given = given_inputs(program.func, None, seed=0)
    plain = prepare(program.func, given, seed=0)
    loose = prepare(program.func, given, seed=0, by=arithmetic_of(str(sch.trace)).computation_of(program))
    assert plain.integers.tolerance == (None,)
    assert loose.integers.tolerance[0] is not None
    (near,), (far,) = plain.random.tolerance, loose.random.tolerance
    assert near is not None
    assert far is not None
    assert (far / near).min() > 10
    assert (far / near).max() < 1000
    unrelated = ms.Schedule(program)
    unrelated.parallel(unrelated.get_loops(unrelated.get_block("conv"))[0])
    assert arithmetic_of(str(unrelated.trace)).computation_of(program) == Computation(program.func)


def done() -> ms.Schedule:
    return transformed(PLANE, 2)[1]


def test_it_needs_permission() -> None:
    program, sch = transformed(PLANE, 2)
    assert sch.trace.permissions == {Permission.WINOGRAD}

    @ms.rule
    def unasked(sch: ms.Schedule, block: ms.BlockRV) -> None:
        """Transform without asking."""
        sch.winograd(block, 2)

    with pytest.raises(ms.ScheduleError, match='"winograd" lets results differ, and is not allowed'):
        len(ms.space(program, [unasked]))
    assert len(ms.space(program, [unasked], allow={"winograd"})) == 1


@pytest.mark.parametrize("tile", [0, 1, 7, 100])
def test_tiles_of_no_size(tile: int) -> None:
    with refused(f"tiles of {tile} results of block `conv`, whose window has 3 elements"):
        winograd(start(LINE), "conv", tile)


REFUSED = {
    "not a sum": (LINE.replace("sum[r]", "max[r]"), "block `conv` is not a sum"),
    "integers": (LINE.replace("f32", "i32"), "block `conv` sums in i32, not in f32 or f64"),
    "no product": (
        LINE.replace("X[h + r] * K[r]", "X[h + r] + K[r]"),
        "block `conv` does not sum products of two operands",
    ),
    "a stride": (
        LINE.replace("X[h + r]", "X[2*h + r]").replace("X: f32[L + 2]", "X: f32[2*L + 2]"),
        "no window of 2 to 7 elements slides over an operand of block `conv`, one element at a time",
    ),
    "a dilation": (
        LINE.replace("X[h + r]", "X[h + 2*r]").replace("X: f32[L + 2]", "X: f32[L + 4]"),
        "no window of 2 to 7 elements slides over an operand of block `conv`, one element at a time",
    ),
    "two reads": (
        LINE.replace("X[h + r] *", "(X[h + r] + X[h]) *"),
        "a factor of the products of block `conv` has 2 reads, not one",
    ),
    "a window and more in an index": (
        FLAT,
        "block `conv` reads `X` at `hx` and, in the same dimension or condition, at other variables",
    ),
    "a condition on more": (
        PLANE.replace("sum[r, s, c]", "sum[r < R, s < S, c < C if w + s + o >= 1]"),
        "which terms block `conv` has depends on more than its operands' places",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_convolution(name: str) -> None:
    text, message = REFUSED[name]
    with refused(message):
        winograd(start(text), "conv", 2)


def test_a_matrix_product_has_no_window() -> None:
    with refused("no window of 2 to 7 elements slides over an operand of block `dense`, one element at a time"):
        winograd(start(DENSE_RELU), "dense", 2)


def test_its_loops_are_untransformed() -> None:
    sch = ms.Schedule(ms.parse_program(PLANE))
    block = sch.get_block("conv")
    sch.split(sch.get_loops(block)[0], [None, 2])
    with pytest.raises(ms.ScheduleError, match="the loops of block `conv` are not its iteration variables any more"):
        sch.winograd(block, 2)


def test_its_sum_starts_from_0() -> None:
    biased = LINE.replace("-> Y", "-> Z") + "    bias: Z[h] = Y[h] + 1\n"
    ctx = start(biased)
    fuse_reduction_epilogue(ctx, "conv", "bias")
    with refused("the sum of block `conv` does not start from 0"):
        winograd(ctx, "conv", 2)
