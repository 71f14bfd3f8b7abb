"""Where `Resize` and `Upsample` looked before opset 11, when nodes did not say it: ONNX's converter leaves it out."""

from __future__ import annotations

from typing import Any

from metasched.support.imports import imports

# From this opset on, a node says where it looks: by the middles of elements, where it says nothing.
PLACES_OPSET = 11
# Before, an output looked at its number over the scale; the nearest element was the one before that, or the one behind
# along dimensions that become smaller, which ONNX has no word for.
OLD_COORDINATES = "asymmetric"
OLD_NEAREST = "simple"


def keep_old_places(graph: Any) -> None:
    """Have each `Resize` of a graph, and of those in it, which was converted from an opset before 11, look where it
    did.
    """
    helper = imports.module("onnx.helper")
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                keep_old_places(inner)
        if node.op_type == "Resize" and node.domain in ("", "ai.onnx"):
            said = {"coordinate_transformation_mode": OLD_COORDINATES, "nearest_mode": OLD_NEAREST}
            node.attribute.extend(helper.make_attribute(name, value) for name, value in said.items())
