"""Operators at the shapes of published benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.operators.library import load
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Case:
    """An operator at one shape."""

    operator: str
    params: Mapping[str, Setting] = field(default_factory=dict)

    def program(self) -> Program:
        return load(self.operator, **self.params)


TWELVE: Mapping[str, Case] = MappingProxyType(
    {
        "C1D": Case("conv1d_nlc", {"L": 256, "CI": 64, "CO": 128, "R": 3, "S": 2, "P": 1}),
        "C2D": Case("conv2d_nhwc", {"H": 224, "W": 224, "CI": 3, "CO": 64, "R": 7, "S": 2, "P": 3}),
        "C3D": Case("conv3d_ndhwc", {"Z": 16, "H": 224, "W": 224, "CI": 3, "CO": 64, "R": 7, "S": 2, "P": 3}),
        "DEP": Case("depthwise_conv2d_nhwc", {"H": 112, "W": 112, "C": 32, "R": 3, "S": 1, "P": 1}),
        "DIL": Case("conv2d_nhwc", {"H": 224, "W": 224, "CI": 3, "CO": 64, "R": 7, "S": 2, "P": 3, "D": 2}),
        "GMM": Case("batch_matmul_nn", {"M": 128, "N": 128, "K": 128}),
        "GRP": Case("conv2d_nhwc", {"H": 56, "W": 56, "CI": 64, "CO": 128, "R": 3, "S": 2, "P": 1, "G": 4}),
        "T2D": Case("conv2d_transpose_nhwc", {"H": 4, "W": 4, "CI": 512, "CO": 256, "R": 4, "S": 2, "P": 1}),
        "CBR": Case("conv2d_bn_relu_nhwc", {"H": 224, "W": 224, "CI": 3, "CO": 64, "R": 7, "S": 2, "P": 3}),
        "TBG": Case("transpose_batch_matmul", {"L": 128, "HEADS": 12, "D": 64}),
        "NRM": Case("norm", {"M": 256, "N": 256}),
        "SFM": Case("softmax", {"M": 256, "N": 256}),
    }
)
"""The twelve operators on which MetaSchedule was judged, batch 1 (Shao et al. 2022, arXiv 2205.13603, section 6.1).

One- to three-dimensional, depthwise, dilated, grouped and transposed convolutions; batched matmul; convolution + batch
norm + ReLU; transpose + batched matmul; the norm of a matrix; softmax.
"""
