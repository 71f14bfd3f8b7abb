"""Products that ONNX Runtime writes: of bytes, and with what comes ahead of them or behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_types.matmul import product, subtract_zero_point
from metasched.graph.node_types.microsoft_bytes import channels_first, channels_last
from metasched.graph.node_types.quantization import broadcast_scale, quantize_values
from metasched.graph.registry import NodeForm, call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import cast, real

Results = tuple[GraphValue, ...]

_CONVOLUTION = {
    "auto_pad": "NOTSET",
    "dilations": list,
    "group": 1,
    "kernel_shape": list,
    "pads": list,
    "strides": list,
}
_GEMM = {"alpha": 1.0, "transA": 0, "transB": 0}
_MATMUL = {**_GEMM, "transBatchA": 0, "transBatchB": 0}
_ACTIVATION = {"activation": str, "activation_alpha": float, "activation_beta": float, "activation_gamma": float}
# Activations, with the attributes that their parameters are.
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}


def _apply_activation(site: NodeSite, x: GraphValue, parameters: Sequence[float]) -> GraphValue:
    """The activation that the attribute names; without the attribute, the value."""
    name = site.attribute("activation") or ""
    if not name:
        return x
    if name == "Clip" and len(parameters) == 2:
        return site.elementwise(f"min(max({{0}}, {real(parameters[0])}), {real(parameters[1])})", x)
    known = _ACTIVATIONS.get(name)
    if known is None:
        raise Unsupported(f"its activation is {name} of {len(parameters)} numbers")
    if len(parameters) < len(known):
        raise Unsupported(f"its activation is {name} of {len(parameters)} numbers, and it takes {' and '.join(known)}")
    return call_node(site, name, x, **dict(zip(known, parameters, strict=False)))


def _parameters(site: NodeSite) -> list[float]:
    given = [site.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return [float(value) for value in given if value is not None]


def _select_attributes(site: NodeSite, names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: site.attributes[name] for name in names if name in site.attributes}


@node_type(
    "com.microsoft:FusedConv", form=NodeForm((2, 4), {**_CONVOLUTION, "activation": str, "activation_params": list})
)
def fused_convolution(site: NodeSite) -> Results:
    """A convolution, plus the fourth input, and an activation of that."""
    made = call_node(
        site, "Conv", site.operand(0), site.operand(1), site.optional(2), **_select_attributes(site, _CONVOLUTION)
    )
    added = site.optional(3)
    made = made if added is None else call_node(site, "Add", made, added)
    return (_apply_activation(site, made, [float(value) for value in site.attribute("activation_params") or ()]),)


@node_type("com.microsoft:QLinearConv", form=NodeForm((8, 9), {**_CONVOLUTION, "channels_last": 0}))
def quantised_convolution(site: NodeSite) -> Results:
    """As ONNX has it, but that channels of images may come last; those of weights come first."""
    x, *others = (site.optional(n) for n in range(9))
    assert x is not None
    if not site.flag("channels_last"):
        return (call_node(site, "QLinearConv", x, *others, **_select_attributes(site, _CONVOLUTION)),)
    made = call_node(site, "QLinearConv", channels_first(site, x), *others, **_select_attributes(site, _CONVOLUTION))
    return (channels_last(site, made),)


@node_type("com.microsoft:FusedGemm", form=NodeForm((2, 3), {**_GEMM, "beta": 1.0, **_ACTIVATION}))
def fused_gemm(site: NodeSite) -> Results:
    attributes = _select_attributes(site, {**_GEMM, "beta": float})
    made = call_node(site, "Gemm", site.operand(0), site.operand(1), site.optional(2), **attributes)
    return (_apply_activation(site, made, _parameters(site)),)


@node_type("com.microsoft:TransposeMatMul", form=NodeForm((2, 2), _GEMM))
@node_type("com.microsoft:FusedMatMulActivation", form=NodeForm((2, 2), {**_MATMUL, **_ACTIVATION}))
@node_type("com.microsoft:FusedMatMul", form=NodeForm((2, 2), _MATMUL))
def fused_matmul(site: NodeSite) -> Results:
    """`alpha * A @ B`, with A and B transposed as the attributes say."""
    a, b = (_transpose_operand(site, site.operand(n), letter) for n, letter in enumerate("AB"))
    made, alpha = call_node(site, "MatMul", a, b), float(site.attribute("alpha"))
    dtype = made.type.dtype
    if alpha != 1:
        scaled = f"{cast('{0}', dtype, dtype.compute)} * {real(alpha)}"
        made = site.elementwise(cast(scaled, dtype.compute, dtype), made)
    return (_apply_activation(site, made, _parameters(site)),)


def _transpose_operand(site: NodeSite, x: GraphValue, letter: str) -> GraphValue:
    """An operand transposed: its first dimension behind the others of the batch, and its last two."""
    order = list(range(x.rank))
    if site.flag(f"transBatch{letter}") and x.rank > 2:
        order = [*order[1:-1], order[0], order[-1]]
    if site.flag(f"trans{letter}") and x.rank > 1:
        order[-2:] = order[-1], order[-2]
    return x if order == sorted(order) else call_node(site, "Transpose", x, perm=order)


# --- bytes


@node_type("com.microsoft:MatMulIntegerToFloat", form=NodeForm((4, 7)))
def matmul_of_bytes(site: NodeSite) -> Results:
    a, b = site.operand(0), site.operand(1)
    scales = site.operand(2), site.operand(3)
    return (product_of_bytes(site, (a, b), scales, (site.optional(4), site.optional(5)), site.optional(6)),)


@node_type("com.microsoft:DynamicQuantizeMatMul", form=NodeForm((3, 5)))
def dynamically_quantised_matmul(site: NodeSite) -> Results:
    """A matrix of floats as bytes, by the range of its elements, times one of bytes."""
    x, b = site.operand(0), site.operand(1)
    a, scale, zero = quantise_by_range(site, x)
    return (product_of_bytes(site, (a, b), (scale, site.operand(2)), (zero, site.optional(3)), site.optional(4)),)


def product_of_bytes(
    site: NodeSite,
    factors: tuple[GraphValue, GraphValue],
    scales: tuple[GraphValue, GraphValue],
    zeros: tuple[GraphValue | None, GraphValue | None],
    bias: GraphValue | None,
) -> GraphValue:
    """Bytes without their zero points multiplied, scaled, and a bias added to that: in f32."""
    a, b = subtract_zero_point(site, factors[0], zeros[0], -2), subtract_zero_point(site, factors[1], zeros[1], -1)
    total = product(site, a, b, DType.I32, DType.I32)
    left, right = broadcast_scale(site, scales[0], total, -2), broadcast_scale(site, scales[1], total, -1)
    added = [] if bias is None else [bias]
    text = "f32({0}) * ({1} * {2})" + ("" if bias is None else " + {3}")
    return site.with_arguments(text, [total, left, right, *added], DType.F32)


def quantise_by_range(site: NodeSite, x: GraphValue) -> tuple[GraphValue, GraphValue, GraphValue]:
    """Unsigned bytes over the range of the elements and zero, with their scale and zero point."""
    low, high = (call_node(site, op, x, keepdims=0) for op in ("ReduceMin", "ReduceMax"))
    low, high = site.elementwise("min({0}, 0.0)", low), site.elementwise("max({0}, 0.0)", high)
    scale = site.elementwise("(({0} - {1}) / 255.0 if {0} > {1} else 1.0)", high, low)
    zero = site.elementwise("u8(rint(max(0.0, min(255.0, 0.0 - {0} / {1}))))", low, scale, dtype=DType.U8)
    return quantize_values(site, x, scale, zero, DType.U8), scale, zero


@node_type("com.microsoft:QGemm", form=NodeForm((6, 9), _GEMM))
def quantised_gemm(site: NodeSite) -> Results:
    """`alpha * A @ B + C` of bytes, where C has the scale of the product; as bytes where a scale for them is given."""
    a, b = (_transpose_operand(site, site.operand(n), letter) for n, letter in ((0, "A"), (3, "B")))
    if a.rank != 2 or b.rank != 2:
        raise Unsupported(f"{a.type} and {b.type} are not both matrices")
    factors = subtract_zero_point(site, a, site.optional(2), -2), subtract_zero_point(site, b, site.optional(5), -1)
    total = product(site, *factors, DType.I32, DType.I32)
    bias = site.optional(6)
    total = total if bias is None else call_node(site, "Add", total, bias)
    alpha = real(site.attribute("alpha"))
    scales = broadcast_scale(site, site.operand(1), total, -2), broadcast_scale(site, site.operand(4), total, -1)
    made = site.with_arguments(f"f32({{0}}) * ({alpha} * {{1}} * {{2}})", [total, *scales], DType.F32)
    y_scale, y_zero = site.optional(7), site.optional(8)
    if y_scale is None:
        return (made,)
    zero = None if y_zero is None else site.view(y_zero, ())
    kind = a.type.dtype if zero is None else zero.type.dtype
    return (quantize_values(site, made, site.view(y_scale, ()), zero, kind),)
