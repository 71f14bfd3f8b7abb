"""Parts of a graph that run as networks; PyTorch runs the rest."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from metasched.doors.pytorch.lowering import LoweredNodes, Lowering, RefusedOperator, Weight
from metasched.doors.pytorch.shared_results import copy_constants, share_results
from metasched.doors.pytorch.tensors import Layout, as_array, as_tensor, layout, memory_order, permutation, torch_module
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.network import Network
from metasched.support.collection import pause_gc
from metasched.support.data_classes import dataclass
from metasched.support.imports import imports

# Operators that compute nothing: a part of these alone is left to PyTorch, which copies less.
_VIEWS = ("alias", "clone", "detach", "expand", "getitem", "permute", "select", "slice", "squeeze", "unsqueeze", "view")
_CONSTANT = "metasched_constant"
_ORDER_KEYWORD = "metasched_after"


@dataclass(frozen=True)
class NetworkCall:
    """A part of a graph as PyTorch calls it, with tensors.

    Attributes:
        network: what runs.
        inputs: for each of its inputs, the number of the argument, and the order that its dimensions are put in: that
            of memory; None where they are in it.
        outputs: how each of its outputs lies in memory; None where it is contiguous.
        single: whether it gives one tensor, and not a tuple.

    """

    network: Network
    inputs: tuple[tuple[int, tuple[int, ...] | None], ...]
    outputs: tuple[Layout | None, ...]
    single: bool

    def __call__(self, *tensors: Any) -> Any:
        made = self.network(*[as_array(tensors[number], moved) for number, moved in self.inputs])
        arrays = made if isinstance(made, tuple) else (made,)
        results = [as_tensor(array, layout) for array, layout in zip(arrays, self.outputs, strict=True)]
        return results[0] if self.single else tuple(results)


@dataclass(frozen=True)
class PartitionedGraph:
    """A graph whose parts run as networks.

    Attributes:
        run: takes the graph's inputs, and gives its outputs.
        networks: the parts.
        refused: the operators that PyTorch runs, one for each node.
        operators: how many operators run in networks.

    """

    run: Callable[..., Any]
    networks: tuple[Network, ...]
    refused: tuple[RefusedOperator, ...]
    operators: int


@pause_gc()
def partition_graph(module: Any, weights: Mapping[int, Any], make: Callable[[Any], Network]) -> PartitionedGraph:
    """Run as much of a graph as can be by networks.

    Args:
        module: a `torch.fx.GraphModule` of ATen operators, which stays as it is.
        weights: tensors that are constants, by the numbers of the inputs that they are.
        make: a network of a graph.

    """
    torch = torch_module()
    whole = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    placeholders = [node for node in whole.graph.nodes if node.op == "placeholder"]
    known = {placeholders[n]: Weight(tensor) for n, tensor in weights.items()}
    shared = share_results(whole.graph)
    lowered = Lowering(whole).lower_nodes([n for n in whole.graph.nodes if n not in shared.views], known, shared.left)
    refused = {node: why for node, why in lowered.refused.items() if node.op == "call_function"}
    _fold(whole, lowered, known)
    supported = {n for n in lowered.values if n.op == "call_function" and n not in lowered.refused}
    supported -= {n for n in supported if n.target is operator.getitem and n.args[0] not in supported}
    copy_constants(whole.graph, shared.views)
    names = _fuse_parts(whole, supported)
    # The partitioner makes nodes anew; names stay.
    named = {node.name: weight for node, weight in known.items()}
    networks, count = [], 0
    for name in names:
        made = _network_call(whole, name, named, make)
        if isinstance(made, NetworkCall):
            networks.append(made.network)
            count += sum(node.op == "call_function" for node in getattr(whole, name).graph.nodes)
            delattr(whole, name)
            # No module, whose calls go through several functions of PyTorch's.
            setattr(whole, name, _without_constants(whole, name, made))
        else:
            refused |= made
    for node in [node for node in whole.graph.nodes if node.op == "get_attr" and not node.users]:
        whole.graph.erase_node(node)
    whole.recompile()
    return PartitionedGraph(whole.forward, tuple(networks), tuple(refused.values()), count)


def _fold(whole: Any, lowered: LoweredNodes, known: Mapping[Any, Weight]) -> None:
    """Put what was computed of weights into the graph, as attributes."""
    number = 0
    for node in list(whole.graph.nodes):
        made = lowered.values.get(node)
        if node in known or node.op != "call_function":
            continue
        if isinstance(made, Weight):
            name = f"{_CONSTANT}_{number}"
            number += 1
            whole.register_buffer(name, made.tensor)
            with whole.graph.inserting_before(node):
                attribute = whole.graph.get_attr(name)
            attribute.meta = dict(node.meta)
            node.replace_all_uses_with(attribute)
    whole.graph.eliminate_dead_code()
    whole.recompile()


def _fuse_parts(whole: Any, supported: set[Any]) -> list[str]:
    """Put parts of what is supported into modules of their own; their names, in order.

    What draws random numbers stays in order: each such node takes the one before it, until the parts are made.
    """
    for before, node in pairwise([node for node in whole.graph.nodes if _draws(whole, node)]):
        node.kwargs = {**node.kwargs, _ORDER_KEYWORD: before}
    wanted = [part for part in _propose_parts(whole, supported) if not all(map(_is_view, part))]
    known = {node.target for node in whole.graph.nodes if node.op == "call_module"}
    imports.module("torch.fx.passes.utils.fuser_utils").fuse_by_partitions(whole, wanted)
    for node in whole.graph.nodes:
        node.kwargs = {name: given for name, given in node.kwargs.items() if name != _ORDER_KEYWORD}
    return [n.target for n in whole.graph.nodes if n.op == "call_module" and n.target not in known]


def _propose_parts(whole: Any, supported: set[Any]) -> Sequence[Mapping[Any, int | None]]:
    """What is supported, in parts that nothing outside lies between.

    Where PyTorch runs nothing after any of it, that is one part. Else PyTorch's partitioner says, whose time goes by
    the square of the graph's length.
    """
    if not any(supported.intersection(n.all_input_nodes) for n in whole.graph.nodes if _is_left(n, supported)):
        part = dict.fromkeys(node for node in whole.graph.nodes if node in supported)
        return [part] if part else []
    partitioner = imports.module("torch.fx.passes.infra.partitioner").CapabilityBasedPartitioner(
        whole, _SupportedNodes(supported), allows_single_node_partition=True
    )
    return [part.nodes for part in partitioner.propose_partitions()]


def _is_left(node: Any, supported: set[Any]) -> bool:
    """Whether PyTorch runs a node; what is returned is not run."""
    return node not in supported and node.op != "output"


def _draws(module: Any, node: Any) -> bool:
    """Whether a node draws random numbers, itself or in a graph that it runs."""
    torch = torch_module()
    held = [getattr(module, given.target) for given in node.all_input_nodes if given.op == "get_attr"]
    nested = [part for part in held if isinstance(part, torch.fx.GraphModule)]
    if any(_draws(part, inner) for part in nested for inner in part.graph.nodes):
        return True
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _is_view(node: Any) -> bool:
    name = getattr(node.target, "__name__", str(node.target))
    return any(name.startswith(view) for view in _VIEWS)


class _SupportedNodes:
    """What the partitioner asks about each node."""

    def __init__(self, nodes: set[Any]) -> None:
        self._nodes = nodes

    def is_node_supported(self, submodules: Any, node: Any) -> bool:
        del submodules
        return node in self._nodes


def _without_constants(whole: Any, name: str, made: NetworkCall) -> NetworkCall:
    """A part's call without the arguments that its network does not read: they are constants of it."""
    call = _call_of(whole, name)
    call.args = tuple(call.args[number] for number, _ in made.inputs)
    return replace(made, inputs=tuple((n, moved) for n, (_, moved) in enumerate(made.inputs)))


def _call_of(whole: Any, name: str) -> Any:
    return next(node for node in whole.graph.nodes if node.op == "call_module" and node.target == name)


def _network_call(
    whole: Any, name: str, weights: Mapping[str, Weight], make: Callable[[Any], Network]
) -> NetworkCall | Mapping[Any, RefusedOperator]:
    """A part as a network, or what of it is refused after all."""
    call, part = _call_of(whole, name), getattr(whole, name)
    lowering = Lowering(part)
    values: dict[Any, Any] = {}
    inputs: list[tuple[int, tuple[int, ...] | None]] = []
    placeholders = [node for node in part.graph.nodes if node.op == "placeholder"]
    for number, (inner, outer) in enumerate(zip(placeholders, call.args, strict=True)):
        if outer.name in weights:
            values[inner] = weights[outer.name]
        elif outer.op == "get_attr":
            held = getattr(whole, outer.target)
            values[inner] = (
                lowering.nested_graph(held) if isinstance(held, torch_module().fx.GraphModule) else Weight(held)
            )
        else:
            order = memory_order(outer.meta["val"])
            inputs.append((number, permutation(order)))
            values[inner] = lowering.input(inner.name, outer.meta["val"], order)
    lowered = lowering.lower_nodes(part.graph.nodes, values)
    if lowered.refused:
        return lowered.refused
    (result,) = next(node for node in part.graph.nodes if node.op == "output").args
    nodes: Sequence[Any] = result if isinstance(result, tuple | list) else (result,)
    outputs, layouts = [], []
    for number, node in enumerate(nodes):
        order = memory_order(node.meta["val"])
        outputs.append((f"result_{number}", lowering.transpose(lowering.value(node), order)))
        layouts.append(layout(node.meta["val"]))
    graph = lowering.builder.graph(name, outputs)
    graph.validate()
    return NetworkCall(
        make(remove_dead_code(graph)), tuple(inputs), tuple(layouts), not isinstance(result, tuple | list)
    )
