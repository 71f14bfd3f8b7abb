"""Small programs, and random legal schedules of them, through the methods that a person uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

from metasched.errors import ScheduleError
from metasched.ir.nodes import Func
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.schedule.schedule import Schedule
from metasched.schedule.values import LoopRV

T = TypeVar("T")

CHAIN = """
program chain[N=7, M=13](A: {0}[N, M], B: {0}[M]) -> D: {0}[N, M]:
    add:   C[i, j] = A[i, j] + B[j]
    twice: E[i, j] = C[i, j] * 2
    most:  D[i, j] = max(E[i, j], C[i, j])
"""

MATMUL = """
program matmul[N=7, M=13, K=5](A: {0}[N, K], B: {0}[K, M]) -> D: {0}[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
"""

PADDED = """
program padded[N=7, M=5, L=4](A: {0}[N, M]) -> E: {0}[N]:
    pad:   P[i, k] = A[i, k] if k < L and i < N - 1 else 0
    total: E[i] = sum[k](P[i, k])
"""

CONV = """
program conv[H=7, W=5, R=3](X: {0}[H, W], K: {0}[R, R]) -> Y: {0}[H, W]:
    Xp: {0}[H + 2, W + 2]
    pad:  Xp[h, w] = X[h - 1, w - 1] if h >= 1 and h <= H and w >= 1 and w <= W else 0
    conv: Y[h, w] = sum[r, s](Xp[h + r, w + s] * K[r, s])
"""

ROWS = """
program rows[N=7, K=13](A: {0}[N, K]) -> (S: {0}[N, K], M: {0}[N]):
    most:  M[i] = max[k](A[i, k])
    apart: E[i, k] = A[i, k] - M[i]
    total: T[i] = sum[k](E[i, k])
    out:   S[i, k] = E[i, k] + T[i]
"""

WHOLE = """
program whole[N=13](A: {0}[N], B: {0}[N]) -> S: {0}[1]:
    dot: S[o < 1] = sum[i](A[i] * B[i])
"""

STRIDED = """
program strided[N=7](A: {0}[2*N + 1]) -> C: {0}[N]:
    twice: B[i] = A[i] * 2
    sum3:  C[i] = sum[r < 3](B[2*i + r])
"""

SIZES = {
    CHAIN: ("N", "M"),
    MATMUL: ("N", "M", "K"),
    PADDED: ("N",),
    CONV: ("H", "W"),
    ROWS: ("N", "K"),
    WHOLE: ("N",),
    STRIDED: ("N",),
}


@dataclass(frozen=True)
class Case:
    """A program, in a form that Hypothesis shows in a line."""

    text: str
    dtype: str
    sizes: tuple[tuple[str, int], ...]

    @property
    def program(self) -> Program:
        return parse_program(self.text.format(self.dtype), **dict(self.sizes))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    text = draw(st.sampled_from(list(SIZES)))
    dtype = draw(st.sampled_from(["f32", "f32", "f64", "i32", "i64"]))
    return Case(text, dtype, tuple((name, draw(st.sampled_from([1, 2, 7, 8, 13]))) for name in SIZES[text]))


@dataclass(frozen=True)
class Step:
    """What to try next; the numbers pick among what there is then."""

    op: str
    block: int
    loop: int
    other: int
    size: int


OPS = (
    *("split", "split", "split", "tile", "fuse", "reorder", "reorder", "parallel", "vectorize", "vectorize"),
    *("unroll", "annotate", "set_scope", "compute_at", "compute_at", "reverse_compute_at", "reverse_compute_at"),
    *("compute_inline", "reverse_compute_inline", "cache_read", "cache_read", "cache_write", "cache_write"),
    *("rfactor", "rfactor", "decompose_reduction", "locate"),
)


def steps(at_most: int = 12) -> st.SearchStrategy[list[Step]]:
    number = st.integers(0, 11)
    return st.lists(st.builds(Step, st.sampled_from(OPS), number, number, number, st.integers(1, 9)), max_size=at_most)


def apply(sch: Schedule, todo: Sequence[Step], check: Callable[[Func], None]) -> int:
    """Try each step; those that are not legal are passed over. How many were legal."""
    taken = 0
    for step in todo:
        try:
            _take(sch, step)
        except ScheduleError as error:
            assert error.hint or error.message
            continue
        taken += 1
        check(sch.func)
    return taken


def _take(sch: Schedule, step: Step) -> None:
    block = sch.get_block(_pick(sch.block_names(), step.block))
    loops: list[LoopRV] = sch.get_loops(block)
    loop = _pick(loops, step.loop)
    info = sch.describe(block)
    reads = [r.buffer for r in info.reads] or ["nothing"]
    elsewhere = sch.get_loops(sch.get_block(_pick((info.readers or info.sources or (info.name,)), step.other)))
    scope = _pick(["global", "local", "register"], step.other)
    actions: dict[str, Callable[[], Any]] = {
        "split": lambda: sch.split(loop, [None, step.size] if step.other % 2 else [step.other + 1, None, step.size]),
        "tile": lambda: sch.split(loop, sch.sample_tile(loop, parts=2 + step.other % 2)),
        "fuse": lambda: sch.fuse(*loops[step.loop % len(loops) :][: 2 + step.other % 2]),
        "reorder": lambda: sch.reorder(*_rotated(loops, step.other)),
        "parallel": lambda: sch.parallel(loop),
        "vectorize": lambda: sch.vectorize(loop, lanes=sch.sample_categorical([step.size, 16])),
        "unroll": lambda: sch.unroll(loop),
        "annotate": lambda: sch.annotate(block if step.other % 2 else loop, "unroll_limit", step.size * 4),
        "set_scope": lambda: sch.set_scope(block, scope),
        "compute_at": lambda: sch.compute_at(block, _pick(elsewhere, step.loop)),
        "reverse_compute_at": lambda: sch.reverse_compute_at(block, _pick(elsewhere, step.loop)),
        "compute_inline": lambda: sch.compute_inline(block),
        "reverse_compute_inline": lambda: sch.reverse_compute_inline(block),
        "cache_read": lambda: sch.cache_read(block, _pick(reads, step.other), scope="local"),
        "cache_write": lambda: sch.cache_write(block, scope="local"),
        "rfactor": lambda: sch.rfactor(loop),
        "decompose_reduction": lambda: sch.decompose_reduction(block, loop),
        "locate": lambda: sch.compute_at(block, sch.sample_compute_location(block)),
    }
    actions[step.op]()


def _pick(options: Sequence[T], n: int) -> T:
    return options[n % len(options)]


def _rotated(loops: list[LoopRV], n: int) -> list[LoopRV]:
    start = n % len(loops)
    turned = [*loops[start:], *loops[:start]]
    return turned if n < 6 else turned[::-1]
