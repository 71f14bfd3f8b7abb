"""Passes are found by their files, checked, and ordered by what they say they run after."""

from __future__ import annotations

from types import ModuleType

import pytest

from metasched.graph.ir import Graph
from metasched.graph.passes.declaration import Pass, PassContext, PassOptions, graph_pass
from metasched.graph.passes.pipeline import FILES, order_passes, passes, run_passes
from metasched.target import Target
from tests.support.graphs import network


def _same(graph: Graph, _: PassContext) -> Graph:
    return graph


def _passes(**after: tuple[str, ...]) -> dict[str, Pass]:
    return {name: Pass(name, _same, others, "") for name, others in after.items()}


def test_a_pass_runs_after_those_it_names_and_else_by_name() -> None:
    found = _passes(b=(), a=("c",), c=(), d=("a", "b"))
    assert [one.name for one in order_passes(found)] == ["b", "c", "a", "d"]


def test_every_pass_runs_after_those_it_names() -> None:
    names = [one.name for one in passes()]
    assert all(names.index(other) < names.index(one.name) for one in passes() for other in one.after)
    assert {"dead_code", "constant_folding", "common_subexpressions", "fusion"} <= set(names)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (_passes(a=("nothing",)), "`a` runs after `nothing`, which is none"),
        (_passes(a=("b",), b=("a",)), "each run after the next"),
    ],
)
def test_an_order_that_cannot_be_is_said(found: dict[str, Pass], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        order_passes(found)


def test_a_file_without_its_pass_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="must declare exactly one pass: a function `empty`"):
        FILES.read("empty", ModuleType("empty"))
    module = ModuleType("silent")
    module.silent = graph_pass()(lambda graph, _: graph)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="must have a docstring"):
        FILES.read("silent", module)


def test_each_pass_is_shown_before_and_after() -> None:
    net = network("m (float[2, 3] x) => (y) { a = Neg(x)  y = Relu(a) }")
    reports = net.passes()
    assert [report.name for report in reports] == [one.name for one in passes()]
    fusion = next(report for report in reports if report.name == "fusion")
    assert "2 kernels, 2 distinct -> 1 kernels, 1 distinct" in str(fusion)
    before, after = fusion.texts()
    assert "relu(a)" in before
    assert "max(-A[i0, i1], 0)" in after
    assert str(reports[-1].after) == str(net.optimised)


def test_a_pass_can_be_left_out_by_its_name() -> None:
    graph = network("m (float[2, 3] x) => (y) { a = Neg(x)  y = Relu(a) }").graph
    options = PassOptions(Target.detect(), frozenset({"fusion"}))
    assert "fusion" not in [report.name for report in run_passes(graph, options)]
    with pytest.raises(ValueError, match="there is no pass fussion"):
        list(run_passes(graph, PassOptions(Target.detect(), frozenset({"fussion"}))))
