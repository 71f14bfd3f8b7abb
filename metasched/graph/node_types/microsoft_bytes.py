"""Functions of quantised tensors that ONNX Runtime's quantiser writes: what the bytes stand for, as bytes again.

Each operand is three inputs, the bytes, their scale and their zero point, which may be left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.node_types.quantization import dequantize_values, quantize_values
from metasched.graph.registry import NodeForm, call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import real

Results = tuple[GraphValue, ...]

# An operand, and scale and zero point of the result; or two operands.
_ONE, _TWO = (4, 5), (7, 8)
_WINDOWS = {
    "auto_pad": "NOTSET",
    "ceil_mode": 0,
    "channels_last": 0,
    "count_include_pad": 0,
    "kernel_shape": list,
    "pads": list,
    "strides": list,
}


def _scalar(site: NodeSite, number: int) -> GraphValue | None:
    given = site.optional(number)
    return None if given is None else site.view(given, ())


def _operand(site: NodeSite, number: int) -> GraphValue:
    """What the bytes of an input stand for; its scale and zero point are the inputs after it."""
    scale = site.view(site.operand(number + 1), ())
    return dequantize_values(site, site.operand(number), scale, _scalar(site, number + 2), scale.type.dtype)


def _bytes(site: NodeSite, x: GraphValue, number: int, dtype: DType | None = None) -> GraphValue:
    """A value as bytes, by the scale that is an input and the zero point after it."""
    zero = _scalar(site, number + 1)
    kind = dtype or (zero.type.dtype if zero is not None else site.operand(0).type.dtype)
    return quantize_values(site, x, site.view(site.operand(number), ()), zero, kind)


@node_type("com.microsoft:QLinearAdd", form=NodeForm(_TWO))
def add(site: NodeSite) -> Results:
    return (_bytes(site, site.elementwise("{0} + {1}", _operand(site, 0), _operand(site, 3)), 6),)


@node_type("com.microsoft:QLinearMul", form=NodeForm(_TWO))
def mul(site: NodeSite) -> Results:
    return (_bytes(site, site.elementwise("{0} * {1}", _operand(site, 0), _operand(site, 3)), 6),)


@node_type("com.microsoft:QLinearSigmoid", form=NodeForm(_ONE))
def sigmoid(site: NodeSite) -> Results:
    return (_bytes(site, call_node(site, "Sigmoid", _operand(site, 0)), 3),)


@node_type("com.microsoft:QLinearLeakyRelu", form=NodeForm(_ONE, {"alpha": 0.01}))
def leaky_relu(site: NodeSite) -> Results:
    alpha = real(site.attribute("alpha"))
    return (_bytes(site, site.elementwise(f"({{0}} if {{0}} >= 0.0 else {alpha} * {{0}})", _operand(site, 0)), 3),)


@node_type("com.microsoft:QLinearSoftmax", form=NodeForm((5, 5), {"axis": -1, "opset": int}))
def softmax(site: NodeSite) -> Results:
    x = _operand(site, 0)
    axis = site.axis(int(site.attribute("axis")), x.rank)
    if int(site.require_attribute("opset")) >= 13:
        return (_bytes(site, call_node(site, "Softmax", x, axis=axis), 3),)
    # Until opset 13 all dimensions from the axis on were one.
    rows = math.prod(x.shape[:axis])
    matrix = site.view(x, (rows, x.type.size // rows if rows else 0))
    return (_bytes(site, site.view(call_node(site, "Softmax", matrix, axis=1), x.shape), 3),)


@node_type("com.microsoft:QLinearWhere", form=NodeForm((9, 9)))
def where(site: NodeSite) -> Results:
    chosen = call_node(site, "Where", site.operand(0), _operand(site, 1), _operand(site, 4))
    return (_bytes(site, chosen, 7, site.operand(1).type.dtype),)


@node_type("com.microsoft:QLinearReduceMean", form=NodeForm(_ONE, {"axes": list, "keepdims": 1}))
def reduce_mean(site: NodeSite) -> Results:
    axes = site.attribute("axes")
    given = None if axes is None else site.constant(np.array(axes, np.int64), DType.I64)
    mean = call_node(site, "ReduceMean", _operand(site, 0), given, keepdims=int(site.attribute("keepdims")))
    return (_bytes(site, mean, 3),)


@node_type("com.microsoft:QLinearConcat", form=NodeForm((5, 2**31 - 1), {"axis": int}))
def concat(site: NodeSite) -> Results:
    """The scale and the zero point of the result come first; operands that have the same stay as they are."""
    dtype = site.operand(1).type.dtype
    parts = [
        site.operand(n)
        if _are_same_number(site, n + 1, 0) and _are_same_number(site, n + 2, 1)
        else _bytes(site, _operand(site, n), 0, dtype)
        for n in range(2, len(site.inputs), 3)
    ]
    return (call_node(site, "Concat", *parts, axis=int(site.require_attribute("axis"))),)


def _are_same_number(site: NodeSite, one: int, other: int) -> bool:
    """Whether two inputs are known, and are one number."""
    a, b = (site.operand(n).constant for n in (one, other))
    return a is not None and b is not None and np.array_equal(a.reshape(-1), b.reshape(-1))


@node_type("com.microsoft:QLinearGlobalAveragePool", form=NodeForm((5, 5), {"channels_last": 0}))
def global_average_pool(site: NodeSite) -> Results:
    return (_bytes(site, _pool(site, "GlobalAveragePool", {}), 3),)


@node_type("com.microsoft:QLinearAveragePool", form=NodeForm(_ONE, _WINDOWS))
def average_pool(site: NodeSite) -> Results:
    names = [name for name in _WINDOWS if name != "channels_last" and name in site.attributes]
    return (_bytes(site, _pool(site, "AveragePool", {name: site.attributes[name] for name in names}), 3),)


def _pool(site: NodeSite, op: str, attributes: dict[str, Any]) -> GraphValue:
    """A pool of what the bytes stand for, whose channels may come last."""
    x = _operand(site, 0)
    if not site.flag("channels_last"):
        return call_node(site, op, x, **attributes)
    return channels_last(site, call_node(site, op, channels_first(site, x), **attributes))


def channels_first(site: NodeSite, x: GraphValue) -> GraphValue:
    """Images whose channels came last."""
    return call_node(site, "Transpose", x, perm=(0, x.rank - 1, *range(1, x.rank - 1)))


def channels_last(site: NodeSite, x: GraphValue) -> GraphValue:
    """Images whose channels came ahead of their rows."""
    return call_node(site, "Transpose", x, perm=(0, *range(2, x.rank), 1))
