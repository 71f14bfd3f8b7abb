"""From a model to a graph: each node is turned into programs by its type, or by the body that defines its type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import Folding, GraphBuilder, GraphValue, NodeOrigin, ValueCount
from metasched.graph.counted.row_blocks import run_in_row_blocks
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.counted.size_arithmetic import run_on_sizes
from metasched.graph.errors import BodyRefused, NetworkError, Refusal, RefusedModel, Unsupported
from metasched.graph.ir import Array, Graph
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.node_helpers.packed_numbers import number_type, numbers_in
from metasched.graph.reading.functions import add_defaults, body_of, bound_attributes, schema_of
from metasched.graph.reading.graph_names import names_read
from metasched.graph.reading.model_file import OLDEST_OPSET, ModelFile, onnx_module
from metasched.graph.reading.size_expressions import names_in, size_of
from metasched.graph.reading.size_names import size_names
from metasched.graph.reading.tensors import array_of, element_type, few_bit_type, packed_bytes
from metasched.graph.registry import NodeForm, NodeType, node_types, unknown_type_reason
from metasched.graph.site import Made, NodeSite, RunBody, SiteGraphs
from metasched.graph.value_type import ValueType
from metasched.support.collection import pause_gc
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an, listing
from metasched.target import Target

_OURS = ("", "ai.onnx")
# A model's functions may call one another; what is deeper, or comes to more nodes, is a loop or a bomb.
_DEEPEST = 32
_MOST_NODES = 200_000


@dataclass(frozen=True)
class Binding:
    """What a caller settles at load: sizes by their names in the model, shapes of inputs, and values of inputs.

    `target` is the CPU that the graph is for, where a node leaves open how exactly it computes.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None


class _NotKnown:
    """What stands for a value that a refused node would have computed."""


_NOT_KNOWN = _NotKnown()


@dataclass(frozen=True)
class _Scope:
    """Values by their names in a graph or a function's body, and the operator sets that its nodes are from."""

    values: dict[str, GraphValue | _NotKnown | None]
    opsets: Mapping[str, int]
    path: str = ""
    depth: int = 0
    made: set[str] = field(default_factory=set)

    def get(self, name: str) -> GraphValue | _NotKnown | None:
        if not name:
            return None
        if name not in self.values:
            raise NetworkError(f"`{name}` is read{self.path and f' in {self.path}'}, and nothing before computes it")
        return self.values[name]


@pause_gc()
def import_model(model: ModelFile, binding: Binding, folding: Folding | None = None) -> Graph:
    """The graph of a model; `folding` says what is computed at load, where that was decided for another graph of it.

    Raises RefusedModel with every node that cannot be expressed, and NetworkError for a model that is wrong or whose
    sizes are not all settled.
    """
    return remove_dead_code(_Importer(model, folding).graph(binding))


@pause_gc()
def import_compared(model: ModelFile, binding: Binding) -> Graph:
    """The graph of a model, as of `import_model`, where it is compared with those of other sizes: steps of recurrent
    layers, of which there may be another number then, are loops.
    """
    return remove_dead_code(_Importer(model, None, is_compared=True).graph(binding))


@pause_gc()
def import_in_blocks(model: ModelFile, binding: Binding) -> Graph:
    """The graph of a model, as of `import_model`, with rows that data count in blocks, where a loop is worth it.

    Graphs that are compared with those of other sizes have no such loops.
    """
    importer = _Importer(model, None)
    return run_in_row_blocks(importer.graph(binding), importer.counts)


def open_sizes(model: ModelFile) -> dict[str, tuple[str, ...]]:
    """The inputs of a model, and the names of their sizes: '' for one that has no name."""
    constants = {tensor.name for tensor in model.proto.graph.initializer}
    return dict(size_names([value for value in model.proto.graph.input if value.name not in constants]))


def initializers(model: ModelFile) -> frozenset[str]:
    """The names of the weights of a model."""
    return frozenset(tensor.name for tensor in model.proto.graph.initializer)


class _Importer:
    def __init__(self, model: ModelFile, folding: Folding | None, *, is_compared: bool = False) -> None:
        self._model = model
        self._proto = model.proto
        self._builder = GraphBuilder(folding, is_compared=is_compared)
        self._refusals: list[Refusal] = []
        self._functions = {(_domain(f.domain), f.name, f.overload): f for f in self._proto.functions}
        self._read = names_read(self._proto.graph)
        self._seen = 0
        self.counts: dict[str, ValueCount] = {}

    def graph(self, binding: Binding) -> Graph:
        proto = self._proto.graph
        self._builder.target = binding.target
        scope = _Scope({}, _opsets(self._proto.opset_import))
        self._check_opsets(scope.opsets)
        if proto.sparse_initializer:
            raise NetworkError(f"{self._model.name} has sparse initializers, which are not read")
        constants = {tensor.name for tensor in proto.initializer}
        inputs = [value for value in proto.input if value.name not in constants]
        self._bind_inputs(scope, inputs, binding)
        for tensor in proto.initializer:
            self._constant(scope, tensor)
        self.import_nodes(proto.node, scope)
        missing = [value.name for value in proto.output if value.name not in scope.values]
        if missing:
            raise NetworkError(f"{self._model.name}: nothing computes the output {', '.join(missing)}")
        outputs = [(value.name, scope.values[value.name]) for value in proto.output]
        for declared, (name, value) in zip(proto.output, outputs, strict=True):
            reason = _output_mismatch(declared, value) if isinstance(value, GraphValue) else ""
            if reason:
                self._refusals.append(Refusal(name, "output", 0, (), reason))
        if self._refusals:
            refused = RefusedModel(self._model.name, tuple(self._refusals), self._model.unconverted)
            raise refused from refused.cause
        made = self._builder.graph(
            proto.name or "network", [(name, value) for name, value in outputs if isinstance(value, GraphValue)]
        )
        made.validate()
        return made

    # --- what the model is given

    def _check_opsets(self, opsets: Mapping[str, int]) -> None:
        newest = onnx_module().defs.onnx_opset_version()
        if opsets.get("", OLDEST_OPSET) > newest:
            raise NetworkError(
                f"{self._model.name} is of opset {opsets['']}, and the installed onnx knows those up to {newest}",
                hint="pip install --upgrade onnx",
            )

    def _constant(self, scope: _Scope, tensor: Any) -> None:
        if few_bit_type(tensor) is not None:
            scope.values[tensor.name] = self._add_packed_constant(scope, tensor)
            return
        try:
            type_, array = array_of(tensor, self._model.folder, self._model.content)
        except Unsupported as error:
            self._refusals.append(Refusal(tensor.name, "initializer", scope.opsets.get("", 0), (), str(error)))
            scope.values[tensor.name] = _NOT_KNOWN
            return
        scope.values[tensor.name] = self._builder.constant(tensor.name, array, type_)

    def _add_packed_constant(self, scope: _Scope, tensor: Any) -> GraphValue:
        """A constant of numbers of few bits, computed from its bytes, which the graph has."""
        found = few_bit_type(tensor)
        assert found is not None, tensor.name
        dtype, bits = found
        array = packed_bytes(tensor, self._model.folder, self._model.content)
        given = self._builder.constant(f"{tensor.name}.bytes", array, ValueType(DType.U8, array.shape))
        origin = NodeOrigin(tensor.name, "Constant", tensor.name)
        site = NodeSite(origin, scope.opsets.get("", 0), (given,), {}, (True,), self._builder)
        shape = tuple(int(extent) for extent in tensor.dims)
        numbers = site.view(numbers_in(site, given, bits, prod(shape), dtype), shape)
        return replace(numbers, bits=bits)

    def _bind_inputs(self, scope: _Scope, inputs: Sequence[Any], binding: Binding) -> None:
        names = [value.name for value in inputs]
        for what, given in (("shapes", binding.shapes), ("values", binding.values)):
            unknown = [name for name in given if name not in names]
            if unknown:
                raise NetworkError(f"`{what}` names {listing(unknown)}", hint=f"the inputs are {listing(names)}")
        sizes = size_names(inputs)
        written = {name for own in sizes.values() for name in own if name}
        named = written | {name for text in written for name in names_in(text)}
        unknown = [name for name in binding.sizes if name not in named]
        if unknown:
            raise NetworkError(
                f"no size is named {listing(unknown, 'or')}", hint=f"those left open are {listing(sorted(named))}"
            )
        open_: list[str] = []
        for value in inputs:
            if value.name in binding.values:
                scope.values[value.name] = self._add_input(value, binding.values[value.name])
                continue
            scope.values[value.name] = self._input(value, binding, sizes[value.name], open_)
        if open_:
            raise NetworkError(
                f"{self._model.name} leaves sizes open: {'; '.join(open_)}",
                hint="give them at load by their names, load_onnx(path, batch=1), or shapes={input: (1, 3, ...)}; "
                "on the command line, -D batch=1 or --shape input=1,3,...",
            )

    def _add_input(self, value: Any, given: Any) -> GraphValue | _NotKnown:
        try:
            dtype = element_type(value.type.tensor_type.elem_type)
        except Unsupported as error:
            return self._refused_input(value, str(error))
        array = np.array(given, dtype.numpy)
        return self._builder.constant(value.name, array, ValueType(dtype, array.shape))

    def _input(self, value: Any, binding: Binding, sizes: Sequence[str], open_: list[str]) -> GraphValue | _NotKnown:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return self._refused_input(value, f"it is {a_or_an(str(kind).removesuffix('_type'))}, and not a tensor")
        type_ = value.type.tensor_type
        try:
            dtype = element_type(type_.elem_type)
        except Unsupported as error:
            return self._refused_input(value, str(error))
        shape: list[int] = []
        if value.name in binding.shapes:
            shape = [int(extent) for extent in binding.shapes[value.name]]
        elif not type_.HasField("shape"):
            open_.append(f"the shape of `{value.name}`")
        else:
            dims = zip(sizes, type_.shape.dim, strict=True)
            shape = [
                _extent(f"dimension {n} of `{value.name}`", *of, binding.sizes, open_) for n, of in enumerate(dims)
            ]
        if any(extent < 0 for extent in shape):
            raise NetworkError(f"the input `{value.name}` has the shape {tuple(shape)}")
        return self._builder.input(value.name, ValueType(dtype, tuple(shape)))

    def _refused_input(self, value: Any, reason: str) -> _NotKnown:
        self._refusals.append(Refusal(value.name, "input", 0, (), reason))
        return _NOT_KNOWN

    # --- nodes

    def import_nodes(self, nodes: Iterable[Any], scope: _Scope) -> None:
        """Import nodes in their order; what they compute is in the scope afterwards."""
        for node in nodes:
            self._seen += 1
            if self._seen > _MOST_NODES:
                raise NetworkError(f"{self._model.name} comes to more than {_MOST_NODES} nodes")
            inputs = [scope.get(name) for name in node.input]
            known = [value for value in inputs if not isinstance(value, _NotKnown)]
            outputs = self._outputs(node, scope, known if len(known) == len(inputs) else None)
            for name, value in zip(node.output, outputs, strict=False):
                if name in scope.made:
                    raise NetworkError(f"`{name}` is computed twice in {scope.path or self._model.name}")
                if isinstance(value, GraphValue) and value.count is not None:
                    self.counts[value.name] = value.count
                if name:
                    scope.values[name] = value
                    scope.made.add(name)

    def _outputs(
        self, node: Any, scope: _Scope, inputs: Sequence[GraphValue | None] | None
    ) -> Sequence[GraphValue | _NotKnown | None]:
        """What a node computes; of a refused one, and where an input is not known, values that are not known."""
        domain = _domain(node.domain)
        opset = scope.opsets.get(domain, 0)
        try:
            if inputs is None:
                self._require_type(node, domain, opset)
            else:
                return self._import_node(node, scope, domain, opset, inputs)
        except Unsupported as error:
            self._refuse(node, scope, opset, inputs, error)
        except BodyRefused:  # its nodes say why
            pass
        except (ValueError, IndexError, ArithmeticError) as error:
            wrong = Unsupported(f"its attributes and inputs do not go together: {error}")
            self._refuse(node, scope, opset, inputs, wrong, cause=error)
        return [_NOT_KNOWN] * len(node.output)

    def _refuse(
        self,
        node: Any,
        scope: _Scope,
        opset: int,
        inputs: Sequence[GraphValue | None] | None,
        error: Unsupported,
        cause: BaseException | None = None,
    ) -> None:
        name = node.name or next(iter(node.output), "")
        path = f"{scope.path}/{name}" if scope.path else name
        types = tuple("-" if value is None else str(value.type) for value in inputs or ())
        self._refusals.append(Refusal(path, _full(node), opset, types, str(error), error.unbound, cause))

    def _require_type(self, node: Any, domain: str, opset: int) -> None:
        """Raise Unsupported for a node of a type that is not known, whatever its inputs are."""
        if (domain, node.op_type, node.overload) in self._functions or _full(node) in node_types():
            return
        schema = schema_of(node.op_type, domain, opset)
        if schema is None or (not schema.has_function and not schema.has_context_dependent_function):
            raise Unsupported(unknown_type_reason(_full(node)))

    def _import_node(
        self, node: Any, scope: _Scope, domain: str, opset: int, inputs: Sequence[GraphValue | None]
    ) -> Sequence[GraphValue | _NotKnown | None]:
        own = self._functions.get((domain, node.op_type, node.overload))
        if own is not None:
            return self._import_function(own, node, scope, inputs, _opsets(own.opset_import))
        known = node_types().get(_full(node))
        if known is not None and known.form is not None:
            _check_form(node, known.form)
            _require_imported(domain, opset)
            return _run_node_type(known, self._site(node, scope, opset, inputs, known.form.defaults))
        schema = _require_schema(node, domain, opset)
        if node.op_type == "If" and not domain and inputs[0] is not None and inputs[0].constant is not None:
            return self._branch(node, scope, inputs[0].constant)
        if known is not None:
            _check_attributes(node, schema)
            return _run_node_type(known, self._site(add_defaults(schema, node), scope, opset, inputs))
        body = body_of(schema, node, opset, [None if value is None else value.type for value in inputs])
        if body is None:
            raise Unsupported(unknown_type_reason(_full(node)))
        # The one body of an older set, that of DynamicQuantizeLinear, uses nothing that 13 means differently. A body
        # that says nothing of ONNX's own types was made for those of the model.
        own_sets = _opsets(body.opset_import)
        standard = own_sets.get("", scope.opsets.get("", OLDEST_OPSET))
        opsets: dict[str, int] = own_sets | {"": max(standard, OLDEST_OPSET)}
        return self._import_function(body, add_defaults(schema, node), scope, inputs, opsets)

    def _site(
        self,
        node: Any,
        scope: _Scope,
        opset: int,
        inputs: Sequence[GraphValue | None],
        defaults: Mapping[str, Any] = MappingProxyType({}),
    ) -> NodeSite:
        first = next((name for name in node.output if name), "value")
        name = node.name or first
        origin = NodeOrigin(f"{scope.path}/{name}" if scope.path else name, node.op_type, first)
        given = {attribute.name: self._attribute(attribute) for attribute in node.attribute}
        return NodeSite(
            origin,
            opset,
            tuple(inputs),
            {**defaults, **given},
            tuple(bool(output) and (scope.depth > 0 or output in self._read) for output in node.output),
            self._builder,
            _Graphs(self, scope, origin.node),
        )

    def _attribute(self, attribute: Any) -> Any:
        onnx = onnx_module()
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            return array_of(value, self._model.folder, self._model.content)[1]
        return value

    def _import_function(
        self, body: Any, node: Any, scope: _Scope, inputs: Sequence[GraphValue | None], opsets: Mapping[str, int]
    ) -> Sequence[GraphValue | _NotKnown | None]:
        """Import the nodes of a function one by one."""
        if scope.depth >= _DEEPEST:
            raise NetworkError(f"functions of {self._model.name} call one another {_DEEPEST} deep")
        given = {attribute.name: attribute for attribute in (*body.attribute_proto, *node.attribute)}
        values: dict[str, GraphValue | _NotKnown | None] = dict.fromkeys(body.input)
        values.update(zip(body.input, inputs, strict=False))
        name = node.name or next(iter(node.output), node.op_type)
        path = f"{scope.path}/{name}" if scope.path else name
        inner = _Scope(values, {**scope.opsets, **opsets}, path, scope.depth + 1)
        self.import_nodes((bound_attributes(part, given) for part in body.node), inner)
        # A body made for a node leaves out what the node does not ask for.
        return [inner.values.get(output) for output in body.output]

    def _branch(self, node: Any, scope: _Scope, condition: Array) -> Sequence[GraphValue | _NotKnown | None]:
        """What the branch of an `If` computes, whose condition is known at load."""
        if scope.depth >= _DEEPEST:
            raise NetworkError(f"branches of {self._model.name} are {_DEEPEST} deep")
        wanted = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        (graph,) = (attribute.g for attribute in node.attribute if attribute.name == wanted)
        inner = _Scope(dict(scope.values), scope.opsets, scope.path, scope.depth + 1)
        for tensor in graph.initializer:
            self._constant(inner, tensor)
        self.import_nodes(graph.node, inner)
        return [inner.get(output.name) for output in graph.output]

    def attempt(self, run: Callable[[], Made]) -> Made | None:
        """What something imports; None where it is refused, of which nothing is said then."""
        before = len(self._refusals)
        try:
            return run()
        except (Unsupported, BodyRefused):
            del self._refusals[before:]
            return None

    def body(self, graph: Any, scope: _Scope, path: str, fixed: Mapping[str, GraphValue]) -> RunBody:
        """What runs a graph that a node has, in the scope around it. What its inputs do not change is imported now."""
        around = self._graph_scope(graph, replace(scope, values={**scope.values, **fixed}), path)
        varying = [value.name for value in graph.input if value.name not in fixed]
        unchanged, moving = _split_dependent(graph.node, varying)
        refused = len(self._refusals)
        self.import_nodes(unchanged, around)
        return self._runner(graph, around, moving, refused)

    def branch(self, graph: Any, scope: _Scope, path: str) -> RunBody:
        """What runs a graph without inputs that a node has: all of it each time."""
        return self._runner(graph, self._graph_scope(graph, scope, path), graph.node, len(self._refusals))

    def _graph_scope(self, graph: Any, scope: _Scope, path: str) -> _Scope:
        """The scope of a graph that a node has, with its constants."""
        if scope.depth >= _DEEPEST:
            raise NetworkError(f"loops of {self._model.name} are {_DEEPEST} deep")
        around = _Scope(dict(scope.values), scope.opsets, path, scope.depth + 1)
        for tensor in graph.initializer:
            self._constant(around, tensor)
        return around

    def _runner(self, graph: Any, around: _Scope, moving: Sequence[Any], refused: int) -> RunBody:
        """What imports some nodes of a graph for given inputs; `refused` is how many refusals there were before it."""
        given = [value.name for value in graph.input]

        def run(values: Sequence[GraphValue], name: str) -> list[GraphValue]:
            if len(values) != len(given):
                raise Unsupported(f"its body has {len(given)} inputs, and is given {len(values)}")
            own = {**around.values, **dict(zip(given, values, strict=True))}
            inner = _Scope(own, around.opsets, f"{around.path}/{name}", around.depth)
            self.import_nodes(moving, inner)
            made = [inner.get(output.name) for output in graph.output]
            found = [value for value in made if isinstance(value, GraphValue)]
            if len(self._refusals) > refused or len(found) < len(made):
                raise BodyRefused
            return found

        return run


@dataclass(frozen=True)
class _Graphs(SiteGraphs):
    """What imports the graphs that a node in a scope has."""

    importer: _Importer
    scope: _Scope
    path: str

    def body(self, graph: Any, fixed: Mapping[str, GraphValue]) -> RunBody:
        return self.importer.body(graph, self.scope, self.path, fixed)

    def branch(self, graph: Any) -> RunBody:
        return self.importer.branch(graph, self.scope, self.path)

    def attempt(self, run: Callable[[], Made]) -> Made | None:
        return self.importer.attempt(run)


def _split_dependent(nodes: Iterable[Any], given: Iterable[str]) -> tuple[list[Any], list[Any]]:
    """The nodes that do not depend on some values, and those that do. Nodes with graphs may read any value."""
    dependent = set(given)
    fixed, moving = list[Any](), list[Any]()
    for node in nodes:
        has_graph = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if has_graph or not dependent.isdisjoint(node.input):
            dependent.update(node.output)
            moving.append(node)
        else:
            fixed.append(node)
    return fixed, moving


def _require_schema(node: Any, domain: str, opset: int) -> Any:
    """ONNX's description of a node's type. Raises Unsupported where there is none, or only an older one than 13's.

    A type that is newer than the model's operator set is what the newest set says: optimisers write such nodes
    (`LayerNormalization`, which came with 17) into models of any set.
    """
    schema = schema_of(node.op_type, domain, opset)
    if schema is None and not domain and opset and node.op_type in node_types():
        schema = schema_of(node.op_type, domain, onnx_module().defs.onnx_opset_version())
    if schema is None:
        _require_imported(domain, opset)
        raise Unsupported(f"the operator set {domain or 'ai.onnx'} {opset} has no such node type")
    if not domain and opset < OLDEST_OPSET:
        later = schema_of(node.op_type, domain, OLDEST_OPSET)
        if later is not None and later.since_version != schema.since_version:
            raise Unsupported(f"it is of opset {opset}, and has changed until {OLDEST_OPSET}, the oldest that is read")
    return schema


def _run_node_type(known: NodeType, site: NodeSite) -> Sequence[GraphValue | None]:
    """The outputs of a node of a type, with the sizes that only a call knows."""
    sizes = run_on_sizes(site)
    if sizes is not None:
        return sizes
    return known.run(site) if known.counts else run_on_rows(known.run, site)


def _require_imported(domain: str, opset: int) -> None:
    if not opset:
        raise Unsupported(f"the model imports no `{domain or 'ai.onnx'}`")


def _check_form(node: Any, form: NodeForm) -> None:
    """Raise Unsupported for attributes and numbers of inputs that nodes of a form have not."""
    onnx = onnx_module()
    for attribute in node.attribute:
        kind = form.kind(attribute.name)
        if kind is None:
            raise Unsupported(f"it has no attribute `{attribute.name}`, as it is known")
        value = onnx.helper.get_attribute_value(attribute)
        if not isinstance(value, bytes if kind is str else kind):
            raise Unsupported(f"the attribute `{attribute.name}` is of another type")
    least, most = form.inputs
    if not least <= len(node.input) <= most:
        raise Unsupported(f"it has {len(node.input)} inputs")


def _check_attributes(node: Any, schema: Any) -> None:
    """Raise Unsupported for attributes and numbers of inputs that the node's type has not."""
    for attribute in node.attribute:
        known = schema.attributes.get(attribute.name)
        if known is None:
            raise Unsupported(f"it has no attribute `{attribute.name}`")
        if int(known.type.value) != attribute.type:
            raise Unsupported(f"the attribute `{attribute.name}` is of another type")
    if not schema.min_input <= len(node.input) <= schema.max_input:
        raise Unsupported(f"it has {len(node.input)} inputs")


def _opsets(imports: Iterable[Any]) -> dict[str, int]:
    return {_domain(entry.domain): int(entry.version) for entry in imports}


def _output_mismatch(declared: Any, value: GraphValue) -> str:
    """Why a value is not the output of a model that is declared; '' where it is."""
    if value.elements is not None:
        return "it is a sequence, and not a tensor"
    number = declared.type.tensor_type.elem_type
    try:
        wanted = element_type(number) if number else number_type(value)
    except Unsupported as error:
        return str(error)
    if wanted is number_type(value):
        return ""
    return f"the model declares elements of {wanted}, and computes {value.type}"


def _domain(domain: str) -> str:
    return "" if domain in _OURS else domain


def _full(node: Any) -> str:
    """The type of a node, with its domain where that is not ONNX's own."""
    domain = _domain(node.domain)
    return f"{domain}:{node.op_type}" if domain else str(node.op_type)


def _extent(place: str, name: str, dim: Any, sizes: Mapping[str, int], open_: list[str]) -> int:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    known = size_of(name, sizes) if name else None
    if known is not None:
        return known
    what = f"`{name}`" if name else "an unnamed one"
    open_.append(f"{what} ({place})")
    return 1
