"""Which programs are measured: operators at shapes of real networks and pipelines, and random programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

import metasched as ms
from benchmarks.network_shapes import LAYERS
from benchmarks.yardstick.random_programs import random_program
from metasched.ir.source import Setting
from metasched.operators import TWELVE, load

# Operators of one family teach a model of one another: a fold leaves out a whole family.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "depthwise": ("depthwise_conv2d_nhwc", "depthwise_conv2d_nchw"),
    "transposed convolution": ("conv1d_transpose_nlc", "conv2d_transpose_nhwc", "conv3d_transpose_ndhwc"),
    "convolution 1-D": ("conv1d_nlc", "conv1d_ncl"),
    "convolution 2-D": (
        "conv2d_nhwc",
        "conv2d_nchw",
        "conv2d_bn_relu_nhwc",
        "conv2d_bn_relu_nchw",
        "capsule_conv2d_nhwc",
    ),
    "convolution 3-D": ("conv3d_ndhwc",),
    "product": (
        "batch_matmul_nn",
        "batch_matmul_nt",
        "batch_matmul_tn",
        "matmul_nn",
        "matmul_nt",
        "matmul_tt",
        "transpose_batch_matmul",
        "dense_bias_relu",
        "dense_bias_gelu",
    ),
    "attention": ("attention", "batch_attention"),
    "softmax": ("softmax", "log_softmax"),
    "reduction": ("norm", "layer_norm", "rms_norm", "argmax", "global_avg_pool2d_nhwc", "gather_sum", "cumsum"),
    "pooling": ("max_pool2d_nhwc", "avg_pool2d_nhwc", "max_pool2d_nchw", "max_pool1d_nlc", "box_blur"),
    "pointwise": ("bias_gelu", "bias_gelu_tanh", "swiglu", "scale_shift_add_relu", "batch_norm_nhwc"),
    "movement": ("transpose", "nchw_to_nhwc", "pad2d_nhwc", "concat", "embedding"),
}
RANDOM = "random program"
_FAMILY_OF = {operator: family for family, operators in FAMILIES.items() for operator in operators}

# Of the twelve operators' layers, those of fewer floating-point operations: of slower ones few can be measured.
_MOST_FLOPS = 4e8
_LAYERS_EACH = 6
_RANDOM_PROGRAMS = 16
_BF16 = {"T": "bf16", "ACC": "f32"}
_I8 = {"T": "u8", "U": "i8", "ACC": "i32"}

_OTHER_TASKS: tuple[tuple[str, Mapping[str, Setting]], ...] = (
    ("matmul_nn", {"M": 384, "N": 768, "K": 768}),
    ("matmul_nn", {"M": 1, "N": 1000, "K": 2048}),
    ("matmul_nn", {"M": 197, "N": 384, "K": 384}),
    ("matmul_nn", {"M": 512, "N": 512, "K": 512, **_BF16}),
    ("matmul_nt", {"M": 128, "N": 768, "K": 768}),
    ("matmul_nt", {"M": 256, "N": 256, "K": 256, **_I8}),
    ("matmul_tt", {"M": 100, "N": 300, "K": 200}),
    ("batch_matmul_nt", {"BATCH": 12, "M": 128, "N": 128, "K": 64}),
    ("batch_matmul_tn", {"BATCH": 4, "M": 96, "N": 96, "K": 512}),
    ("dense_bias_relu", {"M": 128, "N": 512, "K": 784}),
    ("dense_bias_gelu", {"M": 64, "N": 1024, "K": 256}),
    ("conv2d_nchw", {"H": 28, "W": 28, "CI": 64, "CO": 64, "R": 3, "S": 1, "P": 1}),
    ("conv2d_nchw", {"H": 56, "W": 56, "CI": 3, "CO": 32, "R": 5, "S": 2, "P": 2}),
    ("conv2d_bn_relu_nchw", {"H": 14, "W": 14, "CI": 128, "CO": 128, "R": 3, "S": 1, "P": 1}),
    ("capsule_conv2d_nhwc", {}),
    ("depthwise_conv2d_nchw", {"H": 28, "W": 28, "C": 192, "R": 3, "S": 1, "P": 1}),
    ("conv1d_transpose_nlc", {}),
    ("conv3d_transpose_ndhwc", {"Z": 4, "H": 8, "W": 8, "CI": 32, "CO": 16}),
    ("attention", {"L": 128, "M": 128}),
    ("attention", {"L": 197, "M": 197, "D": 64, "E": 64}),
    ("batch_attention", {}),
    ("log_softmax", {"M": 64, "N": 1000}),
    ("log_softmax", {"M": 3000, "N": 80}),
    ("layer_norm", {"M": 128, "N": 768}),
    ("layer_norm", {"M": 3136, "N": 96}),
    ("rms_norm", {"M": 32, "N": 4096}),
    ("argmax", {"M": 64, "N": 1000}),
    ("global_avg_pool2d_nhwc", {"C": 2048}),
    ("gather_sum", {}),
    ("cumsum", {}),
    ("max_pool2d_nhwc", {}),
    ("max_pool2d_nhwc", {"H": 35, "W": 35, "C": 288, "R": 3, "S": 2, "P": 0}),
    ("avg_pool2d_nhwc", {}),
    ("max_pool2d_nchw", {"H": 56, "W": 56}),
    ("max_pool1d_nlc", {"L": 4000, "C": 64}),
    ("box_blur", {}),
    ("box_blur", {"H": 300, "W": 1000, "R": 7}),
    ("bias_gelu", {"M": 128, "N": 3072}),
    ("bias_gelu_tanh", {"M": 197, "N": 1536}),
    ("swiglu", {"M": 64, "N": 11008}),
    ("scale_shift_add_relu", {"M": 3136, "N": 256}),
    ("batch_norm_nhwc", {}),
    ("transpose", {"M": 384, "N": 3072}),
    ("transpose", {"M": 1000, "N": 1000}),
    ("nchw_to_nhwc", {}),
    ("pad2d_nhwc", {}),
    ("concat", {"ROWS": 3136}),
    ("embedding", {"N": 512, "D": 768}),
)


_CONSTANT = re.compile(r"\bconst (?=\w+:)")


@dataclass(frozen=True)
class TaskSpec:
    """A program to measure: an operator at a shape, or the text of a program, which may be what an operator was when it
    was measured.

    `suite` is the name of one of the twelve operators at the shape that others are judged by.
    """

    operator: str
    params: Mapping[str, Setting] = field(default_factory=dict)
    text: str | None = None
    suite: str | None = None

    @property
    def family(self) -> str:
        return _FAMILY_OF.get(self.operator, RANDOM)

    @property
    def name(self) -> str:
        return " ".join([self.operator, *(f"{name}={value}" for name, value in self.params.items())])

    def program(self) -> ms.Program:
        """The program, with weights that may change between calls: packing them is a part of its times."""
        if self.text is not None:
            return ms.parse_program(self.text, **self.params)
        found = load(self.operator, **self.params)
        return ms.parse_program(_CONSTANT.sub("", str(found)), **dict(found.params))


def tasks() -> tuple[TaskSpec, ...]:
    """All tasks: the twelve first, then those of different operators in turns, so that a part of them is a sample."""
    twelve = [TaskSpec(case.operator, case.params, suite=name) for name, case in TWELVE.items()]
    rest = [_layers(suite) for suite in TWELVE]
    rest += [[TaskSpec(operator, params)] for operator, params in _OTHER_TASKS]
    rest += [[TaskSpec(f"random_{n}", text=random_program(n))] for n in range(_RANDOM_PROGRAMS)]
    turns = max(len(some) for some in rest)
    return (*twelve, *(some[n] for n in range(turns) for some in rest if n < len(some)))


def _layers(suite: str) -> list[TaskSpec]:
    """The first layers of an operator that are small enough."""
    of_suite = (layer for layer in LAYERS if layer.suite == suite)
    small = (layer for layer in of_suite if layer.program().work.floats <= _MOST_FLOPS)
    return [TaskSpec(layer.operator, layer.params) for layer in islice(small, _LAYERS_EACH)]
