"""Systems of a few equations, and factors of small matrices. Skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.torch_models import run, run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
LINALG = torch.linalg

CASES: dict[str, Any] = {
    "determinants": lambda a, b: (LINALG.det(a), *LINALG.slogdet(a), a[0].det()),
    "cholesky": lambda a, b: (*LINALG.cholesky_ex(a @ a.mT), LINALG.cholesky_ex(a @ a.mT + 1, upper=True)[0]),
    "by factors": lambda a, b: (torch.cholesky_solve(b, a.tril()), torch.cholesky_inverse(a[0].triu(), upper=True)),
    "inverse": lambda a, b: LINALG.inv_ex(a),
    "solutions": lambda a, b: (
        LINALG.solve_ex(a, b)[0],
        LINALG.solve_ex(a, b[..., 0])[0],
        LINALG.solve_ex(a, b.mT, left=False)[0],
        *LINALG.solve_ex(a[0], b),
    ),
    "triangles": lambda a, b: (
        LINALG.solve_triangular(a, b, upper=True),
        LINALG.solve_triangular(a, b, upper=False, unitriangular=True),
        LINALG.solve_triangular(a[0], b.mT, upper=False, left=False),
    ),
    "orthogonal": lambda a, b: (*LINALG.qr(a), *LINALG.qr(b, "complete"), LINALG.qr(b, "r")[1]),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_pytorchs(name: str) -> None:
    run_whole(CASES[name], torch.randn(3, 4, 4) + 2 * torch.eye(4), torch.randn(3, 4, 2))


def test_failures_are_told_as_pytorch_tells_them() -> None:
    singular = torch.stack([torch.diag(torch.tensor(row)) for row in ([1.0, 2, 3], [1, 0, 2], [1, -1, 0.0])])
    run_whole(lambda a: (LINALG.inv_ex(a)[1], LINALG.cholesky_ex(a)[1]), singular)
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\).*singular"):
        run(lambda a: LINALG.inv(a) * 2, singular)


def test_larger_ones_are_pytorchs() -> None:
    (refused,) = run(lambda a: LINALG.inv_ex(a)[0] * 2, torch.eye(17)).reports[0].refused
    assert refused.name == "aten.linalg_inv_ex"
    assert "17 equations" in refused.reason


@pytest.mark.parametrize(
    "call",
    [
        lambda a: LINALG.inv_ex(a, check_errors=True)[0],
        lambda a: LINALG.solve_ex(a, a, check_errors=True)[0],
        lambda a: LINALG.cholesky_ex(a, check_errors=True)[0],
    ],
)
def test_errors_that_are_to_be_raised_are_raised(call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"singular|not positive-definite"), torch.no_grad():
        torch.compile(lambda a: call(a) * 2, backend="metasched")(torch.zeros(3, 3))
    (refused,) = run(lambda a: call(a) * 2, torch.eye(3)).reports[0].refused
    assert "check_errors=True" in refused.reason
