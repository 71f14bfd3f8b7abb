"""Nodes of `ai.onnx.ml` as models of their own, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import metasched as ms
from tests.support.onnx_models import model, node, value
from tests.support.tree_models import DOMAIN


def table_model(op: str, arrays: list[Any], outputs: int = 1, version: int = 3, **attributes: Any) -> Any:
    """A model of one node, of a version of its operator set."""
    names = [f"X{n}" for n in range(len(arrays))]
    made = ["Y", "Z"][:outputs]
    whole = model(
        [node(op, " ".join(names), " ".join(made), domain=DOMAIN, **attributes)],
        [value(name, array) for name, array in zip(names, arrays, strict=True)],
        made,
        domains=[DOMAIN],
    )
    whole.opset_import[1].version = version
    return whole


def table_node(op: str, *arrays: Any, outputs: int = 1, version: int = 3, **attributes: Any) -> Any:
    """What a node computes."""
    return ms.load_onnx(table_model(op, list(arrays), outputs, version, **attributes))(*arrays)


def check_table_node(
    op: str, *arrays: Any, outputs: int = 1, version: int = 3, tolerance: float = 2e-6, **attributes: Any
) -> None:
    """Compare what a node computes with ONNX's reference."""
    made = table_model(op, list(arrays), outputs, version, **attributes)
    wanted = ReferenceEvaluator(made).run(None, {f"X{n}": array for n, array in enumerate(arrays)})
    found = ms.load_onnx(made)(*arrays)
    for got, one in zip(found if outputs > 1 else [found], wanted, strict=True):
        assert got.shape == np.shape(one)
        np.testing.assert_allclose(got, one, rtol=tolerance, atol=tolerance)


def table_refusal(op: str, *arrays: Any, outputs: int = 1, version: int = 3, **attributes: Any) -> str:
    """Why a node is refused."""
    with pytest.raises(ms.RefusedModel) as refused:
        ms.load_onnx(table_model(op, list(arrays), outputs, version, **attributes))
    return refused.value.refusals[0].reason
