"""A trace by hand.

Nobody has to search. A schedule can be written step by step, and each step is checked: one that would change the result
raises an error. What the steps leave behind is a trace, a text that can be kept, edited and handed to the search with
holes in it. Everything runs, here or as `python 02_trace_by_hand.py`.
"""

from __future__ import annotations

import shutil
import tempfile
import timeit

import numpy as np

import metasched as ms

# %% [markdown]
# ## 1. The program, and how fast its plain loops are

# %%
TEXT = """
program dense[N=256, M=256, K=256](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
"""
program = ms.parse_program(TEXT)
A, B = np.random.default_rng(0).standard_normal((2, 256, 256), np.float32)


def milliseconds(kernel: ms.Kernel) -> float:
    np.testing.assert_allclose(kernel(A, B), A @ B, rtol=1e-3, atol=1e-3)
    return min(timeit.repeat(lambda: kernel(A, B), number=1, repeat=5)) * 1e3


sch = ms.Schedule(program)
print(sch)
print(f"{milliseconds(ms.compile(program, trace=sch.trace)):.2f} ms")

# %% [markdown]
# ## 2. Vectors first
#
# `j` runs along rows of `B` and `C`. If it is innermost, sixteen neighbours are one vector. So: cut `j` in pieces of
# 32, which are two vectors, put the reduction outside of a piece, and make the piece vectors.

# %%
dense = sch.get_block("dense")
i, j, k = sch.get_loops(dense)
j0, j1 = sch.split(j, [None, 32])
sch.reorder(i, j0, k, j1)
sch.vectorize(j1, lanes=16)
print(sch)
print(f"{milliseconds(ms.compile(program, trace=sch.trace)):.2f} ms")

# %% [markdown]
# ## 3. Sums that stay in registers
#
# Each step of `k` loads two vectors of `B` for two multiply-adds. With six rows at once the same loads serve twelve,
# and the twelve sums stay in registers while `k` runs: that is a *register tile*. 256 is not a multiple of six. That is
# no problem: the last tile has four rows, and the schedule takes care of it.

# %%
i0, i1 = sch.split(i, [None, 6])
sch.reorder(i0, j0, k, i1, j1)
sch.unroll(i1)
sch.parallel(i0)
print(sch)
by_hand = ms.compile(program, trace=sch.trace)
print(f"{milliseconds(by_hand):.2f} ms")

# %% [markdown]
# ## 4. A step that would be wrong
#
# `k` cannot be parallel, since its iterations add to the same sums. The error says so, shows where, and says what to do
# instead.

# %%
try:
    sch.parallel(k)
except ms.ScheduleError as error:
    print(error)

# %% [markdown]
# ## 5. The trace
#
# Here is what we did. This text replays exactly, here or elsewhere: of a schedule, a database keeps nothing else.

# %%
print(sch.trace)
assert ms.parse_trace(str(sch.trace)).apply_to(program).func == sch.func

# %% [markdown]
# It is text, so it can be edited. Eight rows instead of six:

# %%
edited = ms.parse_trace(str(sch.trace).replace("[None, 6]", "[None, 8]"))
print(sch.trace.diff(edited))
print(f"{milliseconds(ms.compile(program, trace=edited)):.2f} ms")

# %% [markdown]
# ## 6. Numbers that somebody else finds
#
# Six or eight, 32 or 64: that is a guess for each shape and each CPU. Put a random variable where you would guess, and
# the same steps are a search space.


# %%
def register_tile(sch: ms.Schedule) -> None:
    dense = sch.get_block("dense")
    i, j, k = sch.get_loops(dense)
    i0, i1 = sch.split(i, sch.sample_tile(i, parts=2, innermost=12))
    j0, j1 = sch.split(j, sch.sample_tile(j, parts=2))
    sch.reorder(i0, j0, k, i1, j1)
    sch.vectorize(j1, lanes=16)
    sch.unroll(i1)
    sch.parallel(i0)


drawn = ms.Schedule(program, seed=1)
register_tile(drawn)
print(drawn.trace)

# %% [markdown]
# The search tries values, and measures. Two trials here, to see it work:

# %%
folder = tempfile.mkdtemp()
kernel = ms.tune(program, trials=2, space=register_tile, db=f"sqlite:///{folder}/hand.db", progress=False)
print(kernel.report)

# %% [markdown]
# A trace with *holes* is such a space, too: leave out what comes after `:=`, and keep what you are sure of.

# %%
holes = drawn.trace.with_decisions({"i": None})
print(holes)
print(ms.space(program, holes)[0])

# %% [markdown]
# ## 7. Another shape
#
# A trace was made for one program. With `Policy.REPAIR` it goes over to others; what does not fit is mended, and
# reported.

# %%
small = ms.parse_program(TEXT, N=5, M=100, K=7)
moved = drawn.trace.apply_to(small, ms.Policy.REPAIR)
for repair in moved.repairs:
    print(repair)
X, Y = np.ones((5, 7), np.float32), np.ones((7, 100), np.float32)
np.testing.assert_array_equal(ms.compile(small, trace=moved.trace)(X, Y), X @ Y)

# %% [markdown]
# ## Where to go from here
#
# [Schedules](../docs/schedule.md) has everything that a schedule can do, and [primitives](../docs/primitives.md) lists
# the steps. A module that is tried on every block of any program is a rule: [from the idea to the
# gain](03_rule_for_a_layer.py).

# %%
shutil.rmtree(folder)
