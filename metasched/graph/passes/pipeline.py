"""The passes that there are, found by their files, in the order that they ask for; and a graph after all of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from graphlib import CycleError, TopologicalSorter
from types import ModuleType

from metasched.graph.ir import Graph, LoopNode, print_graph
from metasched.graph.loops.bodies import replace_bodies, settle_loops
from metasched.graph.loops.flat_graph import flat
from metasched.graph.passes.declaration import RUNS_AFTER, Pass, PassContext, PassOptions
from metasched.support.collection import pause_gc
from metasched.support.data_classes import dataclass
from metasched.support.declared_files import DeclaredFiles

__all__ = ["PassOptions", "PassReport", "optimise_graph", "passes", "run_passes"]

LOGGER = logging.getLogger(__name__)

# Files of the folder that are no passes.
_MACHINERY = ("declaration", "pipeline")


def _read_pass(name: str, module: ModuleType) -> Pass | None:
    if name in _MACHINERY:
        return None
    declared = {key: value for key, value in vars(module).items() if RUNS_AFTER.declared_of(value)}
    if list(declared) != [name]:
        raise TypeError(f"{module.__name__} must declare exactly one pass: a function `{name}` with `@graph_pass`")
    run = declared[name]
    if not run.__doc__:
        raise TypeError(f"the pass `{name}` must have a docstring, which says what it does")
    (after,) = RUNS_AFTER.declared_of(run)
    return Pass(name, run, after, run.__doc__.strip().splitlines()[0])


FILES = DeclaredFiles("metasched.graph.passes", "pass", _read_pass)


@cache
def passes() -> tuple[Pass, ...]:
    """Every pass, each after those that it is to come after, and by name where that leaves it open.

    Raises TypeError where one names a pass that is not there, or where they wait for one another.
    """
    return order_passes({name: found for name, found in FILES.load().items() if found is not None})


def order_passes(found: Mapping[str, Pass]) -> tuple[Pass, ...]:
    """Passes in the order in which they run. Raises TypeError, see `passes`."""
    for one in found.values():
        for name in one.after:
            if name not in found:
                raise TypeError(f"the pass `{one.name}` runs after `{name}`, which is none; known are {sorted(found)}")
    sorter = TopologicalSorter({name: set(one.after) for name, one in found.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        raise TypeError(f"the passes {' -> '.join(error.args[1])} each run after the next") from error
    out: list[Pass] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        name = ready.pop(0)
        out.append(found[name])
        sorter.done(name)
    return tuple(out)


@dataclass(frozen=True)
class PassReport:
    """What a pass did: the graph before and after it, and what it had to say. `str()` is for a person to read."""

    name: str
    purpose: str
    before: Graph
    after: Graph
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        both = [flat(graph).graph for graph in (self.before, self.after)]
        counts = [f"{sum(1 for _ in graph.computes)} kernels, {len(graph.tasks)} distinct" for graph in both]
        head = [f"{self.name}: {self.purpose}", f"  {counts[0]} -> {counts[1]}"]
        return "\n".join([*head, *(f"  {remark}" for remark in self.remarks)])

    def texts(self) -> tuple[str, str]:
        """The graph before and after, as text."""
        return print_graph(self.before), print_graph(self.after)


def run_passes(graph: Graph, options: PassOptions) -> Iterator[PassReport]:
    """Run the passes one by one. Raises ValueError where the options leave out a pass that there is not."""
    unknown = options.without - {one.name for one in passes()}
    if unknown:
        raise ValueError(f"there is no pass {', '.join(sorted(unknown))}; known are {[p.name for p in passes()]}")
    for one in passes():
        if one.name in options.without:
            continue
        context = PassContext(options)
        after = settle_loops(_apply_pass(one, graph, context))
        after.validate()
        LOGGER.debug("pass %s: %d nodes -> %d", one.name, len(graph.nodes), len(after.nodes))
        yield PassReport(one.name, one.purpose, graph, after, tuple(context.remarks))
        graph = after


def _apply_pass(one: Pass, graph: Graph, context: PassContext) -> Graph:
    """A graph after a pass, which runs on the bodies of its loops, too."""
    after = one.run(graph, context)
    return replace_bodies(after, lambda loop: _apply_to_body(one, loop, context))


def _apply_to_body(one: Pass, loop: LoopNode, context: PassContext) -> Graph:
    inside = replace(context, remarks=[], in_loop=True)
    made = _apply_pass(one, loop.body, inside)
    for remark in inside.remarks:
        context.remark(f"in each step of `{loop.name}`: {remark}")
    return made


@pause_gc()
def optimise_graph(graph: Graph, options: PassOptions) -> Graph:
    """A graph that computes the same outputs, after all passes.

    Raises GraphError where a pass made a graph that is not well formed, which is a defect of it.
    """
    for report in run_passes(graph, options):
        graph = report.after
    return graph
