"""Your first kernel.

A *kernel* is a function of arrays, compiled for their shapes, on this CPU. You say what it computes. metasched finds
out how, and you can read what it found. This tutorial makes one, tunes it, and takes it apart. Everything runs, here or
as `python 01_first_kernel.py`.
"""

from __future__ import annotations

import shutil
import tempfile

import numpy as np

import metasched as ms

# %% [markdown]
# ## 1. Say what it computes
#
# A matrix product, and a ReLU on it, in index notation. `k` is not an index of the result, so the product is summed
# over it.

# %%
f = ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j]); D[i, j] = max(C[i, j], 0)")
A, B = np.random.default_rng(0).standard_normal((2, 128, 128), np.float32)
D = f(A, B)
np.testing.assert_allclose(D, np.maximum(A @ B, 0), rtol=1e-3, atol=1e-3)
print(D[:2, :4])

# %% [markdown]
# The first call looked at the shapes and types of `A` and `B`, took a good guess at a schedule, and compiled it. Other
# shapes would be another kernel. The guess says where it comes from, and what it expects; nothing was measured yet.

# %%
print(f.kernel_for(A, B).report)

# %% [markdown]
# ## 2. A program
#
# What `ms.kernel` made of that line is a *program*. You can write one yourself, with names for its sizes and stages, in
# a file of its own or as text. It says what is computed and nothing about loops, threads or vectors.

# %%
program = ms.parse_program("""
program dense_relu[N=128, M=128, K=128](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
""")
print(ms.Schedule(program))

# %% [markdown]
# That is the program as plain loops: what it means, and what any fast version has to agree with.
#
# ## 3. Measure
#
# `ms.tune` builds candidates and times them on this machine, in processes of their own. Each one's result is compared
# with the reference before its time counts. What was measured goes to a database, so the same call again takes no time,
# and a larger `trials` goes on from there. Four are hardly a search; 64 are usual.

# %%
folder = tempfile.mkdtemp()
db = f"sqlite:///{folder}/first.db"
kernel = ms.tune(program, trials=4, db=db, progress=False)
print(kernel.report)

# %% [markdown]
# The first trial is always the guess, so what `tune` returns is never slower than what you had.
#
# ## 4. Read what won
#
# A schedule is not a black box. It leaves a *trace*: a straight line of instructions, with the numbers that were chosen
# after `:=`.

# %%
print(kernel.trace)

# %% [markdown]
# The program after these steps: the same sums, in another order.

# %%
print(kernel.trace.apply_to(program))

# %% [markdown]
# ## 5. Use it
#
# A kernel takes NumPy arrays, and arrays of other libraries where they lie. It can write into an array of yours, and it
# can be called in `@njit` code. It checks what it is given, and copies nothing behind your back.

# %%
out = np.empty_like(D)
kernel(A, B, out=out)
np.testing.assert_allclose(out, D, rtol=1e-3, atol=1e-3)
try:
    kernel(A.T, B)
except ms.KernelError as error:
    print(error)

# %% [markdown]
# Later, or in another process, the best that was recorded is compiled without measuring again:

# %%
again = ms.compile(program, db=db)
assert again.trace == kernel.trace
print(again.origin)

# %% [markdown]
# ## Where to go from here
#
# - [A trace by hand](02_trace_by_hand.py): write the schedule yourself, step by step.
# - [A rule, from the idea to the gain](03_rule_for_a_layer.py): teach the search something that it does not know.
# - The same from a shell: `metasched tune examples/dense_relu.ms --trials 64`.

# %%
shutil.rmtree(folder)
