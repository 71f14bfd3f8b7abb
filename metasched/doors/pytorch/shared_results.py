"""Results of a graph that share memory, as they do in PyTorch.

A network gives each of its results memory of its own. So it gives the value that owns what is shared, and PyTorch makes
the results that are views of it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from metasched.doors.pytorch.tensors import fills_its_memory, torch_module
from metasched.support.data_classes import dataclass
from metasched.support.imports import imports

_GAPS = "results share its memory, which has gaps"
_SEVERAL_OWNERS_REASON = "results share memory that several of its outputs have"


@dataclass(frozen=True)
class SharedResults:
    """How results come to share memory.

    Attributes:
        views: the nodes that make results of the values that own the memory. PyTorch runs them, and nothing else reads
            them.
        left: operators that PyTorch has to run, as no network gives results such memory, and why.

    """

    views: frozenset[Any]
    left: Mapping[Any, str]


def share_results(graph: Any) -> SharedResults:
    """Make a graph give its results as views of the values that own their memory, by nodes that nothing else reads.

    Views of inputs are, too, and what has more elements than its memory. A result that shares its memory with no other
    stays as it is, so that a network computes no more than it.
    """
    output = _output(graph)
    by_storage: dict[Any, list[Any]] = {}
    for node in output.all_input_nodes:
        storage = _storage(node.meta.get("val"))
        if storage is not None:
            by_storage.setdefault(storage, []).append(node)
    copies: dict[Any, Any] = {}
    made: dict[Any, Any] = {}
    left: dict[Any, str] = {}
    for storage, nodes in by_storage.items():
        owners = {_owner(node, storage) for node in nodes}
        if len(nodes) == 1 and all(owner.op == "call_function" for owner in owners) and not _repeats(nodes[0]):
            continue
        left |= _find_left_operators(owners)
        made |= {node: _copy_chain(output, node, storage, copies) for node in nodes}
    output.args = torch_module().fx.node.map_arg(output.args, lambda node: made.get(node, node))
    graph.eliminate_dead_code()
    return SharedResults(frozenset(copies.values()), left)


def copy_constants(graph: Any, views: Iterable[Any]) -> None:
    """Make a graph give copies of what it holds: whoever has a result may write it.

    Args:
        graph: what holds constants, as attributes.
        views: the nodes that make results of others.

    """
    torch = torch_module()
    copies: dict[Any, Any] = {}
    users = [_output(graph), *views]
    for held in dict.fromkeys(node for user in users for node in user.all_input_nodes if node.op == "get_attr"):
        with graph.inserting_after(held):
            copies[held] = graph.call_function(torch.ops.aten.clone.default, (held,))
    for user in users:
        user.args = torch.fx.node.map_arg(user.args, lambda node: copies.get(node, node))


def _output(graph: Any) -> Any:
    return next(node for node in graph.nodes if node.op == "output")


def _storage(value: Any) -> Any:
    """What is equal for tensors that share memory; None for what has none."""
    if not isinstance(value, torch_module().Tensor) or str(value.layout) != "torch.strided":
        return None
    return imports.module("torch.multiprocessing.reductions").StorageWeakRef(value.untyped_storage())


def _source(node: Any, storage: Any) -> Any:
    """The input that a node is a view of; None where the memory is its own."""
    if node.target is operator.getitem:
        return node.args[0] if _source(node.args[0], storage) is not None else None
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable:
        return None
    return next((given for given in node.all_input_nodes if _storage(given.meta.get("val")) == storage), None)


def _owner(node: Any, storage: Any) -> Any:
    source = _source(node, storage)
    return node if source is None else _owner(source, storage)


def _copy_chain(output: Any, node: Any, storage: Any, copies: dict[Any, Any]) -> Any:
    """A node as copies of all that lead to it from the owner, which networks may go on reading."""
    source = _source(node, storage)
    if source is None:
        return node
    if node not in copies:
        own = _copy_chain(output, source, storage, copies)
        with output.graph.inserting_before(output):
            copies[node] = output.graph.node_copy(node, lambda given: own if given is source else given)
    return copies[node]


def _find_left_operators(owners: Iterable[Any]) -> dict[Any, str]:
    """The operators that PyTorch has to run so that these values own the memory that PyTorch's would."""
    computed = [owner for owner in owners if owner.op == "call_function"]
    if len(computed) > 1:
        return {_operator(owner): _SEVERAL_OWNERS_REASON for owner in computed}
    return {_operator(owner): _GAPS for owner in computed if not _is_whole(owner.meta["val"])}


def _operator(node: Any) -> Any:
    return node.args[0] if node.target is operator.getitem else node


def _is_whole(value: Any) -> bool:
    """Whether a network would give a tensor the memory that PyTorch gives it. What has no known size runs in none."""
    if not _is_known(value.shape):
        return True
    own: bool = value.untyped_storage().nbytes() == value.numel() * value.itemsize
    return own and value.storage_offset() == 0 and fills_its_memory(value)


def _repeats(node: Any) -> bool:
    """Whether a result has more elements than its memory."""
    value = node.meta["val"]
    return _is_known(value.shape) and value.numel() * value.itemsize > value.untyped_storage().nbytes()


def _is_known(shape: Sequence[Any]) -> bool:
    return all(isinstance(extent, int) for extent in shape)
