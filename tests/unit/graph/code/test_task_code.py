"""Code of a task in two parts: a step for the target, and what this machine computes of constants."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.code.task_code import compile_task
from metasched.target import Target
from tests.support.targets import pretend_lacking

PROGRAM = ms.parse_program(
    """
program f(X: f32[64, 64], const W: f32[64, 64]) -> Y: f32[64, 64]:
    V: f32[64, 64]
    V[k, j] = W[j, k] * 2.0 + 1.0
    Y[i, j] = sum[k](X[i, k] * V[k, j])
"""
)
AS_WRITTEN = Choice(None, ScheduleOrigin.AS_WRITTEN)


def test_what_is_computed_of_constants_is_code_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    far = pretend_lacking(monkeypatch, "avx")
    here, there = (compile_task(PROGRAM, AS_WRITTEN, target) for target in (Target.detect(), far))
    assert here.prologue is not None
    assert there.prologue == here.prologue
    assert there.main != here.main
