"""Every expert trace replays on its operator, at the shape that it names, and computes what the operator does."""

from __future__ import annotations

from typing import Any

import pytest

import metasched as ms
from metasched import operators
from metasched.ir.validate import validate
from metasched.schedule.trace import Trace
from tests.support.agreement import check_kernel
from tests.support.cross import for_sapphire_rapids

TRACES = operators.expert_names()


@pytest.mark.parametrize("name", TRACES)
def test_replays_and_agrees_with_the_reference(name: str) -> None:
    expert = operators.expert(name)
    program = expert.program()
    schedule = expert.trace.apply_to(program)
    validate(schedule.func)
    try:
        kernel = ms.compile(program, trace=expert.trace)
    except ms.BuildError as error:
        assert for_sapphire_rapids(schedule.func)  # it is code on the CPU that has everything
        pytest.skip(f"this machine cannot run it: {error.reason}")
    check_kernel(kernel, program)


@pytest.mark.parametrize("name", TRACES)
def test_says_what_it_shows(name: str) -> None:
    expert = operators.expert(name)
    assert expert.about
    assert expert.trace.data.program == expert.operator
    assert expert.operator in operators.names()


@pytest.mark.parametrize("name", TRACES)
def test_prints_and_parses_back(name: str) -> None:
    trace = operators.expert(name).trace
    assert Trace.parse(str(trace)) == trace


@pytest.mark.parametrize("name", TRACES)
def test_comes_back_from_python_and_json(name: str) -> None:
    expert = operators.expert(name)
    made: dict[str, Any] = {}
    exec(expert.trace.as_python(expert.program()), made)
    schedule = ms.Schedule(expert.program())
    made["schedule"](schedule)
    assert schedule.trace == expert.trace
    assert Trace.from_json(expert.trace.as_json()) == expert.trace


def test_traces_of_an_operator_are_by_variant() -> None:
    assert operators.expert("matmul_nn.blocked").trace == operators.expert_traces("matmul_nn")["blocked"]
    assert operators.expert_traces("transpose") == {}


def test_a_trace_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ms.MetaschedError, match=r"no expert trace `matmul_nn.bloked`\n.*did you mean `matmul_nn.blocked`"
    ):
        operators.expert("matmul_nn.bloked")
    with pytest.raises(ms.MetaschedError, match=r"no expert trace `argmax`\n  hint: there are argmax.lanes$"):
        operators.expert("argmax")
    with pytest.raises(ms.MetaschedError, match=r"no operator `matmul`\n  hint: did you mean `matmul_\w+`"):
        operators.expert_traces("matmul")
