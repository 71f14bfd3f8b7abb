"""The features of a symbolic program are those of the concrete one, and say what they claim."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, FeatureProgram, features_of
from metasched.cost.program.nest import Analyses, analyse
from metasched.dtypes import DType
from metasched.ir.nodes import Block, Buffer, Const, Expr, For, Func, IterKind, IterVar, Load, LoopKind, Store, Var
from metasched.target import Target
from tests.support.targets import AVX512

from .conftest import COLUMNS, dense_relu, draw_rows, put

SIZES = st.sampled_from([1, 2, 3, 4, 7, 8, 16, 17, 31, 64])


def named(features: np.ndarray, name: str) -> np.ndarray:
    return features[..., NAMES.index(name)]


@given(
    row=st.tuples(SIZES, SIZES, SIZES, SIZES, SIZES, st.sampled_from([1, 16, 64, 512])),
    shape=st.tuples(*[st.sampled_from([1, 7, 32, 127, 512])] * 3),
)
def test_a_row_has_the_features_of_the_program_with_its_numbers(
    row: tuple[int, ...], shape: tuple[int, int, int]
) -> None:
    symbolic = dense_relu(*shape)
    concrete = put(symbolic, {name: Const(value) for name, value in zip(COLUMNS, row, strict=True)})
    assert isinstance(concrete, Func)
    left = FeatureProgram(symbolic, COLUMNS, AVX512)(np.array([row]))[0]
    np.testing.assert_allclose(left, features_of(concrete, AVX512), rtol=1e-5, atol=1e-5)


def test_rows_do_not_influence_one_another(target: Target) -> None:
    program = FeatureProgram(dense_relu(), COLUMNS, target)
    rows = draw_rows(2100)
    together = program(rows)
    np.testing.assert_array_equal(together[-3:], program(rows[-3:]))
    assert together.dtype == np.float32
    assert together.shape == (2100, len(NAMES))
    assert np.isfinite(together).all()
    assert (together >= -1e-6).all()


def test_analyses_of_other_programs_change_nothing() -> None:
    rows, analyses = draw_rows(20), Analyses()
    for shape in ((512, 512, 512), (500, 512, 512), (512, 512, 512)):
        shared = FeatureProgram(dense_relu(*shape), COLUMNS, AVX512, analyses=analyses)
        alone = FeatureProgram(dense_relu(*shape), COLUMNS, AVX512)
        np.testing.assert_array_equal(shared(rows), alone(rows))


def test_equal_statements_are_analysed_once() -> None:
    analyses = Analyses()
    first, second = (analyse(dense_relu(), analyses) for _ in range(2))
    assert [s.accesses[0] for s in first.statements] == [s.accesses[0] for s in second.statements]
    assert all(a.accesses is b.accesses for a, b in zip(first.statements, second.statements, strict=True))


def test_no_rows_give_no_features(target: Target) -> None:
    assert FeatureProgram(dense_relu(), COLUMNS, target)(np.empty((0, 6), np.int64)).shape == (0, len(NAMES))


def test_names_are_distinct() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_arithmetic_of_a_perfect_tiling(target: Target) -> None:
    x = FeatureProgram(dense_relu(), COLUMNS, target)(np.array([[4, 8, 4, 32, 256, 64]]))[0]
    assert named(x, "s0.flops") == pytest.approx(np.log2(1 + 2 * 512**3), rel=1e-6)
    assert named(x, "s0.waste") == 0
    assert named(x, "s0.live_guards") == 0
    assert named(x, "s0.useful_lanes") == 1
    assert 2 ** named(x, "s0.accumulators") - 1 == pytest.approx(8 * 2)
    assert 2 ** named(x, "s0.tasks") - 1 == pytest.approx(16 * 4, rel=1e-5)
    # A register tile of 8 rows and 2 vectors: 8 broadcasts and 2 loads for 16 multiplications.
    assert named(x, "s0.loads_per_operation") == pytest.approx(10 / 16)
    assert named(x, "s0.held") == 1


def test_imperfect_tiles_are_waste_and_live_guards(target: Target) -> None:
    x = FeatureProgram(dense_relu(500, 500, 500), COLUMNS, target)(np.array([[4, 8, 4, 32, 256, 64]]))[0]
    assert named(x, "s0.live_guards") == pytest.approx(np.log2(1 + 3))
    assert named(x, "s0.vector_guards") == pytest.approx(1.0)
    assert named(x, "s0.waste") == pytest.approx(512**3 / 500**3 - 1, rel=1e-4)


def test_partial_vectors_waste_lanes(target: Target) -> None:
    x = FeatureProgram(dense_relu(), COLUMNS, target)(np.array([[4, 8, 4, 24, 256, 64]]))[0]
    assert named(x, "s0.useful_lanes") == pytest.approx(24 / 32)


def test_imbalance_of_three_tasks_on_two_threads(target: Target) -> None:
    x = FeatureProgram(dense_relu(512 * 3, 512, 512), COLUMNS, target)(np.array([[64, 8, 16, 32, 256, 64]]))[0]
    assert named(x, "s0.imbalance") == pytest.approx(4 / 3)
    assert named(x, "s0.speedup") == pytest.approx(np.log2(1 + 1.5))


def test_the_analytic_score_prefers_a_good_tiling(target: Target) -> None:
    good, tiny_tile, no_parallel_work = [4, 8, 4, 32, 256, 64], [1, 1, 1, 8, 1, 1], [64, 8, 16, 32, 256, 64]
    x = FeatureProgram(dense_relu(), COLUMNS, target)(np.array([good, tiny_tile, no_parallel_work]))
    score = analytic_score(x)
    assert score[0] > score[1] + 2
    assert score[0] > score[2]
    efficiency = x[:, NAMES.index("all.efficiency")]
    assert np.all((efficiency > 0) & (efficiency <= 1))


def copy_program(index: Expr, extent: int = 64) -> Func:
    """B[i] = A[index over i]."""
    i = IterVar("i", Const(extent), IterKind.SPATIAL)
    block = Block("copy", (i,), (Var("l"),), (), Store("B", (Var("i"),), Load("A", (index,), DType.F32)))
    return Func(
        "copy",
        (Buffer("A", (Const(1000),), DType.F32), Buffer("P", (Const(64),), DType.I64)),
        (),
        ("A", "P"),
        (Buffer("B", (Const(extent),), DType.F32),),
        (),
        For("l", Const(extent), block, LoopKind.VECTORIZED, Const(16)),
    )


@pytest.mark.parametrize(
    ("index", "elements", "kind"),
    [
        (Var("i"), 64, "contiguous"),
        (Var("i") * 3 + 5, 64, "strided"),
        (Var("i") // 64, 1, "broadcast"),
        (Var("i") // 24, 3, "strided"),  # lanes on both sides of a multiple
        (Var("i") // 32, 2, "broadcast"),
        (Var("i") // 24 * 24 + Var("i") % 24, 64, "contiguous"),
        (Var("i") % 16, 16, "contiguous"),
    ],
)
def test_what_an_index_reaches(index: Expr, elements: int, kind: str, target: Target) -> None:
    x = features_of(copy_program(index), target)
    assert 2 ** named(x, "s0.b1.bytes") - 1 == pytest.approx(4 * elements, rel=1e-4)
    others = 1 if kind == "contiguous" else 0  # the store is contiguous
    assert 2 ** named(x, f"s0.{kind}") - 1 == pytest.approx(1 + others)


def test_an_index_read_from_a_buffer_reaches_anywhere(target: Target) -> None:
    func = copy_program(Load("P", (Var("i"),), DType.I64))
    program = FeatureProgram(func, (), target)
    x = program(np.empty((1, 0), np.int64))[0]
    assert 2 ** named(x, "s0.b1.bytes") - 1 == pytest.approx(4000, rel=1e-4)
    assert np.isfinite(x).all()


def test_every_size_is_without_loop_variables() -> None:
    analyses = Analyses()
    nest = analyse(dense_relu(), analyses)
    loops = {loop.var for statement in nest.statements for loop in statement.loops}
    names = {node.name for e in analyses.table.exprs for node in e.walk() if isinstance(node, Var)}
    assert names <= set(COLUMNS)
    assert not names & loops
