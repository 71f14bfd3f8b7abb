"""Tensor intrinsics: where the rules apply, what they say where they do not, and that results stay what they were."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from metasched.rules.compute_location import compute_location
from metasched.rules.inline import inline
from metasched.rules.parallelize import parallelize
from metasched.rules.unroll import unroll
from metasched.rules.use_amx import use_amx
from metasched.rules.use_avx512_bf16 import use_avx512_bf16
from metasched.rules.use_vnni import use_vnni
from metasched.rules.vectorize import vectorize

import metasched as ms
from metasched.cost.features import FeatureProgram, features_of
from metasched.ir.program import Program
from metasched.ir.prologue import constants, divide
from metasched.space.rule import Rule
from metasched.space.sketch import Sketch
from tests.support.structural import same
from tests.support.targets import ALDER, AVX512, SAPPHIRE

BYTES = {"T": "u8", "U": "i8", "ACC": "i32"}
SIGNED = {"T": "i8", "U": "i8", "ACC": "i32"}
BRAIN = {"T": "bf16", "U": "bf16", "ACC": "f32"}
RULES = {"i8": use_vnni, "u8": use_vnni, "bf16": use_avx512_bf16}

# In a user's own words: a dense layer with a bias and a threshold.
LAYER = """
program layer[Q=17, Z=40, W=20, T=u8, U=i8, R=i32](left: T[Q, Z], const right: U[W, Z], bias: R[W]) -> out: R[Q, W]:
    acc: raw[x, y] = sum[term](R(left[x, term]) * R(right[y, term]))
    fin: out[x, y] = max(raw[x, y] + bias[y], 0)
"""


def operator(name: str, **params: object) -> Program:
    return ms.operators.load(name, **params)


def layer(**params: object) -> Program:
    return ms.parse_program(LAYER, **{"R" if name == "ACC" else name: value for name, value in params.items()})


# Threads share all loops of the outermost tiles: how many of them is no choice.
WHOLE_DEPTH = parallelize(elements=1 << 40)


def using(program: Program, rule: Rule) -> Iterator[Sketch]:
    """The sketches that use an intrinsic, one after another."""
    space = ms.space(program, rules=[inline, rule, compute_location, WHOLE_DEPTH, vectorize, unroll], target=SAPPHIRE)
    return (sketch for sketch in space if "@tensorize" in str(sketch))


def sketches(program: Program, rule: Rule) -> list[Sketch]:
    return list(using(program, rule))


def reason(program: Program, rule: Rule, block: str, **given: object) -> str:
    """Why a rule leaves a block alone."""
    space = ms.space(program, rules=[rule], **{"target": SAPPHIRE, **given})
    lines = space.explain().splitlines()
    at = lines.index(f"block {block}")
    return next(line for line in lines[at:] if "not applied" in line).partition("not applied: ")[2]


CASES = {
    "nn": lambda types: operator("matmul_nn", M=20, N=40, K=30, **types),
    "tt": lambda types: operator("matmul_tt", M=16, N=32, K=24, **types),
    "a batch": lambda types: operator("batch_matmul_nn", BATCH=2, M=8, N=20, K=13, **types),
    "own names": lambda types: layer(**types),
    "a convolution": lambda types: operator("conv2d_nhwc", H=4, W=12, CI=8, CO=24, **types),
    "few rows and channels": lambda types: operator("conv2d_nhwc", H=5, W=5, CI=3, CO=16, R=3, S=2, **types),
    "channels first": lambda types: operator("conv2d_nchw", H=3, W=9, CI=8, CO=24, **types),
    "groups": lambda types: operator("conv2d_nhwc", H=3, W=8, CI=8, CO=32, G=2, **types),
}


def a_sketch(case: str, types: dict[str, str]) -> tuple[Program, Sketch, np.ndarray]:
    """A program, the first sketch that uses an intrinsic, and some of its rows."""
    program = CASES[case](types)
    sketch = next(using(program, RULES[types["T"]]))
    rows = sketch.repair(sketch.sample(np.random.default_rng(1), 8))
    return program, sketch, rows[sketch.mask(rows)][:2]


@pytest.mark.parametrize("case", CASES)
def test_a_candidate_has_the_features_of_its_program(case: str) -> None:
    program, sketch, rows = a_sketch(case, BYTES)
    features = FeatureProgram(sketch.func, sketch.columns, SAPPHIRE)(rows)
    for row, of_row in zip(rows, features, strict=True):
        concrete = sketch.trace_of(row).apply_to(program).func
        np.testing.assert_allclose(of_row, features_of(concrete, SAPPHIRE), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("case", "types"), [("nn", BYTES), ("few rows and channels", BYTES), ("groups", SIGNED), ("own names", BRAIN)]
)
def test_a_candidate_computes_what_the_program_does(case: str, types: dict[str, str]) -> None:
    program, sketch, rows = a_sketch(case, types)
    same(program.func, sketch.trace_of(rows[0]).apply_to(program).func)


def test_amx_computes_what_the_program_does() -> None:
    program = layer(Z=60, W=30, **BRAIN)
    sketch = next(using(program, use_amx))
    row = sketch.repair(sketch.sample(np.random.default_rng(0), 1))[0]
    same(program.func, sketch.trace_of(row).apply_to(program).func)


def test_weights_are_packed_ahead_and_what_follows_is_computed_under_a_level_of_tiles() -> None:
    program = layer(**BYTES)
    found = sketches(program, use_vnni)
    shown = [str(sketch) for sketch in found]
    assert len(shown) == 3
    for text in shown:
        assert "acc.right.read" in text or "acc.right.pad" in text
        assert "unpad" not in text  # it is inlined into `fin`
    (func,) = {divide(sketch.func, constants(sketch.func)).prologue for sketch in found}
    assert func is not None
    assert [b.name for b in func.inputs] == ["right"]


def test_levels_that_are_not_there_have_no_consumer() -> None:
    space = ms.space(layer(**BYTES), rules=[use_vnni(fuse_after=(0, 2, 3))], target=SAPPHIRE)
    found = [sketch.structure.get("use_vnni(acc)/fusion") for sketch in space]
    assert found == ["level 2", "none", None]


def test_panels_of_an_operand_are_packed_in_vectors() -> None:
    (sketch,) = sketches(operator("matmul_nn", M=64, N=64, K=64, **BRAIN), use_amx)
    assert "layout d0, d1 -> d1 // (t0*16), d0 // 2, d1 % (t0*16), d0 % 2" in str(sketch)
    assert "vectorized(32) j_C_B_read_2_k_C_B_read_1 in 32:" in str(sketch)
    assert "A_global" not in str(sketch)  # its rows are dense as they are


@pytest.mark.parametrize(
    ("types", "rule", "depth", "unrolled"),
    [(BRAIN, use_amx, 64, True), (BYTES, use_vnni, 64, True), (BYTES, use_vnni, 72, False)],
)
def test_panels_of_a_transposed_operand_are_read_in_runs(
    types: dict[str, str], rule: ms.Rule, depth: int, unrolled: bool
) -> None:
    """What lies beside a pair, or four, of a row is read with it, where that divides the row."""
    program = operator("matmul_nt", M=64, N=64, K=depth, **types)
    (sketch,) = sketches(program, rule)
    assert ("unrolled k_C_B_read_0_1 in 4:" in str(sketch)) == unrolled
    if rule is use_vnni:
        row = sketch.repair(sketch.sample(np.random.default_rng(0), 1))[0]
        same(program.func, sketch.trace_of(row).apply_to(program).func)


@pytest.mark.parametrize("rows", [64, 60])
def test_rows_of_a_transposed_operand_are_read_in_runs(rows: int) -> None:
    """A tile's rows are columns of it: eight halves that lie side by side are of eight rows. Padding comes before."""
    program = operator("matmul_tn", M=rows, N=64, K=64, **BRAIN)
    found = sketches(program, use_amx)
    assert all("in 8:" in str(sketch) for sketch in found)
    row = found[0].repair(found[0].sample(np.random.default_rng(0), 1))[0]
    same(program.func, found[0].trace_of(row).apply_to(program).func)


@pytest.mark.parametrize("uses", [2, 6])
def test_uses_side_by_side_may_share_a_panel(uses: int) -> None:
    text = "program product[M=20, N=96, K=30](A: u8[M, K], const B: i8[K, N]) -> C: i32[M, N]:\n"
    program = ms.parse_program(f"{text}    C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))")
    sketch = next(using(program, use_vnni))
    rows = sketch.repair(sketch.sample(np.random.default_rng(1), 32))
    column = next(v.span.start for v in sketch.variables if v.address.endswith("/uses in a panel"))
    rows[:, column] = uses
    row = rows[sketch.mask(rows)][:1]
    assert "d1 // (t0*16), d0 // 4, d1 % (t0*16), d0 % 4" in str(sketch)
    features = FeatureProgram(sketch.func, sketch.columns, SAPPHIRE)(row)
    concrete = sketch.trace_of(row[0]).apply_to(program).func
    np.testing.assert_allclose(features[0], features_of(concrete, SAPPHIRE), rtol=1e-4, atol=1e-4)
    if uses == 6:
        same(program.func, concrete)


def test_variables_that_waste_too_much_alone_are_fused() -> None:
    program = operator("conv2d_nhwc", H=7, W=7, CI=32, CO=32, **BYTES)
    (sketch,) = sketches(program, use_amx)
    assert "h_w" in str(sketch)
    assert "r_s_c" in str(sketch)


@pytest.mark.parametrize(
    ("channels", "copied"),
    [(32, "vectorized(32) r_s_c_conv_Xp_reindex_pad"), (3, "unrolled r_s_c_conv_Xp_reindex_pad")],
)
def test_windows_are_copied_without_gathers(channels: int, copied: str) -> None:
    program = operator("conv2d_nhwc", H=8, W=16, CI=channels, CO=16, **BYTES)
    found = sketches(program, use_amx)
    assert found
    assert all(copied in str(sketch) for sketch in found)


PRODUCT = "it sums A[i, k] * B[k, j] in f32, with elements of f32 and f32, which is not what"
SMALL = """
program small[T=u8, U=i8, ACC=i32](A: T[3, 64], B: U[64, 5]) -> C: ACC[3, 5]:
    C[i, j] = sum[k](ACC(A[i, k]) * ACC(B[k, j]))
"""


@pytest.mark.parametrize(
    ("program", "rule", "block", "why"),
    [
        (operator("matmul_nn", M=64, N=64, K=64), use_avx512_bf16, "C", f"{PRODUCT} `dot_bf16_avx512` does"),
        (operator("depthwise_conv2d_nhwc", H=8, W=8, **BYTES), use_vnni, "conv", "none of its variables is as `j` of"),
        (ms.parse_program(SMALL), use_amx, "C", "`tile_u8i8_amx` would compute 17.1 times as much as needed"),
        (operator("softmax"), use_amx, "maximum", "block `maximum` is no sum"),
        (operator("softmax"), use_amx, "exponential", "it is not a reduction"),
    ],
)
def test_where_it_does_not_apply_it_says_why(program: Program, rule: Rule, block: str, why: str) -> None:
    assert reason(program, rule, block).startswith(why)


def test_a_target_that_lacks_it_and_permissions() -> None:
    program = operator("matmul_nn", M=64, N=64, K=64, **BRAIN)
    lacking = SAPPHIRE.without({"amx-bf16"})
    assert reason(program, use_amx, "C", target=lacking) == "`tile_bf16_amx` would fit, and the target lacks amx-bf16"
    forbidden = reason(program, use_amx, "C", allow=set())
    assert forbidden == '`tile_bf16_amx` takes denormals for zero, and "flush_denormals" is not allowed'


def test_operands_that_are_padded_for_an_instruction_are_no_choice_of_other_rules() -> None:
    program = operator("matmul_nn", M=30, N=40, K=50, **BYTES)
    explained = ms.space(program, rules="cpu", target=SAPPHIRE).explain()
    assert 'choice "use_vnni(C)/intrinsic"' in explained
    assert 'choice "padding' not in explained


def test_the_preset_offers_each_where_the_target_has_it() -> None:
    program = operator("matmul_nn", M=64, N=64, K=64, **BRAIN)
    shown = [str(sketch) for sketch in ms.space(program, rules="cpu", target=SAPPHIRE)]
    assert any("tile_bf16_amx" in text for text in shown)
    assert any("dot_bf16_avx512" in text for text in shown)
    assert any("@tensorize" not in text for text in shown)
    assert not any("@tensorize" in str(sketch) for sketch in ms.space(program, rules="cpu", target=AVX512))


@pytest.mark.parametrize(
    ("target", "form"), [(SAPPHIRE, "vnni"), (SAPPHIRE.without({"avxvnni"}), "vnni"), (ALDER, "avxvnni")]
)
@pytest.mark.parametrize(("types", "name"), [(BYTES, "dot_u8i8"), (BYTES | {"T": "i8"}, "dot_i8i8")])
def test_the_widest_form_that_the_target_has_is_offered(
    types: dict[str, str], name: str, target: ms.Target, form: str
) -> None:
    program = operator("matmul_nn", M=64, N=24, K=64, **types)  # 24 columns are three narrow vectors
    found = [sketch.structure["use_vnni(C)/intrinsic"] for sketch in ms.space(program, rules=[use_vnni], target=target)]
    assert set(found) == {f"{name}_{form}", "none"}
