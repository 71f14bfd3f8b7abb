"""The rule that sums exponentials over parts of long rows."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.search.guesses.guess import guess
from metasched.space.source import FromRules
from tests.support.rulework import TARGET, rule

NAME = "row_parts"
ADDRESS = f"{NAME}(total)/parts"
LOG_SUM = """
program log_sum[M=2, N=40000](X: f32[M, N]) -> L: f32[M]:
    top:   m[i] = max[j](X[i, j])
    far:   d[i, j] = X[i, j] - m[i]
    exps:  e[i, j] = exp(d[i, j])
    total: s[i] = sum[j](e[i, j])
    last:  L[i] = m[i] + log(s[i])
"""
PROGRAMS = {
    "softmax": lambda: operators.load("softmax", M=3, N=30011),
    "softmax in bf16": lambda: operators.load("softmax", M=3, N=30011, T="bf16", ACC="f32"),
    "log_softmax": lambda: operators.load("log_softmax", M=2, N=40000),
    "several blocks between": lambda: ms.parse_program(LOG_SUM),
}


@pytest.mark.parametrize("which", PROGRAMS)
def test_results_are_the_same_under_the_other_rules(which: str) -> None:
    program = PROGRAMS[which]()
    sketch = ms.space(program, target=TARGET).sketch_near({ADDRESS: "one pass"})
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 8))
    trace = sketch.trace_of(rows[sketch.mask(rows)][0])
    sch = trace.apply_to(program)
    partial = [sch.describe(sch.get_block(name)) for name in sch.block_names() if name.endswith(".rf")]
    assert len({info.loops[0] for info in partial}) == 1, "both are computed in one nest"
    argument = program.func.inputs[0]
    x = np.random.default_rng(1).standard_normal([e.value for e in argument.shape]) * 8  # type: ignore[attr-defined]
    x[0, :700] = -np.inf
    given = x.astype(argument.dtype.numpy)
    got, expected = ms.compile(program, trace=trace)(given), ms.reference(program)(given)
    tolerance = 1e-2 if argument.dtype.is_storage else 1e-5
    np.testing.assert_allclose(np.float32(got), np.float32(expected), rtol=tolerance, atol=1e-5)


def test_it_is_a_choice() -> None:
    space = ms.space(ms.parse_program(LOG_SUM), rules=[rule(NAME)])
    assert [sketch.structure for sketch in space] == [{ADDRESS: how} for how in (ms.LEFT_ALONE, "one pass")]


def test_guesses_take_it_for_a_long_row() -> None:
    found = guess(ms.parse_program(LOG_SUM, M=1, N=250_000), TARGET)
    assert f'@ "{ADDRESS}" := "one pass"' in str(found.trace)


@pytest.mark.parametrize(
    ("program", "block", "reason"),
    [
        (ms.parse_program(LOG_SUM), "top", "it is no sum"),
        (
            operators.load("softmax", M=16, N=4096),
            "total",
            "16 rows that fit in the second cache are enough for threads",
        ),
        (
            operators.load("softmax", M=2, N=4096),
            "total",
            "it is so small (8192 elements) that starting threads would take longer",
        ),
        (operators.load("layer_norm", M=2, N=40000), "total", "its terms are relative to no maximum"),
    ],
)
def test_it_says_why_not(program: ms.Program, block: str, reason: str) -> None:
    outcomes = FromRules((rule(NAME),)).run(ms.Schedule(program, TARGET))
    assert {outcome.block: outcome.reason for outcome in outcomes}[block] == reason
