"""Products of matrices, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import integers, model, node, random, run, value

X = random(2, 3, 4)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((3, 1), (1, 2)),
    ],
)
def test_matrices_are_multiplied(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = random(*a), random(*b, seed=1)
    np.testing.assert_allclose(run("MatMul", x, y), np.matmul(x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("c", [None, (5,), (3, 1), (3, 5), ()])
def test_gemm(across: int, c: tuple[int, ...] | None) -> None:
    a, b = random(3, 4), random(4, 5, seed=1)
    added = None if c is None else random(*c, seed=2)
    given = (a.T.copy(), b.T.copy()) if across else (a, b)
    made = run("Gemm", *given, added, alpha=0.5, beta=2.0, transA=across, transB=across)
    np.testing.assert_allclose(made, 0.5 * a @ b + (0 if added is None else 2 * added), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "...ij->...ji", "bij->b", "bij,bij", "bii->bi", "Bij,jK->BKi"])
def test_sums_of_products_by_indices(equation: str) -> None:
    operands = {
        "bij,bjk->bik": (X, random(2, 4, 2)), "...ij->...ji": (X,), "bij->b": (X,), "bij,bij": (X, X),
        "bii->bi": (random(2, 3, 3),), "Bij,jK->BKi": (X, random(4, 2)),
    }[equation]  # fmt: skip
    np.testing.assert_allclose(run("Einsum", *operands, equation=equation), np.einsum(equation, *operands), rtol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes", "products"),
    [
        ("ij,jk,kl,lm->im", [(8, 9), (9, 10), (10, 7), (7, 6)], 3),
        ("bhid,bhjd,bj->bhi", [(2, 3, 8, 5), (2, 3, 9, 5), (2, 9)], 2),
        ("...i,oij,...j->...o", [(4, 6), (7, 6, 8), (4, 8)], 1),
        ("ab,bc,cd,de,ef,fg->ag", [(6, 7)] + [(7, 7)] * 5, 5),
        ("bi,bj,bk->bijk", [(2, 3), (2, 4), (2, 5)], 1),
        ("bi,bi,bi->i", [(9, 8)] * 3, 1),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_several_operands_are_multiplied_in_the_best_order(
    equation: str, shapes: list[tuple[int, ...]], products: int, dtype: type
) -> None:
    operands = [(10 * random(*shape, seed=n)).astype(dtype) for n, shape in enumerate(shapes)]
    made = [node("Einsum", " ".join(f"X{n}" for n in range(len(shapes))), equation=equation)]
    network = ms.load_onnx(model(made, [value(f"X{n}", x) for n, x in enumerate(operands)]))
    np.testing.assert_allclose(network(*operands), np.einsum(equation, *operands), rtol=1e-4)
    assert sum(found.op == "Einsum" for found in network.graph.computes) == products


def test_quantised_products_are_exact() -> None:
    a, b = integers(3, 4, dtype=np.int8), integers(4, 2, seed=1, dtype=np.int8)
    made = run("MatMulInteger", a, b, np.int8(2), np.int8(-1))
    np.testing.assert_array_equal(made, (a.astype(np.int32) - 2) @ (b.astype(np.int32) + 1))
