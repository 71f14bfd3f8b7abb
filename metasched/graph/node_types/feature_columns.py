"""Columns of tables: scaled, brought to one length, picked, put together, and with what is missing filled in."""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.node_helpers.feature_rows import float_rows, rows_of
from metasched.graph.registry import call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import number, real
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]

# A length that is no less divides a row.
_LEAST_NORM = 1e-30


@node_type("ai.onnx.ml:Scaler")
def scaler(site: NodeSite) -> Results:
    """Each column less a number, times another; of f32."""
    x = site.operand(0)
    wide = x.type.dtype if x.type.dtype is DType.F64 else DType.F32
    offset, scale = (
        site.constant(_of_columns(site, name, x.shape[-1], missing).astype(wide.numpy), wide)
        for name, missing in (("offset", 0.0), ("scale", 1.0))
    )
    made = site.with_arguments("({0} - {1}) * {2}", (site.cast(x, wide), offset, scale), wide)
    return (site.cast(made, DType.F32),)


def _of_columns(site: NodeSite, name: str, columns: int, missing: float) -> Array:
    """An attribute with a number for each column, or one for all."""
    given = np.array(site.attribute(name, ()), np.float32)
    if given.size not in (0, 1, columns):
        raise Unsupported(f"it has {given.size} numbers `{name}`, and the input has {columns} columns")
    return given if given.size else np.array([missing], np.float32)


@node_type("ai.onnx.ml:Normalizer")
def normalizer(site: NodeSite) -> Results:
    """Rows divided by their length: the largest element without its sign, a sum of these, or a root of squares."""
    norm = site.require_one_of("norm", "MAX", ("MAX", "L1", "L2"))
    x = float_rows(site)
    sizes = {"MAX": ("max", "abs({})"), "L1": ("sum", "abs({})"), "L2": ("sum", "{0} * {0}")}
    reducer, term = sizes[norm]
    rows, columns = x.shape
    length = "sqrt(S[i0])" if norm == "L2" else "S[i0]"
    dtype = x.type.dtype.compute
    stages = [
        f"S: {dtype}[{rows}]",
        f"S[i0] = {reducer}[r < {columns}]({term.format('X[i0, r]')})",
        f"Y[i0, i1] = X[i0, i1] / max({length}, {_LEAST_NORM})",
    ]
    made = site.single(stages, x.type, X=x)
    return (site.cast(site.view(made, site.operand(0).shape), DType.F32),)


@node_type("ai.onnx.ml:Imputer")
def imputer(site: NodeSite) -> Results:
    """What is missing in a column is a number of the column's: NaN, or another number that says so."""
    x = site.operand(0)
    dtype = x.type.dtype
    names = ("imputed_value_floats", "replaced_value_float", 0.0)
    if not dtype.is_float:
        names = ("imputed_value_int64s", "replaced_value_int64", 0)
    values, what, default = names
    given = np.array(site.attribute(values, ()), np.float32 if dtype.is_float else np.int64)
    if given.size not in (1, x.shape[-1]):
        raise Unsupported(f"it has {given.size} `{values}`, and the input, {x.type}, has {x.shape[-1]} columns")
    replaced = site.attribute(what, default)
    is_missing = "{0} != {0}" if dtype.is_float and np.isnan(replaced) else f"{{0}} == {_literal(replaced, dtype)}"
    filling = site.constant(given.astype(dtype.numpy), dtype)
    return (site.with_arguments(f"{{1}} if {is_missing} else {{0}}", (x, filling), dtype),)


def _literal(value: float, dtype: DType) -> str:
    text = number(np.array(value).astype(dtype.numpy).item(), dtype)
    if text is None:
        raise Unsupported(f"the language has no literal for {value} of {dtype}")
    return text


@node_type("ai.onnx.ml:Binarizer")
def binarizer(site: NodeSite) -> Results:
    """One where an element is more than a number, and zero elsewhere."""
    x = site.operand(0)
    threshold = float(np.float32(site.attribute("threshold", 0.0)))
    dtype = x.type.dtype
    wide = f"{DType.F32 if dtype.bits < DType.I64.bits else DType.F64}({{0}})"
    one, zero = (number(n, dtype) for n in (1, 0))
    return (site.elementwise(f"{one} if {wide} > {real(threshold)} else {zero}", x),)


@node_type("ai.onnx.ml:ArrayFeatureExtractor")
def array_feature_extractor(site: NodeSite) -> Results:
    """Some columns, by their numbers."""
    x, index = site.operand(0), site.operand(1)
    if x.rank == 1:
        x = rows_of(site, x)
    flat = site.view(index, (index.type.size,))
    return (call_node(site, "Gather", x, flat, axis=x.rank - 1),)


@node_type("ai.onnx.ml:FeatureVectorizer")
def feature_vectorizer(site: NodeSite) -> Results:
    """Inputs side by side, each with as many columns as is said: the first ones, or with zeros behind; of f32."""
    sizes = [int(n) for n in site.attribute("inputdimensions", ())]
    parts = [site.view(x, (x.shape[0], 1)) if x.rank == 1 else rows_of(site, x) for x in site.operands]
    if len(sizes) not in (0, len(parts)) or any(n < 0 for n in sizes):
        raise Unsupported(f"its `inputdimensions` are {sizes}, for {len(parts)} inputs")
    wanted = sizes or [part.shape[1] for part in parts]
    fitted = [
        _with_columns(site, site.cast(part, DType.F32), count)
        for part, count in zip(parts, wanted, strict=True)
        if count
    ]
    return (call_node(site, "Concat", *fitted, axis=1),)


def _with_columns(site: NodeSite, x: GraphValue, count: int) -> GraphValue:
    rows, columns = x.shape
    if count == columns:
        return x
    text = f"Y[i0, i1] = X[i0, i1] if i1 < {columns} else 0.0"
    return site.single([text], ValueType(DType.F32, (rows, count)), X=x)
