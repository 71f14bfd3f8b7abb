"""Conditions on lanes: the cost takes those for known that the compiler knows."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.statement import StatementView
from metasched.cost.program.nest import Analyses, analyse
from metasched.ir.integers.evaluate import Evaluator
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from tests.support.targets import AVX512

PIXELS = """program pixels[N=1024, C=4](X: f32[N, C - 1]) -> Y: f32[N, C]:
    Y[i, c] = X[i, c] if c < C - 1 else 1.0"""
PAIRS = """program pairs[N=1024, C=2](X: f32[N]) -> Y: f32[C * N]:
    Y[j] = X[j // C + 1] if j % C == 0 and j < C * N - C else 2.0"""
STEPS = """program steps[N=1024, C=4](X: f32[N // C, 7]) -> Y: f32[N]:
    Y[j] = X[j // C, (j % C) * 2] if (2 * j) % (2 * C) < 6 else 2.0"""


@pytest.mark.parametrize(
    ("text", "loops", "sizes", "lanes", "is_known"),
    [
        (PIXELS, 2, {}, 16, True),
        (PIXELS, 2, {"C": 3}, 16, False),  # each vector begins elsewhere in a row
        (PIXELS, 2, {"C": 3}, 12, True),
        (PAIRS, 1, {}, 16, False),  # the last vector is another
        (PAIRS, 1, {"N": 8}, 16, True),  # there is one
        (STEPS, 1, {}, 16, True),
        (STEPS, 1, {"C": 3, "N": 1023}, 16, False),
    ],
)
def test_lanes_that_are_known_are_shuffled(
    text: str, loops: int, sizes: dict[str, int], lanes: int, is_known: bool
) -> None:
    schedule = Schedule(parse_program(text, **sizes), seed=0)
    nest = schedule.get_loops(schedule.get_block("Y"))[-loops:]
    schedule.vectorize(schedule.fuse(*nest) if loops > 1 else nest[0], lanes=lanes)
    analyses = Analyses()
    (statement,) = analyse(schedule.func, analyses).statements
    values = [np.asarray(size, np.float32) for size in Evaluator(analyses.table.exprs)({})]
    view = StatementView(statement, values, 1, AVX512, DEFAULT_CORE)
    assert [bool(found) for found in view.decided_by_lanes] == [is_known] * len(statement.gates)
    assert (view.loads_of_one[1] < lanes) == is_known
    assert ("llvm.masked.gather" in emit(lower(schedule.func, AVX512), AVX512).text) != is_known
