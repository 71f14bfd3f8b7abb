"""ONNX's own node tests: what is counted, and a part of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from benchmarks.onnx_nodes import Outcome, Verdict, exclusion, node_tests, run_test, summary

# Files of the node tests; making all of them takes longer than running these.
FILES = (
    "argmax", "bernoulli", "clip", "conv", "cumsum", "depthtospace", "dropout", "gather", "gathernd",
    "gemm", "groupnormalization", "identity", "maxpool", "nonzero", "optionalhaselement", "pad", "quantizelinear",
    "reduce_log_sum_exp", "resize", "reversesequence", "scatterelements", "slice", "split", "topk",
)  # fmt: skip
# Every so manieth of their tests runs.
PART = 11


@pytest.fixture(scope="module")
def tests() -> list[Any]:
    return node_tests(FILES)


def test_a_part_of_the_node_tests_passes_or_is_refused(tests: list[Any]) -> None:
    plain = [case for case in tests if not exclusion(case)][::PART]
    outcomes = [run_test(case) for case in plain]
    wrong = [f"{outcome.name}: {outcome.reason}" for outcome in outcomes if outcome.verdict is Verdict.WRONG]
    assert not wrong, "\n".join(wrong)
    passed = sum(outcome.verdict is Verdict.PASSED for outcome in outcomes)
    assert passed >= 0.9 * len(outcomes), [o for o in outcomes if o.verdict is Verdict.REFUSED]


def test_what_is_not_counted(tests: list[Any]) -> None:
    reasons = {case.name: exclusion(case) for case in tests}
    assert reasons["test_identity_sequence"] == "sequence"
    assert reasons["test_optional_has_element_tensor_input"] == "optional"
    assert reasons["test_bernoulli"] == "random"
    assert reasons["test_training_dropout_default"] == "training"
    assert reasons["test_reversesequence_time"] == ""
    assert reasons["test_nonzero_example"] == ""


class Case:
    """A node test of a model that negates its input."""

    def __init__(self, expected: Any) -> None:
        x = helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, [2])
        y = helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, [2])
        graph = helper.make_graph([helper.make_node("Neg", ["X"], ["Y"])], "negative", [x], [y])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        self.data_sets = [([np.float32([1, 2])], [expected])]
        self.name, self.rtol, self.atol = "test_negative", 1e-3, 1e-7


@pytest.mark.parametrize(
    ("expected", "verdict", "reason"),
    [
        (np.float32([-1, -2]), Verdict.PASSED, ""),
        (np.float32([-1, -2.1]), Verdict.WRONG, "Not equal to tolerance"),
        (np.float64([-1, -2]), Verdict.WRONG, "float32 (2,), not float64 (2,)"),
        (np.float32([[-1, -2]]), Verdict.WRONG, "float32 (2,), not float32 (1, 2)"),
    ],
)
def test_results_are_compared(expected: Any, verdict: Verdict, reason: str) -> None:
    outcome = run_test(Case(expected))
    assert outcome.verdict is verdict
    assert outcome.reason.startswith(reason)


def test_refused_tests_count_against() -> None:
    outcomes = [Outcome("a", Verdict.PASSED, bound=True), Outcome("b", Verdict.REFUSED, "why")]
    counted = {verdict: sum(o.verdict is verdict for o in outcomes) for verdict in Verdict}
    assert summary(counted, 2, 1)["passed_share"] == 0.5
