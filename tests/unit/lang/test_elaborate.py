"""From definitions to IR."""

from __future__ import annotations

import math

import pytest

from metasched.dtypes import DType
from metasched.errors import LanguageError
from metasched.ir.nodes import Block, Call, Cast, Const, Expr, For, IterKind, Load, Reducer, Scalar, Select, Seq, Stmt
from metasched.ir.program import Program
from metasched.ir.validate import validate
from metasched.lang import parse_program

CONV = """
program conv2d[H=14, W=14, CI=8, CO=4, R=3, S=1, P=1](
        X: f32[1, H, W, CI], const K: f32[R, R, CI, CO]) -> Y: f32[1, OH, OW, CO]:
    let OH = (H + 2*P - R) // S + 1
    let OW = (W + 2*P - R) // S + 1
    Xp: f32[1, H + 2*P, W + 2*P, CI]
    pad:  Xp[n, h, w, c] = X[n, h - P, w - P, c] if h >= P and h < H + P and w >= P and w < W + P else 0
    conv: Y[n, h, w, o] = sum[r, s, c](Xp[n, S*h + r, S*w + s, c] * K[r, s, c, o])
"""


def blocks(program: Program) -> dict[str, Block]:
    return {node.name: node for node in program.func.body.walk() if isinstance(node, Block)}


def shape(program: Program, buffer: str) -> list[int]:
    return [int(n.value) for n in program.func.buffer(buffer).shape if isinstance(n, Const)]


def of_stages(*lines: str, signature: str = "A: f32[8, 4], B: f32[8]) -> C: f32[8, 4]") -> Program:
    return parse_program("\n    ".join([f"program p({signature}:", *lines]))


def mistakes(*lines: str, signature: str = "A: f32[8, 4], B: f32[8]) -> C: f32[8, 4]") -> list[str]:
    """The messages about a program whose inputs are used, so that they are about its stages."""
    with pytest.raises(LanguageError) as caught:
        of_stages(*lines, signature=signature)
    return [d.message for d in caught.value.diagnostics if "never read" not in d.message]


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
    ("reducer", "dtype", "init"),
    [
        ("sum", "f32", 0.0),
        ("prod", "f64", 1.0),
        ("max", "f32", -math.inf),
        ("min", "f32", math.inf),
        ("sum", "i32", 0),
        ("prod", "i64", 1),
        ("max", "i8", -128),
        ("min", "i8", 127),
        ("max", "u8", 0),
        ("min", "u8", 255),
    ],
)
def test_reductions_start_from_what_changes_nothing(reducer: str, dtype: str, init: float) -> None:
    program = of_stages(f"s[] = {reducer}[k](A[k])", signature=f"A: {dtype}[5]) -> s: {dtype}[]")
    block = blocks(program)["s"]
    assert block.init == Const(init, DType(dtype))
    assert block.store.indices == ()


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


# --- extents ---------------------------------------------------------------------------------------------


def test_an_extent_from_a_range() -> None:
    program = of_stages("T[i, k < 6] = A[i, k] if k < 4 else 0", "C[i, j] = T[i, j + 2] + B[i]", signature=_SIGNATURE)
    assert shape(program, "T") == [8, 6]


def test_an_extent_from_a_guarded_read_where_nothing_else_says() -> None:
    program = of_stages("T[i, k] = A[i, k] if k < 3 else 0", "C[i, j] = T[i, j] + B[i]")
    assert shape(program, "T") == [8, 4]


def test_a_guarded_read_does_not_overrule_a_declaration() -> None:
    program = of_stages("T: f32[8, 6]", "T[i, k] = A[i, k] if k < 4 else 0", "C[i, j] = T[i, j + 2] + B[i]")
    assert shape(program, "T") == [8, 6]


def test_a_guard_about_other_indices_does_not_matter() -> None:
    assert mistakes("T[i, k < 6] = A[i, k] if i < 4 else 0", "C[i, j] = T[i, j] + B[i]") == [
        "`A[i, k]` leaves `A` in dimension 1, by 2 above: `k` goes from 0 to 5, and valid are 0 to 3"
    ]


@pytest.mark.parametrize(
    "stencil",
    [
        "Y[i < N - 2, j < N - 2] = X[i, j+1] + X[i+2, j+1]",
        "Y[i, j] = X[i, j+1] + X[i+2, j+1]",
        "Y[i, j] = X[i, j] + X[i+2, j]",
        "Y[i, j] = sum[k < 3](X[i, k] * X[k, j])",
        "Y[i, j] = sum[k < 3](X[i, k] * X[j, k] if k > 1 else X[k, k])",
    ],
)
def test_what_is_written_wins_over_what_is_inferred(stencil: str) -> None:
    program = parse_program(f"program p[N=16](X: f32[N, N]) -> Y: f32[N - 2, N - 2]:\n  {stencil}\n")
    validate(program.func)
    assert [it.extent for it in blocks(program)["Y"].iters][:2] == [Const(14), Const(14)]
    temporary = parse_program(
        "program p[N=16](X: f32[N]) -> Y: f32[N - 4]:\n  T: f32[N - 2]\n"
        "  T[i] = X[i] + X[i + 2]\n  Y[i] = T[i] + T[i + 2]\n"
    )
    assert shape(temporary, "T") == [14]


def test_what_is_written_twice_agrees() -> None:
    (message,) = mistakes("C[i < 7, j] = A[i, j] + B[i]")
    assert message == "the index `i` goes to 7 in `i < 7` and to 8 in the declaration of `C`"


def test_extents_that_do_not_agree_have_a_way_out() -> None:
    with pytest.raises(LanguageError, match=r"or the range is written, `k < 4` where the reduction names it"):
        of_stages("C[i, j] = sum[k](A[i, k] * A[k, j] * B[i])")
    with pytest.raises(LanguageError, match=r"or the range is written, `i < 4` on the left-hand side"):
        of_stages("T[i] = A[i, 0] + A[0, i]", "C[i, j] = T[0] + A[i, j] + B[i]")


def test_a_read_outside_by_what_is_written() -> None:
    with pytest.raises(LanguageError, match=r"`i` goes as far as its range or a declaration says"):
        of_stages("C[i, j] = A[j, i] + B[i]")


def test_ranges_of_reductions() -> None:
    program = of_stages("C[i, j] = sum[r < 3](A[i, 1 + (j + r) % 3]) ", signature="A: f32[8, 4]) -> C: f32[8, 4]")
    assert [int(iv.extent.value) for iv in blocks(program)["C"].iters if isinstance(iv.extent, Const)] == [8, 4, 3]


# --- bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "A[i, j - 1] if j > 0 else 0",
        "A[i, j - 1] if not j < 1 else 0",
        "0 if j < 1 else A[i, j - 1]",
        "0 if j < 1 or i > 3 else A[i + 4, j - 1]",
        "A[i + j, j] if i + j < 8 else 0",
        "A[i + j, j] if 7 >= j + i else 0",
        "A[i - j, j] if i >= j else 0",
        "A[2 * i - j, j] if 2 * i >= j and 2 * i < j + 8 else 0",
        "A[i, (i - j) // 2] if i >= j and i - j < 8 else 0",
        "A[i, j % 4]",
        "A[i, (i + j) % 4]",
        "A[i // 2 * 2, j]",
        "A[i, min(i, 3)]",
        "A[i, max(j - 2, 0)]",
        "A[i, j + 1] if j == 2 else 0",
        "A[7 - i, 3 - j]",
        "A[i, j + 9] if 1 > 2 else 0",
        "A[i, j - 1] if j >= 1 and B[i] > 0 else 0",
    ],
)
def test_reads_inside(value: str) -> None:
    of_stages(f"C[i, j] = {value} + B[i]")


@pytest.mark.parametrize(
    ("read", "told"),
    [
        ("A[i, j - 1]", "1 below"),
        ("A[i + 1, j]", "1 above"),
        ("A[i, i - 1]", "1 below and 3 above"),
        ("A[i, j - 1] if i > 0 else 0", "1 below"),
        ("A[i, j - 1] if j > 0 or i > 0 else 0", "1 below"),
        ("A[i, j - 1] if j < 1 else 0", "1 below"),
        ("A[i, j * j]", "6 above"),
        ("A[i, (i + j) // 2]", "2 above"),
        ("A[i, j + 1] if B[i] > 0 else 0", "1 above"),
    ],
)
def test_reads_outside(read: str, told: str) -> None:
    (message,) = mistakes(f"C[i, j] = ({read}) + B[i]")
    assert f"by {told}" in message


def test_a_scalar_is_not_bounded() -> None:
    (message,) = mistakes("C[i, j] = A[i, n]", signature="A: f32[8, 4], n: i64) -> C: f32[8, 4]")
    assert "any amount below and any amount above" in message
    of_stages("C[i, j] = A[i, n] if n >= 0 and n < 4 else 0", signature="A: f32[8, 4], n: i64) -> C: f32[8, 4]")


# --- types -----------------------------------------------------------------------------------------------

_SIGNATURE = "A: f32[8, 4], B: f32[8]) -> C: f32[8, 4]"
_MIXED = "A: f32[8, 4], B: i32[8]) -> C: f32[8, 4]"


def value_of(value: str, signature: str = _SIGNATURE) -> Expr:
    return blocks(of_stages(f"C[i, j] = {value}", signature=signature))["C"].store.value


def test_literals_take_the_type_of_the_context() -> None:
    for text, constant in [("0", 0.0), ("0.5", 0.5), ("(2 * 3)", 6.0), ("(1 / 4)", 0.25), ("sqrt(4)", 2.0)]:
        total = value_of(f"A[i, j] * {text} + B[i]")
        assert Const(constant, DType.F32) in total.walk()


def test_sizes_are_numbers_too() -> None:
    program = parse_program("program p[N=4](A: f32[N]) -> C: f32[N]:\n  C[i] = A[i] / N + 1 / sqrt(N)\n")
    constants = {n.value for n in blocks(program)["C"].store.value.walk() if isinstance(n, Const) and n.type.is_float}
    assert constants == {4.0, 0.5}


def test_conditionals_of_literals() -> None:
    value = value_of("A[i, j] + B[i] if i == j else (1 if i < 3 else 0)")
    assert isinstance(value, Select)
    assert isinstance(value.otherwise, Select)
    assert value.otherwise.dtype is DType.F32


def test_a_condition_known_now_leaves_one_side() -> None:
    assert isinstance(value_of("A[i, j] if 2 > 1 else B[i]", "A: f32[8, 4], B: f32[8]) -> C: f32[8, 4]"), Load)


def test_casts() -> None:
    value = value_of("A[i, j] * f32(B[i]) + f32(i)", _MIXED)
    assert {n.type for n in value.walk() if isinstance(n, Cast)} == {DType.F32}
    assert not [n for n in value_of("f32(A[i, j]) + B[i]").walk() if isinstance(n, Cast)]


def test_integer_programs() -> None:
    signature = "X: u8[4], Y: i8[4]) -> s: i32[]"
    program = of_stages("s[] = sum[k](i32(X[k]) * i32(Y[k]))", signature=signature)
    assert blocks(program)["s"].init == Const(0, DType.I32)


def test_math_functions() -> None:
    value = value_of("exp(A[i, j]) + pow(B[i], 2)")
    calls = [n for n in value.walk() if isinstance(n, Call)]
    assert [(c.func, c.type) for c in calls] == [("exp", DType.F32), ("pow", DType.F32)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("A[i, j] + B[i]", "`B[i]` is i32 where f32 is needed"),
        ("A[i, j] + f32(B[i] + 0.5)", "`0.5` is not a whole number where i32 is needed"),
        ("A[i, j] + f32(B[i] / 2)", "`/` is not defined on i32, in `B[i] / 2`"),
        ("A[i, j] // 2 + f32(B[i])", "`//` is not defined on f32, in `A[i, j] // 2`"),
        ("A[i, j] + i", "`i` is i64 where f32 is needed"),
        ("A[i, j] if B[i] else 0", "`B[i]` is i32 where bool is needed"),
        ("A[i, j] > 0", "`A[i, j] > 0` is bool where f32 is needed"),
        ("A[i, j] + (B[i] > 0)", "`B[i] > 0` is bool where f32 is needed"),
        ("exp(B[i]) + A[i, j]", "`exp` is not defined on i32"),
        ("exp(A[i, j], 2)", "`exp` takes 1 argument, not 2"),
        ("max(A[i, j])", "`max` takes 2 arguments, not 1"),
        ("expp(A[i, j])", "`expp` is not a function"),
        ("sum(A[i, j])", "`sum` is not a function"),
        ("A(i, j)", "`A` is not a function"),
        ("A + f32(B[i])", "`A` is a tensor and needs its indices"),
        ("A[i] + f32(B[i])", "`A[i]` has 1 index, and `A` has 2 dimensions: [8, 4]"),
        ("C[i, j] + 1", "`C` is read by the stage that defines it"),
        ("Q[i] + 1", "`Q` is not declared"),
        ("q + 1", "`q` is not declared"),
        ("A[i, i32(B[i])]", "nothing says that `i32(B[i])` stays inside `A`, whose dimension 1 has 4 elements"),
        ("A[i, j // (i + 1)]", "the index `j // (i + 1)` divides by what may not be positive"),
        ("A[i, j] * (1 // 0)", "`1 // 0` divides by zero"),
        ("A[i, j] * log(0)", "`log(0)` has no value: outside the function's domain"),
        ("f32(B[i] + 3000000000)", "3000000000 does not fit in i32, which goes from -2147483648 to 2147483647"),
        ("-(i < 3)", "`-(i < 3)` negates a bool"),
    ],
)
def test_wrong_expressions(value: str, message: str) -> None:
    assert message in mistakes(f"C[i, j] = {value}", signature=_MIXED)


# --- definitions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["C[i, j] = A[i, j]", "C[i, j] = A[i, j]"], "`C` is computed twice: first on line 2"),
        (["l: T[i] = B[i]", "l: C[i, j] = A[i, j] + T[i]"], "two stages are named `l`: first on line 2"),
        (["A[i, j] = 1", "C[i, j] = A[i, j]"], "`A` is an input and cannot be computed"),
        (["C[i, j] = T[i] + A[i, j]", "T[i] = B[i]"], "`T` is read before the stage that defines it"),
        (["T[i] = B[i]", "C[i, j] = A[i, j]"], "`T` is computed and never used"),
        (["T[i] = B[i]"], "no stage computes the output `C`"),
        (["T: f32[8]", "C[i, j] = A[i, j]"], "no stage computes the buffer `T`"),
        (["T: f32[0]", "T[i] = B[i]", "C[i, j] = A[i, j] + T[i]"], "an extent of `T` is 0"),
        (["T: f32[8, 4]", "T[i] = B[i]", "C[i, j] = A[i, j] + T[i, j]"], "`T` is declared with 2 dimensions"),
        (["let Z = 3", "C[i, j] = A[i, j]"], "the size `Z` is never used"),
        (["let Z = Q + 1", "C[i, j] = A[i, j] * Z"], "`Q` is not a size"),
        (["let Z = 1 / 2", "C[i, j] = A[i, j] * Z"], "a size is a whole number, and `1 / 2` is 0.5"),
        (["let A = 3", "C[i, j] = A[i, j]"], "`A` is defined twice: first on line 1"),
        (["let sum = 3", "C[i, j] = A[i, j] * sum"], "`sum` is a word of the language"),
        (["C[i, i] = A[i, i]"], "the index `i` appears twice"),
        (["C[i, B] = A[i, 0]"], "`B` is an index here and something else in the program"),
        (["C[i, j + 1] = A[i, j]"], "an iteration variable belongs here"),
        (["C[i, j] = sum[i](A[i, j])"], "the index `i` appears twice"),
        (["C[i, j] = sum[](A[i, j])"], "`sum[]` reduces over nothing"),
        (["C[i, j] = sum[k](A[i, k], B[i])"], "a reduction has one operand, not 2"),
        (["C[i, j] = total[k](A[i, k])"], "`total` is not a reduction"),
        (["C[i, j] = sum[k](A[i, j])"], "nothing says how far the index `k` goes"),
        (["T[i, k] = B[i]", "C[i, j] = T[i, j]"], "nothing says how far the index `k` goes"),
        (["T[i < 8] = 1", "C[i, j] = T[i]"], "nothing says which element type `T` has"),
        (["T[i < 8] = 3 if i == 0 else 1", "C[i, j] = T[i]"], "nothing says which element type `T` has"),
        (["T[i < 4] = 3 if B[i] > 0 else 1", "C[i, j] = T[i]"], "nothing says which element type `T` has"),
        (["C[i, j] = A[j, i]"], "`A[j, i]` leaves `A` in dimension 1, by 4 above: `i` goes from 0 to 7, and "),
        (["C[i, j] = sum[k](A[k, k])"], "the index `k` goes to 8 in `A[k, k]` and to 4 in `A[k, k]`"),
    ],
)  # fmt: skip
def test_wrong_definitions(lines: list[str], message: str) -> None:
    assert any(found.startswith(message) for found in mistakes(*lines))


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


def test_nested_reductions_show_two_stages() -> None:
    with pytest.raises(LanguageError) as caught:
        of_stages("l: C[i, j] = max(sum[k](A[i, k] * B[i]), A[i, j])")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.hint.splitlines()[1:] == [
        "    C_sum[i] = sum[k](A[i, k] * B[i])",
        "    l: C[i, j] = max(C_sum[i], A[i, j])",
    ]
    of_stages(*(line.strip() for line in diagnostic.hint.splitlines()[1:]))


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
