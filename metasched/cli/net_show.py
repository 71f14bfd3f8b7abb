"""`metasched net show`: a model as it was imported and as it runs, what each pass did, and its tasks."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping

from metasched.cli.arguments import UsageError
from metasched.cli.command import Console
from metasched.cli.net_arguments import add_database, add_model, network_of
from metasched.graph.ir import Graph
from metasched.graph.loops.flat_graph import flat
from metasched.graph.network import Network
from metasched.graph.network_of_sizes import NetworkOfSizes
from metasched.graph.tasks import TaskTable
from metasched.support.messages import listing

_TEXT_ALONE = ("graph", "optimised", "pass")


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    add_database(parser)
    what = parser.add_mutually_exclusive_group()
    for name, summary in (
        ("summary", "inputs, outputs, constants, and its tasks as a table (what is shown by default)"),
        ("graph", "the graph as it was imported: values, nodes, and each distinct program once"),
        ("optimised", "the same of the graph after the passes, which is what runs"),
        ("passes", "what each pass did, in order"),
        ("tasks", "the distinct programs that run: how often each does, its nodes, its text"),
    ):
        what.add_argument(f"--{name}", dest="what", action="store_const", const=name, help=summary)
    what.add_argument("--pass", dest="one", metavar="NAME", help="what one pass did, and the graph before and after it")
    parser.set_defaults(what="summary")


def run(args: Namespace, console: Console) -> int:
    view = args.what if args.one is None else "pass"
    if args.json and view in _TEXT_ALONE:
        raise UsageError(
            f"--{view} is text, and --json has the summary, what each pass did and the tasks", hint="give one of them"
        )
    network = network_of(args, console, args.db)
    tasks = network.tasks(args.db)
    if args.json:
        console.print_json(_json(network, tasks))
    elif args.one is not None:
        console.print(_before_and_after(network, args.one))
    else:
        console.print(_VIEWS[args.what](network, tasks).rstrip("\n"))
    return 0


def _summary(network: Network | NetworkOfSizes, tasks: TaskTable) -> str:
    graph, optimised = network.graph, network.optimised
    lines = [f"network {graph.name}"]
    lines += [f"  input   {name}: {type_}" for name, type_ in network.inputs.items()]
    lines += [f"  output  {name}: {type_}" for name, type_ in network.outputs.items()]
    lines += [
        f"  {len(graph.constants)} constants of {graph.weight_bytes / 1e6:.1f} MB",
        f"  as imported: {_counts(graph)}",
        f"  as it runs:  {_counts(optimised)}",
        *(f"  runs {name}" for name in network.names if name),
        "",
        str(tasks),
    ]
    return "\n".join(lines)


def _counts(graph: Graph) -> str:
    graph = flat(graph).graph
    kernels = sum(1 for _ in graph.computes)
    return f"{len(graph.nodes)} nodes, {kernels} of them run programs, {len(graph.tasks)} distinct"


def _tasks(_: Network | NetworkOfSizes, tasks: TaskTable) -> str:
    parts = []
    for number, task in enumerate(row.task for row in tasks.rows):
        named = listing(node.name for node in task.nodes)
        parts.append(f"# task {number}, runs {task.weight} times: {named}\n{str(task.program).rstrip()}\n")
    return "\n".join(parts)


def _before_and_after(network: Network | NetworkOfSizes, name: str) -> str:
    reports = {report.name: report for report in network.passes()}
    if name not in reports:
        raise UsageError(f"no pass `{name}`: there are {', '.join(reports)}")
    before, after = reports[name].texts()
    return f"{reports[name]}\n\n# before\n{before}\n# after\n{after}".rstrip("\n")


_VIEWS: Mapping[str, Callable[[Network | NetworkOfSizes, TaskTable], str]] = {
    "summary": _summary,
    "graph": lambda network, _: str(network.graph),
    "optimised": lambda network, _: str(network.optimised),
    "passes": lambda network, _: "\n\n".join(map(str, network.passes())),
    "tasks": _tasks,
}


def _json(network: Network | NetworkOfSizes, tasks: TaskTable) -> dict[str, object]:
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
        "members": [name for name in network.names if name],
        "tasks": [
            {
                "key": row.task.key,
                "runs": row.task.weight,
                "operations": row.task.program.work.operations,
                "nodes": [node.name for node in row.task.nodes],
                "program": str(row.task.program),
                "best_ms": None if row.best_s is None else row.best_s * 1e3,
                "trials": row.trials,
            }
            for row in tasks.rows
        ],
    }
