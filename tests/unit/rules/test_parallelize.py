"""Which nests threads share."""

from __future__ import annotations

import pytest

from tests.support.rulework import apply, correct, reasons

ELEMENTWISE = "program f[M=64, N=512](X: f32[M, N]) -> Y: f32[M, N]:\n    Y[i, j] = 2.0 * X[i, j]\n"


@pytest.mark.parametrize(("value", "least"), [("2.0 * X[i, j]", 1 << 16), ("exp(X[i, j])", 1 << 13)])
def test_a_nest_that_calls_an_expensive_function_is_shared_from_an_eighth_of_the_instances_on(
    value: str, least: int
) -> None:
    text = ELEMENTWISE.replace("2.0 * X[i, j]", value)
    assert reasons(text, "parallelize", M=8, N=least // 8) == {"Y": None}
    few = 8 * (least // 8 - 1)
    why = f"it is so small ({few} instances) that starting threads would take longer"
    assert reasons(text, "parallelize", M=8, N=least // 8 - 1) == {"Y": why}


def test_small_nests_may_stay_serial() -> None:
    address = "parallelize(Y)/small nests"
    text = ELEMENTWISE.replace("2.0 * X[i, j]", "exp(X[i, j])")
    found = {apply(text, "parallelize", seed=seed)[0].trace.decisions[address] for seed in range(20)}
    assert found == {"parallel", "serial"}
    correct(apply(ELEMENTWISE, "parallelize", M=256)[0])


def test_a_single_loop_of_expensive_functions_is_left_for_vectors() -> None:
    text = "program f[N=10000](X: f32[N]) -> Y: f32[N]:\n    Y[i] = exp(X[i])\n"
    assert reasons(text, "parallelize") == {
        "Y": "it is so small (10000 instances) that starting threads would take longer"
    }
