"""Arg-reductions and gathers under random schedules agree with NumPy, in the reference and natively."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from metasched.errors import BuildError, ScheduleError
from metasched.ir.validate import validate
from metasched.lang.load import parse_program
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.schedule.values import LoopRV
from metasched.target import Target

STEPS = 6
TEXT = """
program p[N={n}, H={h}, W={w}](X: f32[N, H, W], T: f32[{v}, W], I: i32[N]) -> (V: f32[N], P: {t}[N], Y: f32[N, W]):
    S[i, h, w] = X[i, h, w] + T[I[i], w]
    best: V[i], P[i] = {name}[h, w](S[i, h, w])
    Y[i, w] = X[i, i64(P[i]) // W, w]
"""


def _step(schedule: Schedule, rng: np.random.Generator) -> None:
    """One random transformation; ScheduleError where it is not legal."""
    names = [b for b in ("S", "best", "best.rf", "Y") if _has(schedule, b)]
    block = schedule.get_block(str(rng.choice(names)))
    loops: list[LoopRV] = list(schedule.get_loops(block))
    loop = loops[int(rng.integers(len(loops)))]
    factor = int(rng.choice([2, 3, 4]))
    others = [x for x in ("S", "best", "best.rf", "Y") if x in names]
    there = schedule.get_loops(schedule.get_block(str(rng.choice(others))))
    actions: list[Callable[[], object]] = [
        lambda: schedule.split(loop, [None, factor]),
        lambda: schedule.reorder(*[loops[n] for n in rng.permutation(len(loops))]),
        lambda: schedule.fuse(*loops[:2]),
        lambda: schedule.rfactor(loop),
        lambda: schedule.parallel(loop),
        lambda: schedule.vectorize(loop, lanes=int(rng.choice([4, 8]))),
        lambda: schedule.unroll(loop),
        lambda: schedule.decompose_reduction(block, loop),
        lambda: schedule.compute_at(block, there[int(rng.integers(len(there)))]),
        lambda: schedule.reverse_compute_at(block, there[int(rng.integers(len(there)))]),
        lambda: schedule.compute_inline(block),
        lambda: schedule.cache_read(block, "T", "local"),
        lambda: schedule.set_scope(block, "local"),
    ]
    actions[int(rng.integers(len(actions)))]()


def _has(schedule: Schedule, block: str) -> bool:
    try:
        schedule.get_block(block)
    except ScheduleError:
        return False
    return True


def _data(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Many ties, and some NaN and infinities."""
    data = rng.integers(-3, 4, shape).astype(np.float32)
    flat = data.reshape(-1)
    for odd in (np.nan, np.inf, -np.inf):
        flat[rng.integers(flat.size, size=rng.integers(3))] = odd
    return data


@pytest.mark.parametrize("seed", range(24))
def test_random_schedules_agree_with_numpy(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    n, h, w, v = (int(rng.integers(1, 8)) for _ in range(4))
    name, t = str(rng.choice(["argmax", "argmin"])), str(rng.choice(["i32", "i64"]))
    program = parse_program(TEXT.format(n=n, h=h, w=w, v=v, name=name, t=t))
    schedule = Schedule(program, seed=seed)
    for _ in range(STEPS):
        try:
            _step(schedule, rng)
        except ScheduleError:
            continue
        validate(schedule.func)
    x, table, at = _data(rng, (n, h, w)), _data(rng, (v, w)), rng.integers(0, v, n).astype(np.int32)
    with np.errstate(invalid="ignore"):
        flat = (x + table[at][:, None, :]).reshape(n, -1)
    found = getattr(np, name)(flat, axis=1)
    expected = (flat[np.arange(n), found], found, x[np.arange(n), found // w])
    runs: list[Callable[..., object]] = [reference(schedule.func)]
    try:
        runs.append(Kernel(build(schedule.func, Target.detect())))
    except BuildError:
        assert "register" not in str(schedule.trace)
    for run in runs:
        results = run(x, table, at)
        assert isinstance(results, tuple)
        for result, right in zip(results, expected, strict=True):
            assert np.array_equal(result, right, equal_nan=result.dtype.kind == "f"), str(schedule.trace)
