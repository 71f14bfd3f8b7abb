"""Which programs are measured where a CPU has tensor instructions: products and convolutions of halves and bytes."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.yardstick.tasks import TaskSpec
from metasched.ir.source import Setting
from metasched.operators import load

_BF16: Mapping[str, Setting] = {"T": "bf16", "ACC": "f32"}
_BYTES: Mapping[str, Setting] = {"T": "u8", "U": "i8", "ACC": "i32"}
_SIGNED: Mapping[str, Setting] = {"T": "i8", "U": "i8", "ACC": "i32"}

# Different operators in turns, so that a part of them is a sample.
_TASKS: tuple[tuple[str, Mapping[str, Setting]], ...] = (
    ("conv2d_nhwc", {"H": 56, "W": 56, "CI": 64, "CO": 64, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("dense_bias_gelu", {"M": 128, "N": 3072, "K": 768, **_BF16}),
    ("batch_matmul_nt", {"BATCH": 12, "M": 128, "N": 128, "K": 64, **_BF16}),
    ("dense_bias_relu", {"M": 128, "N": 768, "K": 768, **_BYTES}),
    ("dense_bias_relu", {"M": 128, "N": 768, "K": 3072, **_BF16}),
    ("conv2d_nhwc", {"H": 14, "W": 14, "CI": 256, "CO": 256, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("transpose_batch_matmul", {"BATCH": 1, "L": 128, "HEADS": 12, "D": 64, **_BF16}),
    ("conv2d_nhwc", {"H": 56, "W": 56, "CI": 64, "CO": 64, "R": 3, "S": 1, "P": 1, **_BYTES}),
    ("matmul_nn", {"M": 512, "N": 512, "K": 512, **_BF16}),
    ("conv2d_nhwc", {"H": 28, "W": 28, "CI": 128, "CO": 128, "R": 3, "S": 2, "P": 1, **_BF16}),
    ("batch_matmul_nn", {"BATCH": 12, "M": 128, "N": 64, "K": 128, **_BF16}),
    ("conv1d_nlc", {"L": 1500, "CI": 80, "CO": 384, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("dense_bias_relu", {"M": 197, "N": 768, "K": 768, **_BF16}),
    ("conv2d_nhwc", {"H": 28, "W": 28, "CI": 512, "CO": 128, "R": 1, "S": 1, "P": 0, **_BF16}),
    ("matmul_nt", {"M": 256, "N": 256, "K": 256, **_BYTES}),
    ("attention", {"L": 128, "M": 128, **_BF16}),
    ("dense_bias_relu", {"M": 32, "N": 1000, "K": 2048, **_BF16}),
    ("conv2d_nhwc", {"H": 7, "W": 7, "CI": 512, "CO": 512, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("batch_matmul_nt", {"BATCH": 12, "M": 197, "N": 197, "K": 64, **_BF16}),
    ("dense_bias_gelu", {"M": 64, "N": 1024, "K": 256, **_BF16}),
    ("dense_bias_relu", {"M": 512, "N": 1024, "K": 1024, **_BF16}),
    ("conv2d_nhwc", {"H": 112, "W": 112, "CI": 64, "CO": 64, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("matmul_nn", {"M": 100, "N": 1000, "K": 72, **_BF16}),
    ("conv2d_nhwc", {"H": 14, "W": 14, "CI": 256, "CO": 1024, "R": 1, "S": 1, "P": 0, **_BYTES}),
    ("dense_bias_relu", {"M": 49, "N": 1024, "K": 1024, **_BF16}),
    ("conv2d_nhwc", {"H": 224, "W": 224, "CI": 3, "CO": 64, "R": 7, "S": 2, "P": 3, **_BF16}),
    ("batch_matmul_nn", {"BATCH": 16, "M": 384, "N": 64, "K": 384, **_BF16}),
    ("dense_bias_relu", {"M": 784, "N": 256, "K": 256, **_BF16}),
    ("dense_bias_relu", {"M": 16, "N": 4096, "K": 1024, **_BF16}),
    ("conv2d_nhwc", {"H": 56, "W": 56, "CI": 256, "CO": 64, "R": 1, "S": 1, "P": 0, **_BF16}),
    ("batch_matmul_nt", {"BATCH": 16, "M": 384, "N": 384, "K": 64, **_BF16}),
    ("matmul_nn", {"M": 1024, "N": 1024, "K": 1024, **_BYTES}),
    ("dense_bias_relu", {"M": 128, "N": 512, "K": 512, **_BF16}),
    ("conv2d_nhwc", {"H": 28, "W": 28, "CI": 192, "CO": 192, "R": 3, "S": 1, "P": 1, **_BYTES}),
    ("batch_matmul_tn", {"BATCH": 4, "M": 96, "N": 96, "K": 512, **_BF16}),
    ("conv1d_nlc", {"L": 256, "CI": 64, "CO": 128, "R": 3, "S": 2, "P": 1, **_BF16}),
    ("dense_bias_relu", {"M": 384, "N": 1024, "K": 1024, **_BF16}),
    ("conv2d_nhwc", {"H": 14, "W": 14, "CI": 1024, "CO": 256, "R": 1, "S": 1, "P": 0, **_BF16}),
    ("matmul_nt", {"M": 128, "N": 768, "K": 768, **_BF16}),
    ("conv2d_nhwc", {"H": 35, "W": 35, "CI": 192, "CO": 64, "R": 1, "S": 1, "P": 0, **_BF16}),
    ("dense_bias_relu", {"M": 3136, "N": 96, "K": 384, **_BF16}),
    ("conv2d_nhwc", {"H": 17, "W": 17, "CI": 192, "CO": 192, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("matmul_nn", {"M": 384, "N": 768, "K": 768, **_BF16}),
    ("conv2d_nhwc", {"H": 28, "W": 28, "CI": 256, "CO": 256, "R": 3, "S": 2, "P": 1, **_BF16}),
    ("conv2d_nhwc", {"H": 56, "W": 56, "CI": 64, "CO": 256, "R": 1, "S": 1, "P": 0, **_BF16}),
    ("batch_matmul_nn", {"BATCH": 192, "M": 49, "N": 32, "K": 49, **_BF16}),
    ("dense_bias_relu", {"M": 197, "N": 3072, "K": 768, **_BF16}),
    ("dense_bias_relu", {"M": 50, "N": 768, "K": 768, **_BF16}),
    ("conv2d_nhwc", {"H": 14, "W": 14, "CI": 512, "CO": 512, "R": 3, "S": 2, "P": 1, **_BF16}),
    ("conv2d_bn_relu_nhwc", {"H": 28, "W": 28, "CI": 64, "CO": 96, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("matmul_nn", {"M": 256, "N": 3072, "K": 768, **_BYTES}),
    ("dense_bias_relu", {"M": 8, "N": 3072, "K": 768, **_BF16}),
    ("conv2d_nhwc", {"H": 28, "W": 28, "CI": 96, "CO": 128, "R": 5, "S": 1, "P": 2, **_BF16}),
    ("batch_matmul_nt", {"BATCH": 8, "M": 512, "N": 512, "K": 64, **_BF16}),
    ("dense_bias_relu", {"M": 1024, "N": 512, "K": 512, **_BF16}),
    ("dense_bias_relu", {"M": 196, "N": 384, "K": 1536, **_BF16}),
    ("conv2d_nhwc", {"H": 7, "W": 7, "CI": 2048, "CO": 512, "R": 1, "S": 1, "P": 0, **_BF16}),
    ("conv3d_ndhwc", {"Z": 4, "H": 14, "W": 14, "CI": 64, "CO": 64, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("matmul_nn", {"M": 64, "N": 3072, "K": 768, **_BYTES}),
    ("dense_bias_relu", {"M": 77, "N": 512, "K": 2048, **_BF16}),
    ("conv2d_nhwc", {"H": 80, "W": 80, "CI": 64, "CO": 64, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("batch_matmul_nn", {"BATCH": 12, "M": 197, "N": 64, "K": 197, **_BF16}),
    ("matmul_nt", {"M": 197, "N": 2304, "K": 768, **_BF16}),
    ("dense_bias_relu", {"M": 257, "N": 1280, "K": 1280, **_BF16}),
    ("conv2d_nhwc", {"H": 40, "W": 40, "CI": 128, "CO": 128, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("transpose_batch_matmul", {"BATCH": 1, "L": 197, "HEADS": 12, "D": 64, **_BF16}),
    ("conv2d_nhwc", {"H": 14, "W": 14, "CI": 256, "CO": 256, "R": 3, "S": 1, "P": 1, **_BYTES}),
    ("dense_bias_relu", {"M": 300, "N": 256, "K": 256, **_BF16}),
    ("conv2d_nhwc", {"H": 19, "W": 19, "CI": 512, "CO": 256, "R": 1, "S": 1, "P": 0, **_BF16}),
    ("matmul_nn", {"M": 256, "N": 256, "K": 1024, **_SIGNED}),
    ("conv2d_nhwc", {"H": 56, "W": 56, "CI": 128, "CO": 256, "R": 1, "S": 2, "P": 0, **_BF16}),
    ("dense_bias_relu", {"M": 4, "N": 1024, "K": 4096, **_BF16}),
    ("conv2d_nhwc", {"H": 28, "W": 28, "CI": 64, "CO": 64, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("batch_matmul_nt", {"BATCH": 64, "M": 64, "N": 64, "K": 32, **_BF16}),
    ("dense_bias_gelu", {"M": 512, "N": 2048, "K": 512, **_BF16}),
    ("dense_bias_relu", {"M": 60, "N": 2048, "K": 512, **_BF16}),
    ("conv2d_nhwc", {"H": 112, "W": 112, "CI": 32, "CO": 64, "R": 3, "S": 2, "P": 1, **_BF16}),
    ("conv1d_nlc", {"L": 3000, "CI": 384, "CO": 384, "R": 3, "S": 2, "P": 1, **_BF16}),
    ("matmul_nn", {"M": 49, "N": 768, "K": 768, **_BYTES}),
    ("dense_bias_relu", {"M": 2048, "N": 128, "K": 128, **_BF16}),
    ("conv2d_nhwc", {"H": 20, "W": 20, "CI": 256, "CO": 256, "R": 3, "S": 1, "P": 1, **_BF16}),
    ("batch_matmul_nn", {"BATCH": 8, "M": 512, "N": 64, "K": 512, **_BF16}),
    ("conv2d_nhwc", {"H": 28, "W": 28, "CI": 512, "CO": 128, "R": 1, "S": 1, "P": 0, **_BYTES}),
)


def tensor_tasks() -> tuple[TaskSpec, ...]:
    """The programs as they are in the library: weights are packed ahead, and that is no part of their times."""
    return tuple(TaskSpec(name, sizes, str(load(name, **sizes))) for name, sizes in _TASKS)
