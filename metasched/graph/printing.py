"""The text of a graph: its values and nodes, bodies of loops below them, and each distinct program once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from metasched.graph.ir import Compute, Graph, Node, ShapeView
from metasched.graph.loop_node import ENDLESS, Loop, LoopInputKind, LoopOutputKind
from metasched.ir.program import Program

_INDENT = "  "


def print_graph(graph: Graph, *, programs: bool = True) -> str:
    """The text of a graph; `programs`: whether those that its nodes run are printed after it."""
    tasks = dict(_tasks(graph))
    numbers = {key: number for number, key in enumerate(tasks)}
    head = f"network {graph.name}({_typed(graph, graph.inputs)}) -> ({', '.join(label for label, _ in graph.outputs)}):"
    lines = [head, *(_INDENT + line for line in _lines(graph, numbers))]
    if programs:
        for number, program in enumerate(tasks.values()):
            lines += ["", f"# task {number}", str(program).rstrip()]
    return "\n".join(lines) + "\n"


def _tasks(graph: Graph) -> Iterator[tuple[str, Program]]:
    """The distinct programs of a graph, and of the bodies of its loops, by their hashes."""
    yield from ((key, nodes[0].program) for key, nodes in graph.tasks.items())
    for loop in graph.loops:
        yield from _tasks(loop.body)


def _lines(graph: Graph, numbers: Mapping[str, int]) -> Iterator[str]:
    for name in graph.constants:
        yield f"const {name}: {graph.types[name]}"
    for node in graph.nodes:
        if isinstance(node, Loop):
            yield from _loop(graph, node, numbers)
        else:
            yield f"{_typed(graph, node.outputs)} = {_call(node, numbers)}"
    for name, part in graph.parts.items():
        moved = "" if part.position is None else f" + {part.position.step}*{part.position.input}"
        yield f"{name} lies in {part.of} from element {part.offset}{moved} on, strides {list(part.strides)}"
    for name, label in graph.states.items():
        yield f"state {name} is next {label}"
    for label, count in graph.counts.items():
        yield f"{label} has as many elements as {count} says"
    for label, name in graph.outputs:
        if label != name:
            yield f"return {label} = {name}"


def _call(node: Node, numbers: Mapping[str, int]) -> str:
    arguments = ", ".join(node.inputs)
    if isinstance(node, Compute):
        task = numbers[node.program.structural_hash()]
        return f"{node.program.name}({arguments})  # task {task}, {node.op} `{node.name}`"
    kind = "view" if isinstance(node, ShapeView) else "in place"
    return f"{kind}({arguments})  # {node.op} `{node.name}`"


def _loop(graph: Graph, loop: Loop, numbers: Mapping[str, int]) -> Iterator[str]:
    body, labels = loop.body, dict(loop.body.outputs)
    yield f"loop {', '.join(_ends(loop)) or 'without end'}:  # {loop.op} `{loop.name}`"
    if loop.counter:
        yield f"{_INDENT}{loop.counter}: {body.types[loop.counter]} counts the steps"
    for name, own in loop.taken(LoopInputKind.STATE):
        yield f"{_INDENT}{own.body}: {body.types[own.body]} begins as {name}"
    for name, own in loop.taken(LoopInputKind.ELEMENTS):
        way = ", from the last on" if own.backwards else ""
        yield f"{_INDENT}{own.body}: {body.types[own.body]} goes through {name}{way}"
    for name, own in loop.taken(LoopInputKind.WHOLE):
        if own.body != name:
            yield f"{_INDENT}{own.body}: {body.types[own.body]} is {name}"
    yield from (_INDENT + line for line in _lines(body, numbers))
    if loop.goes_on:
        yield f"{_INDENT}while {labels[loop.goes_on]}"
    for name, made in zip(loop.outputs, loop.gives, strict=True):
        what = {
            LoopOutputKind.STEPS: "how many steps there were",
            LoopOutputKind.STATE: f"the last {made.body}",
            LoopOutputKind.ELEMENTS: f"each {labels.get(made.body)}{', from the last on' if made.backwards else ''}",
        }
        yield f"{name}: {graph.types[name]} = {what[made.kind]}"


def _ends(loop: Loop) -> Iterator[str]:
    if loop.most < ENDLESS:
        yield f"up to {loop.most} steps" if loop.is_ended_by_data else f"{loop.most} steps"
    for kind, text in ((LoopInputKind.LIMIT, "up to {}"), (LoopInputKind.CONDITION, "if {}")):
        name = loop.input_of(kind)
        if name is not None:
            yield text.format(name)


def _typed(graph: Graph, names: Iterable[str]) -> str:
    return ", ".join(f"{name}: {graph.types[name]}" for name in names)
