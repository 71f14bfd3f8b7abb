"""Products with weights of a few bits against ONNX Runtime, on one thread, untuned.

A line for each product, number of rows and accuracy that the node asks for: CPU time of the thread, medians of calls
each of which has other rows, in turns. ONNX Runtime has a process of its own, by the Python of `--torch-python PATH`
(or METASCHED_TORCH_PYTHON).
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

# Of one side in a round.
_CALLS = 50
# The `accuracy_level` of a node, and what its rows may be rounded to.
_ACCURACIES = {0: "f32", 4: "bytes"}


@dataclass(frozen=True)
class Weights:
    """A matrix of `terms` by `columns` numbers of `bits` bits, each 32 terms of which have a scale."""

    terms: int
    columns: int
    bits: int
    block: int = 32

    def model(self, accuracy: int) -> Any:
        """A product with them, with rows left open."""
        from onnx import TensorProto, helper, numpy_helper

        rng = np.random.default_rng(0)
        blocks = self.terms // self.block
        packed = rng.integers(256, size=(self.columns, blocks, self.block * self.bits // 8)).astype(np.uint8)
        scales = rng.random(self.columns * blocks, np.float32) * np.float32(0.02)
        known = {"N": self.columns, "K": self.terms, "bits": self.bits, "block_size": self.block}
        node = helper.make_node(
            "MatMulNBits", ["X", "Q", "S"], ["Y"], domain="com.microsoft", accuracy_level=accuracy, **known
        )
        x, y = (
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", columns])
            for name, columns in (("X", self.terms), ("Y", self.columns))
        )
        constants = [numpy_helper.from_array(packed, "Q"), numpy_helper.from_array(scales, "S")]
        sets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        graph = helper.make_graph([node], "few_bits", [x], [y], constants)
        return helper.make_model(graph, opset_imports=sets, ir_version=9)


WEIGHTS = (Weights(2048, 2048, 4), Weights(2048, 5632, 4), Weights(2048, 2048, 8))
ROWS = (1, 16, 128)


def run(options: Options) -> Iterator[Result]:
    """A line for each product, number of rows and accuracy."""
    several, rows = (WEIGHTS[:1], ROWS[:1]) if options.quick else (WEIGHTS, ROWS)
    target = replace(Target.detect(), threads=1)
    for weights in several:
        for accuracy, rounded in _ACCURACIES.items():
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "product.onnx")
                path.write_bytes(weights.model(accuracy).SerializeToString())
                for count in rows:
                    given = np.random.default_rng(1).standard_normal((_CALLS, count, weights.terms), np.float32)
                    case = f"{count} x {weights.terms} x {weights.columns}, {weights.bits} bits, rows in {rounded}"
                    load = partial(ms.load_onnx, path, rows=count, target=target)
                    yield compare(case, path, load, given, options)
