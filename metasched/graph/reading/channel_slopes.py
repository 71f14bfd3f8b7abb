"""Slopes of `PRelu` before opset 7, which ONNX's converter leaves as they are: one dimension was that of channels."""

from __future__ import annotations

from typing import Any

from metasched.support.imports import imports

# From this opset on, slopes are broadcast from the last dimension.
BROADCAST_OPSET = 7
_CHANNELS = 1  # the dimension of channels


def align_slopes_to_channels(proto: Any) -> Any:
    """A model that was converted from an opset before 7, in which slopes of one dimension have those behind it, too.

    Where ONNX cannot infer how many dimensions a PRelu goes along, its slopes stay as they are.
    """
    if not any(node.op_type == "PRelu" for node in proto.graph.node):
        return proto
    made = type(proto)()
    made.CopyFrom(proto)
    ranks = _ranks(imports.module("onnx.shape_inference").infer_shapes(proto).graph)
    del made.graph.node[:]
    for number, node in enumerate(proto.graph.node):
        rank = ranks.get(node.input[0], 0) if node.op_type == "PRelu" else 0
        if rank > _CHANNELS + 1 and ranks.get(node.input[1]) == 1:
            made.graph.node.extend(_reshape_slopes(made.graph, node, number, rank))
        else:
            made.graph.node.append(node)
    return made


def _ranks(graph: Any) -> dict[str, int]:
    """How many dimensions values have, where that is known."""
    typed = (value for value in (*graph.input, *graph.value_info) if value.type.tensor_type.HasField("shape"))
    of_values = {value.name: len(value.type.tensor_type.shape.dim) for value in typed}
    return of_values | {tensor.name: len(tensor.dims) for tensor in graph.initializer}


def _reshape_slopes(graph: Any, node: Any, number: int, rank: int) -> tuple[Any, Any]:
    """The slopes of a node along channels, and the node."""
    helper = imports.module("onnx.helper")
    x, slopes = node.input
    shape, along = f"{slopes}.shape_of_{number}", f"{slopes}.of_{number}"
    dims = [-1, *[1] * (rank - _CHANNELS - 1)]
    graph.initializer.append(helper.make_tensor(shape, imports.module("onnx").TensorProto.INT64, [len(dims)], dims))
    changed = type(node)()
    changed.CopyFrom(node)
    changed.input[:] = [x, along]
    return helper.make_node("Reshape", [slopes, shape], [along]), changed
