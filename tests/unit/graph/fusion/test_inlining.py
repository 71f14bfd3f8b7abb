"""Intermediate values are written into what reads them, each asked about a few times."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.graph.fusion import inlining
from metasched.graph.fusion.inlining import inline_stages
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.ir.source import SourceNode


def stages_of_text(lines: list[str], temps: list[str]) -> Stages:
    declared = [f"    {name}: f32[8]" for name in temps]
    head = "program p(A: f32[8], B: f32[8]) -> Y: f32[8]:"
    found = stages_of(ms.parse_program("\n".join([head, *declared, *(f"    {line}" for line in lines)])))
    assert found is not None
    return found


def chain(length: int) -> Stages:
    """Each stage reads the one before it twice, and multiplies."""
    steps = [f"T{n}[i] = T{n - 1}[i] * T{n - 1}[i] + B[i]" for n in range(1, length)]
    return stages_of_text(
        ["T0[i] = A[i] * B[i]", *steps, f"Y[i] = T{length - 1}[i] + A[i]"], [f"T{n}" for n in range(length)]
    )


def test_a_value_that_becomes_cheap_to_repeat_is_written_into_its_readers() -> None:
    lines = ["T0[i] = A[i]", "T1[i] = T0[i] + B[i]", "Y[i] = T1[i] * T1[i] + T0[i]"]
    made = inline_stages(stages_of_text(lines, ["T0", "T1"]))
    assert [stage.buffer for stage in made.stages] == ["Y"]


def test_what_would_be_computed_too_often_stays_a_stage() -> None:
    made = inline_stages(chain(12))
    assert 1 < len(made.stages) < 12
    assert made.stages[-1].buffer == "Y"


def test_a_long_chain_takes_a_few_questions_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = list[SourceNode]()
    costed = inlining.operations

    def counted(e: SourceNode) -> int:
        costs.append(e)
        return costed(e)

    monkeypatch.setattr(inlining, "operations", counted)
    asked = list[int]()
    for length in (40, 80):
        costs.clear()
        inline_stages(chain(length))
        asked.append(len(costs))
    assert asked[1] < 2.5 * asked[0] < 2.5 * 6 * 40


def test_what_indices_say_is_computed_where_it_is_read() -> None:
    """In all rows, where a value that is read of an input is not: it would be computed as often."""
    head = "program p(A: f32[8, 8], B: f32[8]) -> Y: f32[8, 8]:\n    T: f32[8]\n"
    for value, count in (("1.0 if i < 3 else 0.5", 1), ("exp(B[i])", 2)):
        found = stages_of(ms.parse_program(f"{head}    T[i] = {value}\n    Y[n, i] = A[n, i] + T[i] * B[i]\n"))
        assert found is not None
        assert len(inline_stages(found).stages) == count
