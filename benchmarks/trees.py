"""Ensembles of random trees against ONNX Runtime, on one thread, untuned.

A line for each ensemble and number of rows of a call: CPU time of the thread, medians of calls each of which has other
rows, as branches of rows that come again are predicted. The sides take turns; ONNX Runtime has a process of its own,
by the Python of `--torch-python PATH` (or METASCHED_TORCH_PYTHON). Trees are whole to their depth, with normally
distributed thresholds and columns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.beside_onnxruntime import compare
from benchmarks.registry import Options, Result
from metasched.target import Target

# Of one side in a round: rows in all, and calls.
_ROWS = 20_000
_MOST_CALLS = 2_000
_FEWEST_CALLS = 5


@dataclass(frozen=True)
class Forest:
    """How many trees there are, how deep, and of how many columns."""

    trees: int
    depth: int
    columns: int

    def model(self) -> Any:
        """A regressor of such trees, with rows left open."""
        from onnx import TensorProto, helper

        rng = np.random.default_rng(0)
        inner, count = 2**self.depth - 1, 2 ** (self.depth + 1) - 1
        number = np.tile(np.arange(count), self.trees)
        tree = np.repeat(np.arange(self.trees), count)
        is_leaf = number >= inner
        attributes = {
            "nodes_treeids": tree,
            "nodes_nodeids": number,
            "nodes_featureids": np.where(is_leaf, 0, rng.integers(self.columns, size=len(number))),
            "nodes_values": np.float32(rng.standard_normal(len(number))),
            "nodes_truenodeids": np.where(is_leaf, 0, 2 * number + 1),
            "nodes_falsenodeids": np.where(is_leaf, 0, 2 * number + 2),
            "target_treeids": tree[is_leaf],
            "target_nodeids": number[is_leaf],
            "target_ids": np.zeros(is_leaf.sum(), int),
            "target_weights": np.float32(rng.standard_normal(is_leaf.sum())),
        }
        given = {name: values.tolist() for name, values in attributes.items()}
        given["nodes_modes"] = np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist()
        node = helper.make_node("TreeEnsembleRegressor", ["X"], ["Y"], domain="ai.onnx.ml", n_targets=1, **given)
        x, y = (
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", columns])
            for name, columns in (("X", self.columns), ("Y", 1))
        )
        sets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(helper.make_graph([node], "trees", [x], [y]), opset_imports=sets, ir_version=9)


FORESTS = (
    Forest(100, 6, 20),
    Forest(500, 6, 100),
    Forest(100, 10, 20),
    Forest(1000, 8, 50),
    Forest(500, 10, 30),
)
BATCHES = (1, 32, 1000, 10_000)


def run(options: Options) -> Iterator[Result]:
    """A line for each ensemble and number of rows."""
    forests, batches = (FORESTS[:1], BATCHES[:2]) if options.quick else (FORESTS, BATCHES)
    target = replace(Target.detect(), threads=1)
    for forest in forests:
        model = forest.model()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trees.onnx")
            path.write_bytes(model.SerializeToString())
            for batch in batches:
                yield _compare(forest, path, batch, target, options)


def _compare(forest: Forest, path: Path, batch: int, target: Target, options: Options) -> Result:
    calls = min(max(_ROWS // batch, _FEWEST_CALLS), _MOST_CALLS)
    given = np.random.default_rng(1).standard_normal((calls, batch, forest.columns), np.float32)
    case = f"{forest.trees} trees of {forest.depth} levels, {forest.columns} columns, {batch} rows"
    return compare(case, path, partial(ms.load_onnx, path, rows=batch, target=target), given, options)
