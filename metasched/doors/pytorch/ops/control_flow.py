"""Operators that run graphs: `torch.cond`, `torch.while_loop`, `scan` and `map`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from metasched.doors.pytorch.registry import lowers
from metasched.doors.pytorch.site import AtenSite, NestedGraph
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.loop_node import ENDLESS
from metasched.graph.loops.building import LoopElements, LoopFrame, LoopPlaces, LoopResults, RunStep, StepResults
from metasched.graph.node_types.branches import build_branch
from metasched.graph.node_types.loops import build_loop
from metasched.graph.site import Made, SiteGraphs
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]
# A tensor, or a size.
Operand = GraphValue | int


@dataclass(frozen=True)
class _Attempts(SiteGraphs):
    """A graph of PyTorch's is lowered anew each time, and what is refused leaves nothing behind that is read."""

    def attempt(self, run: Callable[[], Made]) -> Made | None:
        try:
            return run()
        except Unsupported:
            return None


@lowers("cond")
def cond(
    site: AtenSite,
    condition: GraphValue,
    then_graph: NestedGraph,
    else_graph: NestedGraph,
    operands: Sequence[Operand] = (),
) -> Results:
    """What one of two graphs gives, chosen by a condition; the other is not computed."""
    given = list(operands)
    runs = [lambda _, name, graph=graph: graph.run(given, name) for graph in (then_graph, else_graph)]
    return build_branch(site.nodes.site("If"), condition, runs)


@lowers("while_loop")
def while_loop(
    site: AtenSite,
    condition_graph: NestedGraph,
    body_graph: NestedGraph,
    states: Sequence[Operand],
    others: Sequence[Operand],
) -> Results:
    """Steps of a graph while another holds of the states; both take the states and what no step changes."""
    begun, around = _states(states), list(others)

    def goes_on(name: str, now: Sequence[GraphValue]) -> GraphValue:
        (holds,) = condition_graph.run([*now, *around], f"{name} condition")
        return site.nodes.view(holds, ())

    def step(name: str, _: GraphValue, now: Sequence[GraphValue], __: Sequence[GraphValue]) -> StepResults:
        after = body_graph.run([*now, *around], name)
        return StepResults(after, (), goes_on(name, after))

    first = goes_on("first", begun)
    if first.constant is None:
        frame = LoopFrame(begun, condition=first)
    else:
        frame = LoopFrame(begun, most=ENDLESS if first.constant.reshape(-1)[0] else 0)
    return _build_aten_loop(site, frame, step).states


@lowers("scan")
def scan(
    site: AtenSite,
    step_graph: NestedGraph,
    states: Sequence[Operand],
    elements: Sequence[Operand],
    others: Sequence[Operand] = (),
) -> Results:
    """A step for each element along the first dimension; it gives states, and what is put along a first dimension."""
    begun, through, around = _states(states), _states(elements), list(others)

    def step(name: str, _: GraphValue, now: Sequence[GraphValue], own: Sequence[GraphValue]) -> StepResults:
        made = step_graph.run([*now, *own, *around], name)
        return StepResults(made[: len(begun)], made[len(begun) :])

    steps = through[0].shape[0]
    if not steps:
        raise Unsupported("it takes no step")
    places = [LoopPlaces()] * (len(site.types) - len(begun))
    found = _build_aten_loop(site, LoopFrame(begun, [LoopElements(x) for x in through], places, steps), step)
    return (*found.states, *found.values)


@lowers("map_impl")
def map_(site: AtenSite, graph: NestedGraph, elements: Sequence[Operand], others: Sequence[Operand] = ()) -> Results:
    """A graph of each element along the first dimension."""
    return scan(site, graph, (), elements, others)


def _build_aten_loop(site: AtenSite, frame: LoopFrame, step: RunStep) -> LoopResults:
    node = replace(site.nodes.site("Loop"), graphs=_Attempts())
    return build_loop(node, frame, step, ())


def _states(operands: Sequence[Operand]) -> list[GraphValue]:
    """What steps change, or go through. Raises Unsupported where that is a number."""
    found = [operand for operand in operands if isinstance(operand, GraphValue)]
    if len(found) < len(operands):
        raise Unsupported("a state of it is a number, and not a tensor")
    return found
