"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

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
