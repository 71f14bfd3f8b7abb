"""A pipeline.

Image filters are several small stages, one after another. Each alone is easy. What makes a pipeline fast is *where*
each stage is computed: all at once and stored, a row at a time while it is still in the cache, or again wherever it is
read. This tutorial takes an unsharp mask through these. Everything runs, here or as `python 06_pipeline.py`.
"""

from __future__ import annotations

import timeit

import numpy as np

import metasched as ms

# %% [markdown]
# ## 1. The stages
#
# A blur along columns, a blur along rows, and the picture made sharper by what the blur took away. The input has two
# more pixels on each side, so nothing reads past a border.

# %%
program = ms.parse_program("""
program unsharp[H=600, W=800](X: f32[H + 4, W + 4], amount: f32) -> Y: f32[H, W]:
    D: f32[H, W + 4]
    B: f32[H, W]
    down:   D[h, w] = (X[h, w] + 4 * X[h + 1, w] + 6 * X[h + 2, w] + 4 * X[h + 3, w] + X[h + 4, w]) / 16
    across: B[h, w] = (D[h, w] + 4 * D[h, w + 1] + 6 * D[h, w + 2] + 4 * D[h, w + 3] + D[h, w + 4]) / 16
    sharp:  Y[h, w] = X[h + 2, w + 2] + amount * (X[h + 2, w + 2] - B[h, w])
""")

# %% [markdown]
# A picture to try it on, a disc on a ramp, and the plain answer by NumPy:

# %%
h, w = np.mgrid[0:604, 0:804]
X = (0.3 + w / 2500 + 0.3 * ((h - 302) ** 2 + (w - 402) ** 2 < 200**2)).astype(np.float32)


def by_numpy(x: np.ndarray, amount: float) -> np.ndarray:
    taps = np.array([1, 4, 6, 4, 1]) / 16
    down = sum(t * x[n : n + 600] for n, t in enumerate(taps))
    blurred = sum(t * down[:, n : n + 800] for n, t in enumerate(taps))
    middle = x[2:-2, 2:-2]
    result: np.ndarray = middle + amount * (middle - blurred)
    return result


def picture(y: np.ndarray) -> str:
    shades = " .:-=+*#%@"
    return "\n".join("".join(shades[int(v)] for v in np.clip(row * 10, 0, 9)) for row in y[::40, ::20])


expected = by_numpy(X, 1.5)
print(picture(expected))

# %% [markdown]
# ## 2. Everything apart
#
# As it is written, each stage is a nest of its own, and stores its whole result before the next one starts. Vectors and
# threads help each of them, and the memory between them stays.


# %%
def microseconds(kernel: ms.Kernel) -> float:
    np.testing.assert_allclose(kernel(X, 1.5), expected, rtol=1e-4, atol=1e-5)
    return min(timeit.repeat(lambda: kernel(X, 1.5), number=5, repeat=5)) / 5 * 1e6


def fast_rows(sch: ms.Schedule, name: str) -> None:
    rows, columns = sch.get_loops(sch.get_block(name))[-2:]
    sch.parallel(rows)
    sch.vectorize(columns, lanes=16)


apart = ms.Schedule(program)
for name in ("down", "across", "sharp"):
    fast_rows(apart, name)
print(f"{microseconds(ms.compile(program, trace=apart.trace)):.0f} us")

# %% [markdown]
# ## 3. Computed again where it is read
#
# `across` is read at one place, so it costs nothing to compute it there. `down` is read at five: inlined, it is
# computed five times for each pixel, and nothing at all is stored.

# %%
inlined = ms.Schedule(program)
inlined.compute_inline(inlined.get_block("across"))
inlined.compute_inline(inlined.get_block("down"))
fast_rows(inlined, "sharp")
print(inlined)
print(f"{microseconds(ms.compile(program, trace=inlined.trace)):.0f} us")

# %% [markdown]
# ## 4. A row at a time
#
# In between: each thread takes a row of the result, computes the row of `down` that it needs, and uses it at once. The
# row stays in the nearest cache, and of `down` only that row is ever in memory. This is what Halide's users know as
# `compute_at`.

# %%
by_row = ms.Schedule(program)
by_row.compute_inline(by_row.get_block("across"))
rows, columns = by_row.get_loops(by_row.get_block("sharp"))
by_row.compute_at(by_row.get_block("down"), rows)
by_row.parallel(rows)
by_row.vectorize(columns, lanes=16)
by_row.vectorize(by_row.get_loops(by_row.get_block("down"))[-1], lanes=16)
print(by_row)
print(f"{microseconds(ms.compile(program, trace=by_row.trace)):.0f} us")

# %% [markdown]
# ## 5. Left to the machine
#
# All of these, and more, are in the space of the shipped rules. Where a stage is computed is a random variable there,
# like a tile size. The guess takes what the cost model likes best, and measures nothing; `ms.tune(program)` would
# measure.

# %%
guess = ms.compile(program)
print(f"{microseconds(guess):.0f} us")
print(guess.report)
print(guess.trace.apply_to(program))

# %% [markdown]
# ## Where to go from here
#
# - [Storage apart from computation](../docs/schedule.md): `store_at` keeps the window of rows that the next row needs,
#   so that nothing is computed twice.
# - [What the default space holds](../docs/spaces.md): the rules `inline`, `compute_location`, `strips` and `rolling`
#   decide about pipelines.
