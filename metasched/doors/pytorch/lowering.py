"""From a graph of ATen operators to a network's graph.

What depends on weights alone is computed by PyTorch, at once. An operator that cannot be expressed is refused, and
stands for an input of what reads it: so one pass finds all of them.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from inspect import signature
from types import MappingProxyType
from typing import Any

from metasched.doors.node_calls import NodeCalls
from metasched.doors.pytorch.registry import known_operators
from metasched.doors.pytorch.site import AtenSite, NestedGraph
from metasched.doors.pytorch.tensors import as_array, language_type, torch_module, value_type
from metasched.graph.builder import GraphBuilder, GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an

# The warnings say what they are of: without any logging set up, Python prints no logger's name.
LOGGER = logging.getLogger("metasched.torch")
# What says where and how a tensor is made, and nothing about its elements. Types are those of the results.
_MEMORY_ARGUMENTS = ("device", "dtype", "layout", "memory_format", "non_blocking", "pin_memory")


@dataclass(frozen=True)
class RefusedOperator:
    """An operator that PyTorch runs, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Weight:
    """A value that is known: a tensor of PyTorch's."""

    tensor: Any = field(compare=False)


@dataclass(frozen=True)
class LoweredNodes:
    """What became of a graph's nodes.

    Attributes:
        builder: the network's graph, as far as it is made.
        values: of each node, by PyTorch's nodes: values, or tuples of them.
        refused: nodes that PyTorch runs.

    """

    builder: GraphBuilder
    values: Mapping[Any, Any]
    refused: Mapping[Any, RefusedOperator]


class Lowering:
    """Lowers the nodes of a graph one after another."""

    def __init__(self, module: Any, builder: GraphBuilder | None = None) -> None:
        """`builder`: the graph that nodes are added to, where `module` is run by an operator of another graph."""
        self._module = module
        self._node = ""
        self.builder = GraphBuilder() if builder is None else builder
        self._calls = NodeCalls(self.builder, lambda: self._node)
        self._values: dict[Any, Any] = {}
        self._constants: dict[Any, GraphValue] = {}
        self._refused: dict[Any, RefusedOperator] = {}

    def lower_nodes(
        self, nodes: Iterable[Any], known: Mapping[Any, Any], left: Mapping[Any, str] = MappingProxyType({})
    ) -> LoweredNodes:
        """Lower nodes in order; `known` are those that have values already, `left` is refused, and why."""
        self._values.update(known)
        for node in nodes:
            if node in self._values or node.op == "output":
                continue
            self._node = node.name
            try:
                if node in left:
                    raise Unsupported(left[node])
                self._values[node] = self._lower_or_refuse(node)
            except Unsupported as error:
                if error.__cause__ is not None:
                    LOGGER.debug("%s is refused", _name(node), exc_info=error)
                self._refuse(node, str(error))
        return LoweredNodes(self.builder, self._values, self._refused)

    def nested_graph(self, module: Any) -> NestedGraph:
        """A graph that a node runs."""
        like = self._node

        def run(given: Sequence[GraphValue | int], name: str) -> list[GraphValue]:
            return Lowering(module, self.builder).results(given, f"{like}/{name}")

        return NestedGraph(run)

    def results(self, given: Sequence[GraphValue | int], path: str) -> list[GraphValue]:
        """What the whole graph gives for its inputs, its nodes named after a path.

        Raises Unsupported with the first node that cannot be expressed.
        """
        nodes = self._module.graph.nodes
        self._values.update(zip((node for node in nodes if node.op == "placeholder"), given, strict=True))
        for node in nodes:
            if node not in self._values and node.op != "output":
                self._node = f"{path}/{node.name}"
                try:
                    self._values[node] = self._lower_or_refuse(node)
                except Unsupported as error:
                    raise Unsupported(f"{_name(node)}, which it runs: {error}") from error
        (made,) = next(node for node in nodes if node.op == "output").args
        return [self.value(node) for node in (made if isinstance(made, tuple | list) else (made,))]

    def value(self, operand: Any) -> GraphValue:
        """A node's value in the graph. Raises Unsupported where it has none."""
        made = self._values[operand]
        if isinstance(made, Weight):
            made = self._constants.get(operand) or self._constant(operand, made.tensor)
        if not isinstance(made, GraphValue):
            source = operand.args[0] if operand.target is operator.getitem else operand
            raise Unsupported(f"it reads what {_name(source)} gives: {_input_refusal(operand.meta.get('val'))}")
        return made

    def input(self, name: str, tensor: Any, order: Sequence[int]) -> GraphValue:
        """An input of the network as it lies in memory, with its dimensions put in their own order."""
        type_ = value_type(tensor)
        given = self.builder.input(name, ValueType(type_.dtype, tuple(type_.shape[dim] for dim in order)))
        return self.transpose(given, [order.index(dim) for dim in range(len(order))])

    def transpose(self, value: GraphValue, order: Sequence[int]) -> GraphValue:
        """A value with its dimensions in an order."""
        if tuple(order) == tuple(range(value.rank)):
            return value
        return self._calls.call("Transpose", value, perm=tuple(order))

    # --- helpers

    def _operand(self, node: Any) -> GraphValue | NestedGraph | int:
        made = self._values[node]
        return made if isinstance(made, NestedGraph | int) else self.value(node)

    def _constant(self, node: Any, tensor: Any) -> GraphValue:
        type_ = value_type(tensor)
        made = self._constants[node] = self.builder.constant(node.name, as_array(tensor.contiguous()), type_)
        return made

    def _refuse(self, node: Any, reason: str) -> None:
        """A refused node is an input of what reads it."""
        self._refused[node] = RefusedOperator(_name(node), reason)
        made = node.meta.get("val")
        parts = made if isinstance(made, tuple | list) else (made,)
        values = tuple(self._stand_in(node, part) for part in parts)
        self._values[node] = values if isinstance(made, tuple | list) else values[0]

    def _stand_in(self, node: Any, tensor: Any) -> GraphValue | None:
        if not isinstance(tensor, torch_module().Tensor):
            return None
        try:
            return self.builder.input(node.name, value_type(tensor))
        except Unsupported:
            return None

    def _lower_or_refuse(self, node: Any) -> Any:
        try:
            return self._lower_node(node)
        except (ValueError, IndexError, ArithmeticError) as error:
            raise Unsupported(f"its arguments do not go together: {error}") from error

    def _lower_node(self, node: Any) -> Any:
        if node.op == "placeholder":
            return self.builder.input(node.name, value_type(_tensor(node.meta.get("val"))))
        if node.op == "get_attr":
            held = _attribute(self._module, node.target)
            return self.nested_graph(held) if isinstance(held, torch_module().fx.GraphModule) else Weight(_tensor(held))
        if node.op != "call_function":
            raise Unsupported("it is no function")
        if node.target is operator.getitem:
            return self._item(*node.args)
        return self._fold_weights(node) or self._call_operator(node)

    def _item(self, given: Any, number: int) -> Any:
        parts = self._values[given]
        made = parts[number] if isinstance(parts, tuple | list) else None
        if made is None:
            raise Unsupported(f"the output {number} of {_name(given)} has no form here")
        return made

    def _fold_weights(self, node: Any) -> Any:
        """The result of an operator of weights alone, computed by PyTorch; None for any other."""
        torch = torch_module()
        if any(not isinstance(self._values.get(n), Weight) for n in node.all_input_nodes):
            return None
        schema = getattr(node.target, "_schema", None)
        if schema is None or schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags:
            return None
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self._values[n].tensor)
        with torch.no_grad():
            made = node.target(*args, **kwargs)
        if isinstance(made, torch.Tensor):
            return Weight(made)
        return tuple(Weight(part) for part in made) if isinstance(made, tuple | list) else None

    def _call_operator(self, node: Any) -> Any:
        run = known_operators().get(_name(node))
        if run is None:
            raise Unsupported("no program is known for this operator")
        made = node.meta.get("val")
        parts = made if isinstance(made, tuple | list) else (made,)
        used = frozenset(user.args[1] for user in node.users if user.target is operator.getitem)
        types = tuple(value_type(_tensor(part)) for n, part in enumerate(parts) if part is not None)
        several = isinstance(made, tuple | list)
        first = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
        site = AtenSite(_name(node), self._calls, types, _promoted_type(node), used if several else frozenset(), first)
        args, kwargs = torch_module().fx.node.map_arg((node.args, node.kwargs), self._operand)
        kwargs = {name: value for name, value in kwargs.items() if name not in _MEMORY_ARGUMENTS}
        try:
            bound = signature(run).bind(site, *args, **kwargs)
        except TypeError as error:
            raise Unsupported(f"its arguments have no form here: {error}") from error
        results = run(*bound.args, **bound.kwargs)
        _require_types(results if isinstance(results, tuple) else (results,), types)
        return results


def _require_types(results: Iterable[GraphValue | None], types: Iterable[ValueType]) -> None:
    """Raise Unsupported where a result is not of the type that PyTorch has: better refused than wrong."""
    for made, wanted in zip(results, types, strict=False):
        if made is not None and made.type != wanted:
            raise Unsupported(f"its result would be {made.type}, and is {wanted}")


def _promoted_type(node: Any) -> Any:
    """The type of a node's operands together."""
    torch = torch_module()
    operands = [arg.meta.get("val") if isinstance(arg, torch.fx.Node) else arg for arg in node.args[:2]]
    operands = [x for x in operands if isinstance(x, torch.Tensor | bool | int | float)]
    if len(operands) == 2:
        return language_type(torch.result_type(*operands))
    tensors = [x for x in operands if isinstance(x, torch.Tensor)]
    return language_type(tensors[0].dtype if tensors else torch.float32)


def _tensor(value: Any) -> Any:
    if not isinstance(value, torch_module().Tensor):
        raise Unsupported(f"it is {a_or_an(type(value).__name__)}, and not a tensor")
    return value


def _input_refusal(given: Any) -> str:
    """Why what PyTorch computes can be no input of a network."""
    try:
        value_type(_tensor(given))
    except Unsupported as error:
        return str(error)
    return "it has no form here"


def _name(node: Any) -> str:
    """The name of an operator: "aten.add.Tensor"; that of a default overload is left out."""
    return str(node.target).removesuffix(".default")


def _attribute(module: Any, target: str) -> Any:
    for name in target.split("."):
        module = getattr(module, name)
    return module
