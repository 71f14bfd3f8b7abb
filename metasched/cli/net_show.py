"""`metasched net show`: the graph of a model, as it was imported or as it runs, and its tasks."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from metasched.cli.command import Console
from metasched.cli.net_arguments import add_model, network_of
from metasched.cli.render import table
from metasched.graph.ir import Graph, print_graph
from metasched.graph.network import Network


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    what = parser.add_mutually_exclusive_group()
    for name, summary in (
        ("summary", "inputs, outputs, and its distinct programs by how often they run (what is shown by default)"),
        ("graph", "the graph as it was imported: values, nodes, and each distinct program once"),
        ("nodes", "the same without the programs"),
    ):
        what.add_argument(f"--{name}", dest="what", action="store_const", const=name, help=summary)
    parser.set_defaults(what="summary")


def run(args: Namespace, console: Console) -> int:
    network = network_of(args)
    if args.json:
        console.print_json(_json(network))
    elif args.what == "summary":
        console.print(_summary(network))
    else:
        console.print(print_graph(network.graph, programs=args.what == "graph").rstrip("\n"))
    return 0


def _summary(network: Network) -> str:
    graph = network.graph
    lines = [f"network {graph.name}"]
    lines += [f"  input   {name}: {type_}" for name, type_ in network.inputs.items()]
    lines += [f"  output  {name}: {type_}" for name, type_ in network.outputs.items()]
    kernels = sum(1 for _ in graph.computes)
    lines += [
        f"  {len(graph.constants)} constants of {graph.weight_bytes / 1e6:.1f} MB",
        f"  {len(graph.nodes)} nodes, {kernels} of them run programs, {len(graph.tasks)} distinct",
        "",
        table(_task_rows(graph), ">>>"),
    ]
    return "\n".join(lines)


def _task_rows(graph: Graph) -> list[list[str]]:
    rows = [["task", "runs", "GFLOP", "node types", "program"]]
    for number, nodes in enumerate(graph.tasks.values()):
        work = nodes[0].program.work.operations * len(nodes)
        types = ", ".join(dict.fromkeys(node.op for node in nodes))
        rows.append([str(number), str(len(nodes)), f"{work / 1e9:.3f}", types, nodes[0].program.name])
    return rows


def _json(network: Network) -> dict[str, object]:
    graph = network.graph
    return {
        "network": graph.name,
        "inputs": {name: str(type_) for name, type_ in network.inputs.items()},
        "outputs": {name: str(type_) for name, type_ in network.outputs.items()},
        "constants": len(graph.constants),
        "weight_bytes": graph.weight_bytes,
        "nodes": len(graph.nodes),
        "tasks": [
            {
                "key": key,
                "runs": len(nodes),
                "operations": nodes[0].program.work.operations,
                "nodes": [node.name for node in nodes],
                "program": str(nodes[0].program),
            }
            for key, nodes in graph.tasks.items()
        ],
    }
