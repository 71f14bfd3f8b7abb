"""From definitions to IR."""

from __future__ import annotations

import pytest

from metasched.dtypes import DType
from metasched.errors import LanguageError
from metasched.ir.nodes import Block, Const, For, IterKind, Reducer, Scalar, Seq, Stmt
from metasched.ir.validate import validate
from metasched.lang import parse_program
from tests.support.stages import blocks, mistakes, of_stages, shape

CONV = """
program conv2d[H=14, W=14, CI=8, CO=4, R=3, S=1, P=1](
        X: f32[1, H, W, CI], const K: f32[R, R, CI, CO]) -> Y: f32[1, OH, OW, CO]:
    let OH = (H + 2*P - R) // S + 1
    let OW = (W + 2*P - R) // S + 1
    Xp: f32[1, H + 2*P, W + 2*P, CI]
    pad:  Xp[n, h, w, c] = X[n, h - P, w - P, c] if h >= P and h < H + P and w >= P and w < W + P else 0
    conv: Y[n, h, w, o] = sum[r, s, c](Xp[n, S*h + r, S*w + s, c] * K[r, s, c, o])
"""


def test_nests_of_dense_relu() -> None:
    program = parse_program(
        "program p[N=2, M=3, K=5](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:\n"
        "  dense: C[i, j] = sum[k](A[i, k] * B[k, j])\n"
        "  relu: D[i, j] = max(C[i, j], 0)\n"
    )
    func = program.func
    assert [b.name for b in func.inputs + func.outputs + func.temps] == ["A", "B", "D", "C"]
    assert func.order == ("A", "B")
    assert isinstance(func.body, Seq)
    names = []
    for nest in func.body.stmts:
        stmt: Stmt = nest
        loops = []
        while isinstance(stmt, For):
            loops.append(stmt.var)
            stmt = stmt.body
        assert isinstance(stmt, Block)
        names.append((stmt.name, loops))
    assert names == [("dense", ["i", "j", "k"]), ("relu", ["i_relu", "j_relu"])]
    dense, relu = blocks(program)["dense"], blocks(program)["relu"]
    assert [iv.kind for iv in dense.iters] == [IterKind.SPATIAL, IterKind.SPATIAL, IterKind.REDUCE]
    assert (dense.reducer, dense.init) == (Reducer.SUM, Const(0.0, DType.F32))
    assert (relu.reducer, relu.init) == (None, None)
    assert [iv.name for iv in relu.iters] == ["i", "j"]


def test_convolution() -> None:
    program = parse_program(CONV)
    assert shape(program, "Y") == [1, 14, 14, 4]
    assert shape(program, "Xp") == [1, 16, 16, 8]
    assert program.func.inputs[1].const
    assert shape(parse_program(CONV, S=2), "Y") == [1, 7, 7, 4]


@pytest.mark.parametrize("size", [1, 7, 127, 1009])
def test_awkward_extents(size: int) -> None:
    assert shape(parse_program(CONV, H=size, W=size), "Y") == [1, size, size, 4]


@pytest.mark.parametrize(
    "text",
    [
        CONV,
        "program p(A: f32[4]) -> (B: f32[4], s: f32[]):\n  B[i] = A[3 - i]\n  s[] = sum[i](B[i] if i < 3 else 1)\n",
        "program p(A: f32[1, 7]) -> B: f32[7]:\n  t: T[i, j] = A[i, j] * 2\n  B[j] = max[i](T[i, j])\n",
    ],
)
def test_what_comes_out_is_well_formed(text: str) -> None:
    validate(parse_program(text).func)


def test_unused_names_are_errors() -> None:
    with pytest.raises(LanguageError) as caught:
        parse_program("program p[N=4, M=3](A: f32[N], B: f32[N]) -> C: f32[N]:\n  C[i] = A[i]\n")
    assert [d.message for d in caught.value.diagnostics] == [
        "the parameter `M` is never used",
        "the input `B` is never read",
    ]


def test_every_mistake_is_told_at_once_and_in_order() -> None:
    found = mistakes("T[i] = B[i] + q", "C[i, j] = A[i, j + 1] + exq(T[i]) + R[j]")
    assert [message.split()[0] for message in found] == ["`q`", "`A[i,", "`exq`", "`R`"]


def test_one_mistake_is_told_once() -> None:
    """What follows from a wrong definition is not reported as well."""
    assert mistakes("T[i] = Q[i]", "C[i, j] = A[i, j] + T[i] * B[i]") == ["`Q` is not declared"]
    assert mistakes("T: f32[Q]", "T[i] = B[i]", "C[i, j] = A[i, j] + T[i]") == ["`Q` is not a size"]


def test_several_outputs_and_scalars() -> None:
    program = of_stages(
        "T[i] = alpha * X[i]",
        "m[] = max[i](T[i])",
        signature="X: f32[5], alpha: f32) -> (T: f32[5], m: f32[])",
    )
    assert [b.name for b in program.outputs] == ["T", "m"]
    assert program.scalars == (Scalar("alpha", DType.F32),)
    assert program.func.order == ("X", "alpha")
    assert program.func.temps == ()
