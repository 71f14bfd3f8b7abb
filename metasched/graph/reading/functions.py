"""Bodies of node types that are defined by other node types: ONNX's own, and the functions of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metasched.graph.reading.model_file import onnx_module
from metasched.graph.reading.tensors import number_of
from metasched.graph.value_type import ValueType


def schema_of(op: str, domain: str, opset: int) -> Any | None:
    """ONNX's description of a node type at a version of the operator set; None where there is none."""
    onnx = onnx_module()
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


def body_of(schema: Any, node: Any, opset: int, types: Sequence[ValueType | None]) -> Any | None:
    """The FunctionProto by which ONNX defines a node type, for a node with inputs of these types; None without one."""
    onnx = onnx_module()
    for versions, get in (
        (schema.function_opset_versions, schema.get_function_with_opset_version),
        (
            schema.context_dependent_function_opset_versions,
            lambda v: schema.get_context_dependent_function_with_opset_version(
                v, node.SerializeToString(), [_type_proto(onnx, t).SerializeToString() for t in types]
            ),
        ),
    ):
        fitting = [version for version in versions if version <= opset]
        if fitting:
            return onnx.FunctionProto.FromString(get(max(fitting)))
    return None


def add_defaults(schema: Any, node: Any) -> Any:
    """The node with the attributes that it leaves out and that have a default."""
    onnx = onnx_module()
    whole = onnx.NodeProto()
    whole.CopyFrom(node)
    given = {attribute.name for attribute in node.attribute}
    whole.attribute.extend(
        attribute.default_value
        for name, attribute in schema.attributes.items()
        if name not in given and attribute.default_value.name
    )
    return whole


def bound_attributes(node: Any, given: Mapping[str, Any]) -> Any:
    """A node of a function's body, with attributes that refer to the function's replaced by what the call gives."""
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return node
    onnx = onnx_module()
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            copy = onnx.AttributeProto()
            copy.CopyFrom(given[attribute.ref_attr_name])
            copy.name = attribute.name
            bound.attribute.append(copy)
    return bound


def _type_proto(onnx: Any, type_: ValueType | None) -> Any:
    if type_ is None:
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(number_of(type_.dtype), type_.shape)
