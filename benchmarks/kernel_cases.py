"""The kernels that are compared: operators at shapes, the expert trace of each, and what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.operators import TWELVE, expert, load
from metasched.schedule.handlers import Policy
from metasched.schedule.trace import Trace


class Bound(Enum):
    """What limits a kernel at best, and so what its rate is divided by."""

    ARITHMETIC = "multiply-adds in registers"
    COPY = "copy"  # a stream of `benchmarks.peak`: as many arrays read and written
    COPY_PAST_CACHES = "copy, non-temporal"
    ADD = "add"
    ADD_PAST_CACHES = "add, non-temporal"
    NONE = "none"  # small: neither


@dataclass(frozen=True)
class KernelCase:
    """An operator at a shape, replayed from the expert trace `expert` (OPERATOR.VARIANT).

    `bound` is the limit that its rate is shown as a fraction of. `suite` is its name among the twelve. `against` is
    another case of ours whose GFLOP/s it is held to. `goal` is the least ratio wanted to PyTorch (or to `against`),
    `goal_of_peak` the least fraction of the limit, `goal_tvm` the least ratio to TVM's record of it, kernel alone.
    """

    name: str
    operator: str
    expert: str
    params: Mapping[str, Setting] = field(default_factory=dict)
    threads: int = 2
    bound: Bound = Bound.ARITHMETIC
    torch: bool = True
    suite: str | None = None
    against: str | None = None
    goal: float | None = None
    goal_of_peak: float | None = None
    goal_tvm: float | None = None

    def program(self) -> Program:
        return load(self.operator, **self.params)

    def trace(self) -> Trace:
        """The expert trace at this shape."""
        return expert(self.expert).trace.apply_to(self.program(), Policy.REPAIR).trace

    @property
    def operations(self) -> int:
        """Arithmetic operations, counted as those of floats are, whatever the element types."""
        return load(self.operator, **{k: v for k, v in self.params.items() if not isinstance(v, str)}).flops


def _matmul(name: str, size: int, expert: str, **options: object) -> KernelCase:
    params: dict[str, Setting] = {"M": size, "N": size, "K": size}
    return KernelCase(name, "matmul_nn", f"matmul_nn.{expert}", params, **options)  # type: ignore[arg-type]


def _conv(name: str, size: int, ci: int, co: int, taps: int, expert: str, **options: object) -> KernelCase:
    params: dict[str, Setting] = {"H": size, "W": size, "CI": ci, "CO": co, "R": taps, "S": 1, "P": taps // 2}
    return KernelCase(name, "conv2d_nhwc", f"conv2d_nhwc.{expert}", params, goal=0.95, **options)  # type: ignore[arg-type]


def _twelve(suite: str, title: str, variant: str, bound: Bound = Bound.ARITHMETIC, goal: float = 1.0) -> KernelCase:
    case = TWELVE[suite]
    expert = f"{case.operator}.{variant}"
    name = f"{suite}: {title}"
    return KernelCase(name, case.operator, expert, case.params, bound=bound, suite=suite, goal=goal, goal_tvm=1.0)


def _rows(operator: str, m: int, n: int, variant: str, bound: Bound, **options: object) -> KernelCase:
    title = f"{operator} {m}x{n}{', past the caches' if variant == 'streamed' else ''}"
    return KernelCase(title, operator, f"{operator}.{variant}", {"M": m, "N": n}, bound=bound, **options)  # type: ignore[arg-type]


_VNNI: Mapping[str, Setting] = {"M": 1024, "N": 1024, "K": 1024, "T": "u8", "U": "i8", "ACC": "i32"}
_F64: Mapping[str, Setting] = {"M": 1024, "N": 1024, "K": 1024, "T": "f64"}

CASES = (
    _matmul("matmul 1024^3, 1 thread", 1024, "goto", threads=1, goal=0.95, goal_of_peak=0.88),
    _matmul("matmul 1024^3", 1024, "goto", goal=0.95, goal_of_peak=0.88),
    KernelCase("matmul 1024^3, float64", "matmul_nn", "matmul_nn.goto_f64", _F64, bound=Bound.NONE, goal=0.95),
    _matmul("matmul 128^3", 128, "small", goal=0.9),
    _matmul("matmul 127^3", 127, "odd_columns", torch=False, against="matmul 128^3", goal=0.8),
    _conv("conv2d 14x14 256->256 3x3", 14, 256, 256, 3, "tile14"),
    _conv("conv2d 56x56 64->64 1x1", 56, 64, 64, 1, "pointwise"),
    _conv("conv2d 7x7 512->512 3x3", 7, 512, 512, 3, "deep"),
    _twelve("C2D", "conv2d 224x224 3->64 7x7 stride 2", "few_channels", goal=0.9),
    _twelve("DEP", "depthwise 112x112x32 3x3", "columns", Bound.NONE),
    _twelve("GRP", "grouped conv2d 56x56 64->128 3x3 stride 2", "groups"),
    _twelve("DIL", "dilated conv2d 224x224 3->64 7x7 stride 2", "few_channels"),
    _twelve("T2D", "transposed conv2d 4x4 512->256 4x4 stride 2", "parity"),
    _twelve("C1D", "conv1d 256 64->128 3 stride 2", "tile"),
    _twelve("C3D", "conv3d 16x224x224 3->64 7x7x7 stride 2", "few_channels"),
    _twelve("GMM", "batched matmul 128^3", "small"),
    _twelve("CBR", "conv2d + bias + batch norm + ReLU", "few_channels"),
    _twelve("TBG", "transpose + batched matmul", "heads"),
    _twelve("NRM", "norm 256x256", "lanes", Bound.NONE),
    _twelve("SFM", "softmax 256x256", "fast", Bound.NONE, goal=1.2),
    _rows("softmax", 1024, 1024, "fast", Bound.NONE, goal=1.2),
    _rows("layer_norm", 1024, 1024, "fast", Bound.NONE, goal=1.2),
    _rows("bias_gelu", 1024, 1024, "fused", Bound.NONE, goal=1.2),
    _rows("softmax", 8192, 4096, "long", Bound.COPY, goal_of_peak=0.85),
    _rows("layer_norm", 8192, 4096, "fast", Bound.COPY, goal_of_peak=0.85),
    _rows("bias_gelu", 8192, 4096, "streamed", Bound.COPY_PAST_CACHES, goal_of_peak=0.85),
    _rows("scale_shift_add_relu", 8192, 4096, "folded", Bound.ADD, goal_of_peak=0.85),
    _rows("scale_shift_add_relu", 8192, 4096, "streamed", Bound.ADD_PAST_CACHES, goal_of_peak=0.85),
    KernelCase(
        "matmul 1024^3, u8 x s8 -> s32",
        "matmul_nn",
        "matmul_nn.vnni_tiles",
        _VNNI,
        torch=False,
        bound=Bound.NONE,
        against="matmul 1024^3",
        goal=3.0,
    ),
)
BY_NAME: Mapping[str, KernelCase] = {case.name: case for case in CASES}
