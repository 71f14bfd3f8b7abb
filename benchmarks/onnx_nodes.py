"""ONNX's own backend node tests: how many pass, how many are refused and why, and whether any gives wrong numbers.

The denominator is every node test of the installed `onnx` except those of sequences, optional values, texts, random
numbers and training. A refused test counts against. Inputs that decide shapes (a target shape, axes, pads) are values
that a caller settles at load: where a model is refused for want of them, it is loaded again with those of the test.
"""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.registry import Options, Result

_RANDOM = frozenset(
    {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}
)
_STRING = 8
_TRAINING = "ai.onnx.preview.training"
# As ONNX's own runner has it: two units in the last place.
_BF16_TOLERANCE = 2.0**-6
_ROUNDING = 2.0**-23  # of f32, beside the largest element
_SLICE_STEP = 12  # a quick run takes every so manieth test


class Verdict(Enum):
    """What came of a test."""

    PASSED = "passed"
    REFUSED = "refused"
    WRONG = "wrong"


@dataclass(frozen=True)
class Outcome:
    """What came of a test, and why where it did not pass. `bound`: whether it took values at load."""

    name: str
    verdict: Verdict
    reason: str = ""
    bound: bool = False


def node_tests(files: Sequence[str] = ()) -> list[Any]:
    """Every node test of the installed `onnx`, or those of some of its files. Making all takes some seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = import_module("onnx.backend.test.case.node")
        for file in files:
            import_module(f"{package.__name__}.{file}")
        made: list[Any] = package._NodeTestCases if files else package.collect_testcases(None)  # noqa: SLF001 -- the only list
        return list(made)


def exclusion(case: Any) -> str:
    """The reason why a test is not in the denominator; '' where it is."""
    graph = case.model.graph
    types = [value.type for value in (*graph.input, *graph.output)]
    kinds = {type_.WhichOneof("value") for type_ in types}
    nodes = {node.op_type for node in graph.node}
    if "sequence_type" in kinds or any("Sequence" in op and op != "ReverseSequence" for op in nodes):
        return "sequence"
    if "optional_type" in kinds or any(op.startswith("Optional") for op in nodes):
        return "optional"
    if any(type_.tensor_type.elem_type == _STRING for type_ in types) or any(op.startswith("String") for op in nodes):
        return "string"
    if nodes & _RANDOM:
        return "random"
    if any(node.domain == _TRAINING for node in graph.node) or "training" in case.name:
        return "training"
    return ""


def run_test(case: Any) -> Outcome:
    """Load the model of a test, call it, and compare."""
    inputs, expected = case.data_sets[0]
    named = dict(zip([value.name for value in case.model.graph.input], map(_array, inputs), strict=False))
    values: dict[str, Any] = {}
    while True:
        try:
            network = ms.load_onnx(case.model, values=values)
        except ms.RefusedModel as error:
            more = [name for name in error.unbound if name not in values]
            if not more:
                return Outcome(case.name, Verdict.REFUSED, _short_reason(error), bool(values))
            values |= {name: named[name] for name in more}
        except ms.NetworkError as error:
            return Outcome(case.name, Verdict.REFUSED, str(error), bool(values))
        else:
            break
    given = {name: value for name, value in named.items() if name in network.inputs}
    results = network(**given)
    wrong = _difference(case, results if isinstance(results, tuple) else (results,), expected)
    return Outcome(case.name, Verdict.WRONG if wrong else Verdict.PASSED, wrong, bool(values))


def _array(value: Any) -> Any:
    """The elements of what a test gives: an array, a number or a message."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _short_reason(error: ms.RefusedModel) -> str:
    refusal = error.refusals[0]
    return f"{refusal.op}: {refusal.reason}"


def _difference(case: Any, results: tuple[Any, ...], expected: Any) -> str:
    """How results differ from what a test expects; '' where they do not. They are compared as by ONNX's own runner, but
    that a rounding of the largest element is allowed everywhere.
    """
    if len(results) != len(expected):
        return f"{len(results)} outputs, not {len(expected)}"
    for got, want in zip(results, expected, strict=True):
        want = _array(want)
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
        try:
            if want.dtype.kind in "biu":
                np.testing.assert_array_equal(got, want)
            else:
                rtol = max(case.rtol, _BF16_TOLERANCE) if want.dtype.name == "bfloat16" else case.rtol
                exact = want.astype(np.float64)
                # Where a sum cancels, what is expected is itself a rounding of its terms off, and no nearer than ours.
                size = np.max(np.abs(exact), where=np.isfinite(exact), initial=0.0)
                atol = max(case.atol, _ROUNDING * size)
                np.testing.assert_allclose(got.astype(np.float64), exact, rtol=rtol, atol=atol)
        except AssertionError as error:
            return " ".join(str(error).split())[:300]
    return ""


def run(options: Options) -> Iterator[Result]:
    cases = [case for case in node_tests() if not exclusion(case)]
    if options.quick:
        cases = cases[::_SLICE_STEP]
    outcomes = []
    for number, case in enumerate(cases):
        outcomes.append(run_test(case))
        if number % 100 == 0:
            gc.collect()
    counted = Counter(outcome.verdict for outcome in outcomes)
    for reason, count in Counter(o.reason for o in outcomes if o.verdict is Verdict.REFUSED).most_common():
        yield {"case": "refused", "reason": reason, "tests": count}
    for outcome in outcomes:
        if outcome.verdict is Verdict.WRONG:
            yield {"case": "wrong", "test": outcome.name, "reason": outcome.reason}
    yield summary(counted, len(cases), sum(o.bound for o in outcomes if o.verdict is Verdict.PASSED))


def summary(counted: Mapping[Verdict, int], total: int, bound: int) -> Result:
    """The last line: shares of the denominator, and how many that pass took values at load."""
    return {
        "case": "onnx_nodes",
        "tests": total,
        **{verdict.value: counted.get(verdict, 0) for verdict in Verdict},
        "passed_share": round(counted.get(Verdict.PASSED, 0) / total, 4) if total else 0.0,
        "passed_with_values_at_load": bound,
    }
