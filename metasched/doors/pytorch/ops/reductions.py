"""Reductions along dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from metasched.doors.pytorch.registry import AtenOperator, aten
from metasched.doors.pytorch.site import AtenSite, along_rows
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.running_reductions import Scan, scan_axis
from metasched.graph.text import real

Dims: TypeAlias = int | Sequence[int] | None


def reduce_dims(site: AtenSite, op: str, x: GraphValue, dim: Dims, keepdim: bool) -> GraphValue:
    """A reduction of ONNX's along dimensions; all of them where none is named."""
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if not x.rank:
        return site.call(op, x, noop_with_empty_axes=1)
    return site.call(op, x, axes=dims or None, keepdims=int(keepdim))


def _result_type_reduction(op: str) -> AtenOperator:
    def run(site: AtenSite, x: GraphValue, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> GraphValue:
        return reduce_dims(site, op, site.value(x, site.result), dim, keepdim)

    return run


def _bool_reduction(op: str) -> AtenOperator:
    def run(site: AtenSite, x: GraphValue, dim: Dims = None, keepdim: bool = False) -> GraphValue:
        return site.value(reduce_dims(site, op, site.value(x, DType.BOOL), dim, keepdim), site.result)

    return run


@aten("argmax", "argmin")
@along_rows
def position(site: AtenSite, x: GraphValue, dim: int | None = None, keepdim: bool = False) -> GraphValue:
    op = "ArgMax" if "argmax" in site.name else "ArgMin"
    if dim is None:
        x, dim = site.nodes.view(x, (x.type.size,)), 0
    return site.nodes.view(site.call(op, x, axis=site.axis(dim, x.rank), keepdims=int(keepdim)), site.shape)


@aten("max.dim", "min.dim")
@along_rows
def extremum(site: AtenSite, x: GraphValue, dim: int, keepdim: bool = False) -> tuple[GraphValue | None, ...]:
    kind = "Max" if "max" in site.name else "Min"
    x = site.value(x, DType.U8) if site.result.is_bool else x
    place = site.call(f"Arg{kind}", x, axis=site.axis(dim, x.rank), keepdims=int(keepdim)) if 1 in site.used else None
    return site.value(reduce_dims(site, f"Reduce{kind}", x, dim, keepdim), site.result), place


@aten("var.correction", "var_mean.correction", "var.dim")
@along_rows
def variance(
    site: AtenSite, x: GraphValue, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    if not x.type.dtype.is_float:
        raise Unsupported("it is of floats")
    wide = x.type.dtype.compute  # as PyTorch has it: squares of halves may be beyond them
    dims = tuple(range(x.rank)) if not dim and dim != 0 else (dim,) if isinstance(dim, int) else tuple(dim or ())
    kept = site.call("ReduceMean", site.value(x, wide), axes=dims, keepdims=1)
    left = max(math.prod(x.shape[n] for n in dims) - (1 if correction is None else correction), 0)
    off = site.accumulate("({0} - {1}) * ({0} - {1})", x, kept, result=wide)
    total = reduce_dims(site, "ReduceSum", off, dims, keepdim)
    made = site.accumulate("{0} / {1}", total, left, divides=True)
    if "var_mean" not in site.name:
        return made
    return made, site.value(site.nodes.view(kept, site.types[1].shape), site.types[1].dtype)


@aten("cumsum", "cumprod")
def running(site: AtenSite, x: GraphValue, dim: int, *, dtype: Any = None) -> GraphValue:
    if not x.rank:
        return site.value(x, site.result)
    scan = Scan("sum" if "cumsum" in site.name else "prod", site.axis(dim, x.rank))
    return scan_axis(site.nodes.site("Scan"), site.value(x, site.result), scan)


@aten("logsumexp")
def log_sum_exp(site: AtenSite, x: GraphValue, dim: Dims, keepdim: bool = False) -> GraphValue:
    return reduce_dims(site, "ReduceLogSumExp", x, dim, keepdim)


@aten("linalg_vector_norm")
def vector_norm(
    site: AtenSite,
    x: GraphValue,
    ord: float = 2,  # noqa: A002 -- PyTorch's name
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> GraphValue:
    x = site.value(x, site.result)
    if ord in (1, 2):
        return reduce_dims(site, f"ReduceL{int(ord)}", x, dim, keepdim)
    if math.isinf(ord):
        return reduce_dims(site, "ReduceMax" if ord > 0 else "ReduceMin", site.expression("abs({0})", x), dim, keepdim)
    if ord == 0:
        return reduce_dims(site, "ReduceSum", site.expression("(1.0 if {0} != 0.0 else 0.0)", x), dim, keepdim)
    powers = site.accumulate(f"pow(abs({{0}}), {real(ord)})", x, result=site.result.compute)
    total = reduce_dims(site, "ReduceSum", powers, dim, keepdim)
    return site.accumulate(f"pow({{0}}, {real(1 / ord)})", total)


@aten("dist")
def distance(site: AtenSite, x: GraphValue, y: GraphValue, p: float = 2) -> GraphValue:
    return vector_norm(site, site.expression("{0} - {1}", x, y), p)


TABLE: Mapping[str, AtenOperator] = {
    **{f"sum{kind}": _result_type_reduction("ReduceSum") for kind in ("", ".dim_IntList")},
    **{f"mean{kind}": _result_type_reduction("ReduceMean") for kind in ("", ".dim")},
    **{f"prod{kind}": _result_type_reduction("ReduceProd") for kind in ("", ".dim_int")},
    "amax": _result_type_reduction("ReduceMax"),
    "amin": _result_type_reduction("ReduceMin"),
    "max": _result_type_reduction("ReduceMax"),
    "min": _result_type_reduction("ReduceMin"),
    **{f"any{kind}": _bool_reduction("ReduceMax") for kind in ("", ".dim", ".dims")},
    **{f"all{kind}": _bool_reduction("ReduceMin") for kind in ("", ".dim", ".dims")},
}
