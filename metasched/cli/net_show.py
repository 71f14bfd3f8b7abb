"""`metasched net show`: a model as it was imported and as it runs, what each pass did, and its tasks."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping

from metasched.cli.command import Console
from metasched.cli.net_arguments import add_model, network_of
from metasched.cli.render import table
from metasched.graph.ir import Graph
from metasched.graph.network import Network


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    what = parser.add_mutually_exclusive_group()
    for name, summary in (
        ("summary", "inputs, outputs, constants, and its tasks as a table (what is shown by default)"),
        ("graph", "the graph as it was imported: values, nodes, and each distinct program once"),
        ("optimised", "the same of the graph after the passes, which is what runs"),
        ("passes", "what each pass did, in order"),
        ("tasks", "the distinct programs that run: how often each does, its nodes, its text"),
    ):
        what.add_argument(f"--{name}", dest="what", action="store_const", const=name, help=summary)
    parser.set_defaults(what="summary")


def run(args: Namespace, console: Console) -> int:
    network = network_of(args)
    if args.json:
        console.print_json(_json(network))
    else:
        console.print(_VIEWS[args.what](network).rstrip("\n"))
    return 0


def _summary(network: Network) -> str:
    graph, optimised = network.graph, network.optimised
    lines = [f"network {graph.name}"]
    lines += [f"  input   {name}: {type_}" for name, type_ in network.inputs.items()]
    lines += [f"  output  {name}: {type_}" for name, type_ in network.outputs.items()]
    lines += [
        f"  {len(graph.constants)} constants of {graph.weight_bytes / 1e6:.1f} MB",
        f"  as imported: {_counts(graph)}",
        f"  as it runs:  {_counts(optimised)}",
        "",
        table([["task", "runs", "GFLOP", "nodes of the model", "makes"], *_task_rows(optimised)], ">>>"),
    ]
    return "\n".join(lines)


def _counts(graph: Graph) -> str:
    kernels = sum(1 for _ in graph.computes)
    return f"{len(graph.nodes)} nodes, {kernels} of them run programs, {len(graph.tasks)} distinct"


def _task_rows(graph: Graph) -> list[list[str]]:
    """A row for each task; its work is that of all its runs together."""
    rows = []
    for number, nodes in enumerate(graph.tasks.values()):
        work = nodes[0].program.work.operations * len(nodes)
        types = ", ".join(dict.fromkeys(node.op for node in nodes))
        made = ", ".join(str(graph.types[name]) for name in nodes[0].outputs)
        rows.append([str(number), str(len(nodes)), f"{work / 1e9:.3f}", types, made])
    return rows


def _tasks(network: Network) -> str:
    parts = []
    for number, nodes in enumerate(network.optimised.tasks.values()):
        named = ", ".join(f"`{node.name}`" for node in nodes)
        parts.append(f"# task {number}, runs {len(nodes)} times: {named}\n{str(nodes[0].program).rstrip()}\n")
    return "\n".join(parts)


_VIEWS: Mapping[str, Callable[[Network], str]] = {
    "summary": _summary,
    "graph": lambda network: str(network.graph),
    "optimised": lambda network: str(network.optimised),
    "passes": lambda network: "\n\n".join(map(str, network.passes())),
    "tasks": _tasks,
}


def _json(network: Network) -> dict[str, object]:
    graph = network.graph
    return {
        "network": graph.name,
        "inputs": {name: str(type_) for name, type_ in network.inputs.items()},
        "outputs": {name: str(type_) for name, type_ in network.outputs.items()},
        "constants": len(graph.constants),
        "weight_bytes": graph.weight_bytes,
        "nodes_imported": len(graph.nodes),
        "nodes": len(network.optimised.nodes),
        "passes": [{"name": report.name, "remarks": list(report.remarks)} for report in network.passes()],
        "tasks": [
            {
                "key": key,
                "runs": len(nodes),
                "operations": nodes[0].program.work.operations,
                "nodes": [node.name for node in nodes],
                "program": str(nodes[0].program),
            }
            for key, nodes in network.optimised.tasks.items()
        ],
    }
