"""The sizes that knowledge is found for: layers of real networks by operator.

Those of `benchmarks.network_shapes` are left out: guesses and searches are judged by them, and would know the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product, zip_longest
from typing import TypeAlias

from benchmarks.knowledge.attention import attention
from benchmarks.knowledge.convolutions import convolutions
from benchmarks.knowledge.depthwise import depthwise
from benchmarks.knowledge.first_layers import FIRST_LAYERS, FirstLayer
from benchmarks.knowledge.from_text import Written
from benchmarks.knowledge.halves import half_layers
from benchmarks.knowledge.norms import row_norms
from benchmarks.knowledge.numerical import numerical
from benchmarks.knowledge.quantised import quantised
from benchmarks.network_shapes import LAYERS
from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.operators import load

# Of a call: of slower ones few can be measured in the time.
_MOST_WORK = 5e9
# (size, input channels, output channels, taps, stride, padding) of a convolution of an image.
_Image = tuple[int, int, int, int, int, int]

_RESNETS: tuple[_Image, ...] = (
    (224, 3, 64, 7, 2, 3), (56, 64, 64, 1, 1, 0), (56, 64, 256, 1, 1, 0), (56, 256, 64, 1, 1, 0),
    (56, 256, 128, 1, 1, 0), (56, 128, 128, 3, 2, 1), (28, 128, 128, 3, 1, 1), (28, 128, 512, 1, 1, 0),
    (28, 512, 256, 1, 1, 0), (28, 512, 1024, 1, 2, 0), (14, 256, 256, 3, 1, 1), (14, 1024, 256, 1, 1, 0),
    (14, 1024, 512, 1, 1, 0), (14, 1024, 2048, 1, 2, 0), (14, 512, 512, 3, 2, 1), (7, 512, 512, 3, 1, 1),
    (7, 512, 2048, 1, 1, 0), (56, 64, 128, 1, 2, 0), (28, 128, 256, 3, 2, 1), (14, 256, 512, 3, 2, 1),
)  # fmt: skip
_VGG: tuple[_Image, ...] = (
    (224, 64, 64, 3, 1, 1), (112, 64, 128, 3, 1, 1), (112, 128, 128, 3, 1, 1), (56, 128, 256, 3, 1, 1),
    (56, 256, 256, 3, 1, 1), (28, 256, 512, 3, 1, 1), (28, 512, 512, 3, 1, 1),
)  # fmt: skip
_INCEPTIONS: tuple[_Image, ...] = (
    (56, 64, 192, 3, 1, 1), (28, 192, 64, 1, 1, 0), (28, 192, 96, 1, 1, 0), (28, 96, 128, 3, 1, 1),
    (28, 16, 32, 5, 1, 2), (28, 128, 192, 3, 1, 1), (28, 32, 96, 5, 1, 2), (14, 480, 192, 1, 1, 0),
    (14, 96, 208, 3, 1, 1), (14, 16, 48, 5, 1, 2), (14, 160, 320, 3, 1, 1), (7, 832, 384, 1, 1, 0),
    (7, 192, 384, 3, 1, 1), (147, 32, 64, 3, 1, 1), (73, 80, 192, 3, 1, 0), (35, 48, 64, 5, 1, 2),
    (35, 288, 384, 3, 2, 0), (17, 192, 320, 3, 2, 0), (8, 448, 384, 3, 1, 1),
)  # fmt: skip
_SMALL_NETWORKS: tuple[_Image, ...] = (
    (112, 32, 16, 1, 1, 0), (112, 16, 96, 1, 1, 0), (56, 24, 144, 1, 1, 0), (56, 144, 24, 1, 1, 0),
    (28, 32, 192, 1, 1, 0), (28, 192, 32, 1, 1, 0), (14, 96, 576, 1, 1, 0), (14, 576, 96, 1, 1, 0),
    (7, 160, 960, 1, 1, 0), (7, 960, 320, 1, 1, 0), (112, 32, 64, 1, 1, 0), (56, 128, 128, 1, 1, 0),
    (14, 512, 512, 1, 1, 0), (7, 1024, 1024, 1, 1, 0), (55, 16, 64, 3, 1, 1), (27, 32, 128, 3, 1, 1),
    (13, 64, 256, 3, 1, 1), (13, 512, 48, 1, 1, 0),
)  # fmt: skip
_DETECTORS: tuple[_Image, ...] = (
    (416, 3, 32, 3, 1, 1), (208, 32, 64, 3, 1, 1), (104, 64, 128, 3, 1, 1), (52, 256, 128, 1, 1, 0),
    (26, 256, 512, 3, 1, 1), (26, 512, 256, 1, 1, 0), (13, 512, 1024, 3, 1, 1), (13, 1024, 512, 1, 1, 0),
    (38, 512, 512, 3, 1, 1), (19, 1024, 1024, 1, 1, 0), (10, 256, 512, 3, 2, 1), (128, 64, 128, 3, 1, 1),
    (64, 128, 256, 3, 1, 1), (32, 256, 512, 3, 1, 1), (227, 3, 96, 11, 4, 0), (56, 64, 32, 3, 1, 1),
    (28, 128, 32, 3, 1, 1), (7, 128, 32, 3, 1, 1),
)  # fmt: skip
_IMAGES = (*_RESNETS, *_VGG, *_INCEPTIONS, *_SMALL_NETWORKS, *_DETECTORS)
# (size, channels, taps, stride): MobileNets, MnasNet, EfficientNets, ConvNeXts.
_DEPTHWISE = (
    (112, 32, 3, 1), (56, 128, 3, 1), (56, 128, 3, 2), (28, 256, 3, 1), (28, 256, 3, 2), (14, 512, 3, 1),
    (14, 512, 3, 2), (7, 1024, 3, 1), (56, 144, 3, 2), (28, 192, 3, 1), (28, 192, 3, 2), (14, 384, 3, 1),
    (14, 576, 3, 2), (56, 72, 5, 2), (28, 120, 5, 2), (14, 480, 3, 1), (14, 672, 3, 1), (14, 672, 5, 1),
    (7, 672, 5, 1), (14, 480, 5, 1), (7, 1152, 3, 1), (28, 192, 7, 1), (7, 768, 7, 1), (56, 128, 7, 1),
    (28, 256, 7, 1), (75, 64, 3, 1), (38, 240, 3, 2), (19, 672, 5, 1),
)  # fmt: skip
# The same, of windows of 25 and 49 taps, of which there are few above.
_DEPTHWISE_WIDE = (
    (28, 240, 5, 1), (56, 144, 5, 2), (14, 672, 5, 2), (14, 384, 7, 1), (56, 64, 7, 1), (32, 96, 7, 1), (28, 96, 5, 1),
    (56, 40, 5, 1), (14, 160, 7, 1), (56, 96, 7, 2), (28, 192, 7, 2), (112, 48, 5, 2), (7, 384, 7, 1), (20, 320, 5, 1),
    (40, 128, 5, 2),
)  # fmt: skip
# (size, channels in, out, taps, groups)
_GROUPED = (
    (56, 64, 64, 3, 2), (28, 192, 192, 3, 12), (14, 384, 384, 3, 24), (7, 768, 768, 3, 48), (28, 256, 256, 3, 8),
    (14, 512, 512, 3, 16), (56, 256, 256, 3, 64), (28, 512, 512, 3, 64), (28, 240, 240, 1, 3), (14, 480, 480, 1, 3),
    (14, 336, 336, 3, 14), (27, 256, 256, 5, 2), (13, 256, 384, 3, 2),
)  # fmt: skip
# (size, channels in, out, dilation)
_DILATED = (
    (65, 256, 256, 2), (65, 512, 512, 4), (33, 2048, 256, 6), (33, 512, 512, 2), (33, 256, 256, 12),
    (28, 512, 512, 2), (28, 512, 256, 2), (64, 21, 21, 4), (64, 32, 32, 2), (64, 32, 32, 8), (128, 16, 16, 2),
    (14, 512, 512, 2), (40, 128, 128, 3), (33, 256, 256, 6), (28, 128, 128, 2),
)  # fmt: skip
# (height, channels in, out, taps, stride, padding)
_TRANSPOSED = (
    (4, 512, 256, 4, 2, 1), (4, 1024, 512, 4, 2, 1), (8, 512, 256, 4, 2, 1), (16, 256, 128, 4, 2, 1),
    (32, 128, 64, 4, 2, 1), (64, 64, 3, 4, 2, 1), (14, 1024, 512, 2, 2, 0), (56, 256, 128, 2, 2, 0),
    (112, 128, 64, 2, 2, 0), (8, 512, 512, 3, 2, 0), (32, 512, 256, 3, 2, 0), (8, 2048, 256, 4, 2, 1),
    (32, 256, 256, 4, 2, 1), (32, 256, 128, 3, 2, 1), (16, 21, 21, 4, 2, 0), (1, 100, 1024, 4, 1, 0),
    (1, 128, 256, 4, 1, 0),
)  # fmt: skip
# (frames, size, channels in, out, taps, stride, padding)
_VOLUMES = (
    (16, 56, 64, 128, 3, 1, 1), (8, 28, 128, 256, 3, 1, 1), (4, 14, 256, 512, 3, 1, 1), (4, 14, 512, 512, 3, 1, 1),
    (8, 56, 64, 64, 3, 1, 1), (8, 28, 128, 128, 3, 1, 1), (2, 7, 512, 512, 3, 1, 1), (4, 14, 480, 192, 1, 1, 0),
    (4, 14, 16, 48, 3, 1, 1), (8, 28, 16, 32, 3, 1, 1), (2, 7, 832, 384, 1, 1, 0), (16, 16, 64, 128, 3, 1, 1),
    (32, 32, 16, 32, 3, 1, 1), (8, 8, 128, 256, 3, 1, 1), (8, 56, 3, 64, 3, 1, 1), (4, 14, 64, 128, 3, 1, 1),
)  # fmt: skip
# (length, channels in, out, taps, stride, padding, dilation)
_LINES = (
    (256, 64, 128, 3, 1, 1, 1), (1600, 512, 512, 3, 2, 0, 1), (799, 512, 512, 3, 2, 0, 1),
    (399, 512, 512, 3, 2, 0, 1), (1500, 384, 384, 3, 1, 1, 1), (3000, 80, 512, 3, 1, 1, 1),
    (3000, 512, 512, 3, 2, 1, 1), (4000, 32, 64, 2, 1, 0, 8), (500, 256, 256, 11, 1, 5, 1),
    (500, 256, 384, 13, 1, 6, 1), (256, 80, 512, 5, 1, 2, 1), (1024, 128, 128, 7, 1, 9, 3),
    (8192, 32, 32, 3, 1, 1, 1), (2048, 128, 128, 3, 1, 3, 3), (3200, 512, 128, 1, 1, 0, 1),
    (800, 128, 256, 3, 1, 2, 2),
)  # fmt: skip
# Weights (columns, terms) of dense layers, and rows: tokens or images.
_WEIGHTS = (
    (768, 768), (3072, 768), (768, 3072), (1024, 1024), (4096, 1024), (1024, 4096), (2304, 768), (512, 512),
    (2048, 512), (512, 2048), (1000, 2048), (1000, 1280), (4096, 4096), (384, 384), (1536, 384), (256, 784),
    (64, 256), (10, 512),
)  # fmt: skip
_ROWS = (1, 8, 32, 128, 197, 512)
# Rows, columns and terms that no layer fixes: what numerical programs multiply.
_MATRIX_PRODUCTS = (
    (256, 256, 256), (100, 200, 300), (37, 100, 40), (500, 500, 500), (1000, 100, 100), (128, 128, 128), (60, 600, 60),
    (200, 200, 200), (1024, 1024, 1024),
)  # fmt: skip
_PRODUCTS = (
    (12, 128, 128, 64), (12, 512, 512, 64), (12, 512, 64, 512), (12, 384, 384, 64), (16, 128, 128, 64),
    (16, 512, 64, 512), (12, 197, 64, 197), (3, 197, 197, 64), (6, 197, 64, 197), (8, 512, 512, 64),
    (32, 128, 128, 64), (96, 49, 49, 32), (96, 49, 32, 49), (8, 950, 950, 32), (8, 256, 64, 256), (64, 64, 64, 64),
    (12, 1, 512, 64), (12, 1, 64, 512), (1024, 4, 16, 16), (256, 16, 16, 4), (36, 64, 196, 64), (16, 128, 256, 128),
)  # fmt: skip
_HEADS = (
    (128, 12, 64), (256, 12, 64), (384, 16, 64), (512, 16, 64), (64, 8, 64), (197, 6, 64), (128, 8, 64),
    (256, 16, 128),
)  # fmt: skip
_MATRICES = (
    (64, 64), (128, 128), (1536, 128), (3072, 256), (12288, 197), (4608, 384), (6144, 512), (8192, 1024),
    (9408, 49), (1, 32000), (16, 1000), (256, 1000), (128, 50257), (10, 150), (100, 200), (512, 30522), (2048, 64),
    (4096, 768), (768, 128), (1024, 1024),
)  # fmt: skip
_NORMS = (
    (128, 768), (512, 768), (197, 768), (1024, 1024), (384, 1024), (3136, 96), (784, 192), (49, 768), (1, 4096),
    (64, 512),
)  # fmt: skip
_MAPS = (
    (112, 64), (56, 256), (28, 512), (14, 1024), (7, 2048), (224, 64), (35, 192), (17, 768),
)  # fmt: skip


@dataclass(frozen=True)
class Sized:
    """An operator of the library with its parameters."""

    operator: str
    params: tuple[tuple[str, Setting], ...]

    @property
    def case(self) -> str:
        return " ".join([self.operator, *(f"{name}={value}" for name, value in self.params)])

    def program(self) -> Program:
        return load(self.operator, **dict(self.params))


AnySize: TypeAlias = Sized | FirstLayer | Written


def _sizes_of(operator: str, names: str, rows: Iterable[tuple[int, ...]], **more: Setting) -> list[Sized]:
    """An operator at sizes: `names` are its parameters, separated by blanks."""
    keys = names.split()
    return [Sized(operator, (*zip(keys, row, strict=True), *more.items())) for row in rows]


def _square(rows: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """The first number twice: as height and as width."""
    return ((row[0], *row) for row in rows)


def _dense() -> list[tuple[int, ...]]:
    return [(m, n, k) for m, (n, k) in product(_ROWS, _WEIGHTS) if m * n * k <= 1 << 30]


def _size_lists() -> list[Sequence[AnySize]]:
    """The sizes of each operator, those that matter most first."""
    image, halves = "H W CI CO R S P", {"T": "bf16", "U": "bf16"}
    volumes = [(z, size, size, *rest) for z, size, *rest in _VOLUMES]
    dense, few = _dense(), [(m, n, k) for m, n, k in _dense() if m in {32, 512}]
    return [
        _sizes_of("conv2d_nhwc", image, _square(_IMAGES)),
        _sizes_of("conv2d_bn_relu_nhwc", image, _square(_IMAGES[::3])),
        _sizes_of("conv2d_nchw", image, _square(_IMAGES[::4])),
        _sizes_of("depthwise_conv2d_nhwc", "H W C R S P", _square((*row, row[2] // 2) for row in _DEPTHWISE)),
        _sizes_of("depthwise_conv2d_nhwc", "H W C R S P", _square((*row, row[2] // 2) for row in _DEPTHWISE_WIDE)),
        _sizes_of("conv2d_nhwc", "H W CI CO R G P", _square((*row, row[3] // 2) for row in _GROUPED)),
        _sizes_of("conv2d_nhwc", "H W CI CO R D P", _square((s, ci, co, 3, d, d) for s, ci, co, d in _DILATED)),
        _sizes_of("conv2d_transpose_nhwc", image, _square(_TRANSPOSED)),
        _sizes_of("conv3d_ndhwc", "Z H W CI CO R S P", volumes),
        _sizes_of("conv1d_nlc", "L CI CO R S P D", _LINES),
        _sizes_of("matmul_nn", "M N K", dense),
        _sizes_of("matmul_nn", "M N K", _MATRIX_PRODUCTS),
        _sizes_of("matmul_nn", "M N K", _MATRIX_PRODUCTS, T="f64", U="f64", ACC="f64"),
        _sizes_of("matmul_nt", "M N K", dense[::3]),
        _sizes_of("dense_bias_relu", "M N K", dense[::5]),
        _sizes_of("matmul_nn", "M N K", few, **halves, ACC="f32"),
        _sizes_of("matmul_nn", "M N K", few, T="u8", U="i8", ACC="i32"),
        _sizes_of("batch_matmul_nn", "BATCH M N K", _PRODUCTS),
        _sizes_of("batch_matmul_nt", "BATCH M N K", _PRODUCTS[::2]),
        _sizes_of("transpose_batch_matmul", "L HEADS D", _HEADS),
        _sizes_of("softmax", "M N", _MATRICES),
        _sizes_of("log_softmax", "M N", _MATRICES[::3]),
        _sizes_of("norm", "M N", _MATRICES[::2]),
        _sizes_of("layer_norm", "M N", _NORMS),
        _sizes_of("rms_norm", "M N", _NORMS),
        _sizes_of("bias_gelu", "M N", _MATRICES[::3]),
        _sizes_of("scale_shift_add_relu", "M N", _MATRICES[::3]),
        _sizes_of("transpose", "M N", _MATRICES[::4]),
        _sizes_of("max_pool2d_nhwc", "H W C", _square(_MAPS)),
        _sizes_of("global_avg_pool2d_nhwc", "H W C", _square(_MAPS)),
        _sizes_of("depthwise_conv2d_nchw", "H W C R S P", _square((*row, row[2] // 2) for row in _DEPTHWISE[::3])),
        _sizes_of("depthwise_conv2d_nchw", "H W C R S P", _square((*row, row[2] // 2) for row in _DEPTHWISE[3:9]), N=8),
        _sizes_of("depthwise_conv2d_nchw", "H W C R S P", _square((*row, row[2] // 2) for row in _DEPTHWISE[:4]), N=4),
        _sizes_of("max_pool2d_nchw", "H W C", _square(_MAPS[::2])),
        _sizes_of("avg_pool2d_nchw", "H W C", _square(_MAPS[1::2])),
        _sizes_of("avg_pool2d_nhwc", "H W C", _square(_MAPS[1::2])),
        _sizes_of("conv2d_transpose_nchw", image, _square(_TRANSPOSED[::4])),
        _sizes_of("conv1d_ncl", "L CI CO R S P D", _LINES[::3]),
        _sizes_of("conv3d_ncdhw", "Z H W CI CO R S P", volumes[::4]),
        _sizes_of("matmul_tn", "M N K", [*_MATRIX_PRODUCTS[::2], *dense[5::12]]),
        _sizes_of("matmul_nt", "M N K", few[::5], T="u8", U="i8", ACC="i32"),
        _sizes_of("matmul_tt", "M N K", _MATRIX_PRODUCTS[1::3]),
        _sizes_of("batch_matmul_tn", "BATCH M N K", _PRODUCTS[::7]),
        FIRST_LAYERS,
        *numerical(),
        *quantised(),
        *attention(),
        *convolutions(),
        *depthwise(),
        *half_layers(),
        *row_norms(),
    ]


def sizes() -> tuple[AnySize, ...]:
    """All sizes, the operators in turn and each list spread out: whoever stops early has some of each."""
    judged = judged_programs()
    turns = chain.from_iterable(
        zip_longest(*(map(listed.__getitem__, _spread_order(len(listed))) for listed in _size_lists()))
    )
    found = {size.case: size for size in turns if size is not None}
    return tuple(size for size in found.values() if _is_of_use(size.program(), judged))


def _spread_order(count: int) -> list[int]:
    """The numbers below `count`, in an order whose beginnings are spread over all of them (van der Corput's)."""
    bits = max(count - 1, 0).bit_length()
    turned = (int(f"{n:0{bits}b}"[::-1], 2) if bits else n for n in range(1 << bits))
    return [n for n in turned if n < count]


def judged_programs() -> frozenset[str]:
    """The structural hashes of the programs that guesses are judged by."""
    return frozenset(layer.program().structural_hash() for layer in LAYERS)


def _is_of_use(program: Program, judged: frozenset[str]) -> bool:
    return program.work.operations <= _MOST_WORK and program.structural_hash() not in judged
