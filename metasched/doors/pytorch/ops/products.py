"""Products of matrices, convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from metasched.doors.pytorch.ops.elementwise import factor
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.text import at, declare_buffer, indices, real
from metasched.graph.value_type import ValueType


@aten("mm", "bmm", "matmul", "mv", "dot")
def matmul(site: AtenSite, x: GraphValue, y: GraphValue) -> GraphValue:
    return site.call("MatMul", x, y)


@aten("addmm", "baddbmm", "addmv", "addbmm")
def added(site: AtenSite, c: GraphValue, x: GraphValue, y: GraphValue, beta: float = 1, alpha: float = 1) -> GraphValue:
    if "addbmm" in site.name:  # the products of a batch are added up: they are one of longer rows
        count, rows, terms = x.shape
        x = site.nodes.view(site.call("Transpose", x, perm=(1, 0, 2)), (rows, count * terms))
        y = site.nodes.view(y, (count * terms, y.shape[2]))
    made = site.call("MatMul", x, y)
    if not beta and alpha == 1:
        return made
    left = "{1}" if alpha == 1 else f"{{1}} * {factor(site, alpha)}"
    right = "{0}" if beta == 1 else f"{{0}} * {factor(site, beta)}"
    return site.expression(f"{left} + {right}" if beta else left, c, made)


@aten("linear")
def linear(site: AtenSite, x: GraphValue, weight: GraphValue, bias: GraphValue | None = None) -> GraphValue:
    made = site.call("MatMul", x, site.call("Transpose", weight, perm=(1, 0)))
    return made if bias is None else site.expression("{0} + {1}", made, bias)


@aten("_trilinear")
def trilinear(
    site: AtenSite,
    x: GraphValue,
    weight: GraphValue,
    y: GraphValue,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> GraphValue:
    """Three tensors, multiplied with dimensions of their own left out, and summed along some."""
    rank = x.rank + len(expand1)
    letters = "abcdefghijklm"[:rank]
    texts = ["".join(c for n, c in enumerate(letters) if n not in left) for left in (expand1, expand2, expand3)]
    result = "".join(c for n, c in enumerate(letters) if n not in sumdim)
    between = "".join(c for c in letters if c in texts[0] + texts[1] and (c in texts[2] or c in result))
    first = site.call("Einsum", x, weight, equation=f"{texts[0]},{texts[1]}->{between}")
    return site.call("Einsum", first, y, equation=f"{between},{texts[2]}->{result}")


@aten("convolution")
def convolution(
    site: AtenSite,
    x: GraphValue,
    weight: GraphValue,
    bias: GraphValue | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> GraphValue:
    rank = weight.rank - 2

    def entries(given: Sequence[int]) -> tuple[int, ...]:
        return tuple(given) * rank if len(given) == 1 else tuple(given)

    pads = entries(padding) * 2
    attributes: dict[str, Any] = {
        "strides": entries(stride),
        "dilations": entries(dilation),
        "pads": pads,
        "group": groups,
    }
    if transposed:
        attributes["output_padding"] = entries(output_padding)
    batched = x if x.rank == weight.rank else site.nodes.view(x, (1, *x.shape))
    made = site.call("ConvTranspose" if transposed else "Conv", batched, weight, bias, **attributes)
    return site.nodes.view(made, site.shape)


def _windows(
    x: GraphValue, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], rank: int
) -> dict[str, Any]:
    def entries(given: Sequence[int]) -> tuple[int, ...]:
        return tuple(given) * rank if len(given) == 1 else tuple(given)

    own = entries(kernel)
    return {"kernel_shape": own, "strides": entries(stride) if stride else own, "pads": entries(padding) * 2}


def _add_batch_dim(site: AtenSite, x: GraphValue, rank: int) -> GraphValue:
    return x if x.rank == rank + 2 else site.nodes.view(x, (1, *x.shape))


@aten("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(
    site: AtenSite,
    x: GraphValue,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    rank = int(site.name.split("d")[0][-1])
    attributes = _windows(x, kernel_size, stride, padding, rank)
    attributes["dilations"] = tuple(dilation) * rank if len(dilation) == 1 else tuple(dilation)
    return _largest(site, x, rank, {**attributes, "ceil_mode": int(ceil_mode)})


def _largest(site: AtenSite, x: GraphValue, rank: int, attributes: Mapping[str, Any]) -> Any:
    """The largest element of each window, and where it is in its channel if that is used."""
    whole = _add_batch_dim(site, x, rank)
    if 1 not in site.used:
        made = site.nodes.view(site.call("MaxPool", whole, **attributes), site.shape)
        return (made, None) if len(site.types) > 1 else made
    found, places = site.nodes.call_outputs("MaxPool", whole, outputs=2, **attributes)
    assert found is not None
    assert places is not None
    area = math.prod(whole.shape[2:])
    own = site.nodes.expression("Place", f"{{0}} % {area}", [places], [DType.I64], DType.I64)
    return site.nodes.view(found, site.shape), site.nodes.view(own, site.shape)


@aten("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(site: AtenSite, x: GraphValue, output_size: Sequence[int]) -> Any:
    rank = len(output_size)
    spatial = x.shape[-rank:]
    if any(n % m for n, m in zip(spatial, output_size, strict=True)):
        site.require_unused(1)
        for n, count in enumerate(output_size):
            x = _reduce_uneven(site, x, x.rank - rank + n, count, averages=False)
        return x, None
    kernel = tuple(n // m for n, m in zip(spatial, output_size, strict=True))
    return _largest(site, x, rank, {"kernel_shape": kernel, "strides": kernel})


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def average_pool(
    site: AtenSite,
    x: GraphValue,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> GraphValue:
    if divisor_override is not None and ceil_mode:
        raise Unsupported("`divisor_override` with `ceil_mode` has no form here")
    rank = int(site.name.split("d")[0][-1])
    attributes = _windows(x, kernel_size, stride, padding, rank)
    counts = count_include_pad or divisor_override is not None
    attributes |= {"ceil_mode": int(ceil_mode), "count_include_pad": int(counts)}
    made = site.nodes.view(site.call("AveragePool", _add_batch_dim(site, x, rank), **attributes), site.shape)
    if divisor_override is None:
        return made
    return site.expression(f"{{0}} * {real(math.prod(attributes['kernel_shape']) / divisor_override)}", made)


@aten("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_average_pool(site: AtenSite, x: GraphValue, output_size: Sequence[int]) -> GraphValue:
    rank = len(output_size)
    spatial = x.shape[-rank:]
    if any(n % m for n, m in zip(spatial, output_size, strict=True)):
        return _uneven_averages(site, x, output_size)
    kernel = tuple(n // m for n, m in zip(spatial, output_size, strict=True))
    made = site.call("AveragePool", _add_batch_dim(site, x, rank), kernel_shape=kernel, strides=kernel)
    return site.nodes.view(made, site.shape)


def _uneven_averages(site: AtenSite, x: GraphValue, output_size: Sequence[int]) -> GraphValue:
    wide = x.type.dtype.compute
    made = site.nodes.cast(x, wide)
    for n, count in enumerate(output_size):
        made = _reduce_uneven(site, made, made.rank - len(output_size) + n, count, averages=True)
    return site.nodes.cast(made, x.type.dtype)


def _reduce_uneven(site: AtenSite, x: GraphValue, axis: int, count: int, *, averages: bool) -> GraphValue:
    """The largest, or the average, of windows of different sizes along a dimension."""
    extent, over = x.shape[axis], indices(x.rank)
    first = f"{over[axis]} * {extent} // {count}"
    end = f"(({over[axis]} + 1) * {extent} + {count - 1}) // {count}"
    longest = max(-(-(n + 1) * extent // count) - n * extent // count for n in range(count))
    place = f"{first} + r0"
    element = at("A", [place if n == axis else name for n, name in enumerate(over)])
    inside = f"r0 < {longest} if {place} < {end} and {place} < {extent}"
    type_ = ValueType(x.type.dtype, tuple(count if n == axis else m for n, m in enumerate(x.shape)))
    if averages:
        stages = [
            declare_buffer("T", type_),
            f"{at('T', over)} = sum[{inside}]({element})",
            f"{at('Y', over)} = {at('T', over)} / {type_.dtype}({end} - {first})",
        ]
    else:
        stages = [f"{at('Y', over)} = max[{inside}]({element})"]
    return site.nodes.site("AdaptivePool").single(stages, type_, A=x)
