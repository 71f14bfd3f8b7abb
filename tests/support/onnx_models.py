"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import metasched as ms

OPSET = 22
# Opsets from here on are made up.
_NOWHERE = 1000


def value(name: str, array: Any) -> Any:
    """A graph's input or output of an array's type."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def unknown(name: str) -> Any:
    """An output whose type the model does not say."""
    return onnx.ValueInfoProto(name=name)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[str] = ("Y",),
    constants: Mapping[str, Any] | None = None,
    opset: int = OPSET,
    domains: Sequence[str] = (),
    **more: Any,
) -> Any:
    """A model of these nodes, which imports ONNX's operator set and the first of other domains."""
    imported = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "small", inputs, [unknown(name) for name in outputs], tensors)
    return helper.make_model(graph, opset_imports=imported, **more)


def node(op: str, inputs: str, outputs: str = "Y", **attributes: Any) -> Any:
    """A node; names are separated by spaces, and `-` leaves one out."""
    given, made = ([("" if name == "-" else name) for name in names.split()] for names in (inputs, outputs))
    return helper.make_node(op, given, made, name=f"{op}_node", **attributes)


def even_sizes() -> Any:
    """A model that adds to each row of `x` the larger elements of it and its neighbour: it has only even sizes `h`."""
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ("h", 6))
    nodes = [
        node("Reshape", "x pairs", "r"),
        node("ReduceMax", "r axis", "m", keepdims=1),
        node("Add", "r m", "a"),
        node("Reshape", "a rows", "y"),
    ]
    return model(nodes, [x], ["y"], {"pairs": np.array([-1, 2, 6]), "axis": np.array([1]), "rows": np.array([-1, 6])})


def run(
    op: str,
    *arrays: Any,
    constants: Sequence[int] = (),
    outputs: int = 1,
    opset: int = OPSET,
    domain: str = "",
    **attributes: Any,
) -> Any:
    """What a node of a type computes of arrays (None leaves an input out); those at `constants` are known at load."""
    if onnx.defs.onnx_opset_version() < opset < _NOWHERE:
        pytest.skip(f"the installed onnx does not know opset {opset}")
    names = ["-" if array is None else f"X{n}" for n, array in enumerate(arrays)]
    made = ["Y", "Z", "U"][:outputs]
    given = {f"X{n}": array for n, array in enumerate(arrays) if array is not None}
    known = {f"X{n}": arrays[n] for n in constants}
    free = [value(name, array) for name, array in given.items() if name not in known]
    whole = model(
        [node(op, " ".join(names), " ".join(made), domain=domain, **attributes)],
        free,
        made,
        known,
        opset,
        [domain] * bool(domain),
    )
    network = ms.load_onnx(whole)
    return network(**{name: array for name, array in given.items() if name not in known})


def random(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    """Random numbers between -2 and 2."""
    return (np.random.default_rng(seed).random(shape) * 4 - 2).astype(dtype)


def integers(*shape: int, low: int = -9, high: int = 9, seed: int = 0, dtype: Any = np.int32) -> Any:
    """Random whole numbers."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def some_rows(rank: int) -> list[Any]:
    """Nodes that take `some` rows of `x`, where `mask` holds. What lies behind them in their room is `junk`.

    `axes` are those after the first.
    """
    held = [node("Compress", "mask mask", "held", axis=0)]
    if rank > 1:
        held = [node("Compress", "mask mask", "flat", axis=0), node("Unsqueeze", "flat axes", "held")]
    return [node("Compress", "x mask", "picked", axis=0), *held, node("Where", "held picked junk", "some")]


def check_some_rows(
    nodes: Sequence[Any],
    outputs: Sequence[str],
    x: Any,
    masks: Sequence[Any],
    constants: Mapping[str, Any] | None = None,
    tolerance: float = 0.0,
) -> None:
    """Compare what nodes make of `some` rows of an array with ONNX's reference, a call after another.

    Their room has NaN behind the rows (of whole numbers, the largest one).
    """
    junk = np.array(
        np.nan if x.dtype.kind not in "biu" else True if x.dtype == bool else np.iinfo(x.dtype).max, x.dtype
    )
    known = {"junk": junk, "axes": np.arange(1, x.ndim), **(constants or {})}
    whole = model([*some_rows(x.ndim), *nodes], [value("x", x), value("mask", masks[0])], outputs, known)
    net, reference = ms.load_onnx(whole), ReferenceEvaluator(whole)
    for mask in masks:
        with np.errstate(all="ignore"):
            wanted = reference.run(None, {"x": x, "mask": mask})
        made = net(x, mask)
        for name, got, one in zip(outputs, made if len(outputs) > 1 else [made], wanted, strict=True):
            assert got.shape == np.shape(one), name
            np.testing.assert_allclose(got, one, rtol=tolerance, atol=tolerance, err_msg=name)
