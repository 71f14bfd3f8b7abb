"""An instruction of your own CPU.

CPUs have instructions that compute a small product of matrices, or a part of one, at once. metasched knows those of
AVX-512 and AMX. This tutorial teaches it another, `vpmaddwd` of AVX2, which every x86-64 CPU of the last ten years has:
in each of eight lanes it adds two products of 16-bit integers. It is two small files: *what* the instruction computes,
and *how* it is emitted. Everything runs, here or as `python 04_instruction.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import metasched as ms
import metasched.compiler.cpu.intrinsics
import metasched.schedule.intrinsics

# %% [markdown]
# ## 1. What it computes
#
# A tensor intrinsic is described by a program of the language: one stage, a sum. Schedules are matched against this
# program, and the reference runs it, so nobody has to believe a name. Beside it stand the instruction sets that it
# needs, by LLVM's names, and what it costs: it can start every cycle, and its sums are there after five.

# %%
WHAT = '''
"""AVX2's vpmaddwd: in each of 8 lanes, 2 products of signed 16-bit integers, added up (wrapping, as i32 does)."""

FEATURES = ("avx2",)
VECTOR_BITS = 256
THROUGHPUT = 1.0
LATENCY = 5.0
REGISTERS = 1

PROGRAM = """
program dot_i16_avx2(A: i16[2], B: i16[8, 2]) -> C: i32[8]:
    C[j] = sum[k](i32(A[k]) * i32(B[j, k]))
"""
'''

# %% [markdown]
# ## 2. How it is emitted
#
# `A` has one pair of numbers for all lanes, `B` a pair for each. `operands` gives them as vectors; the instruction is
# called by its name in LLVM, and its result is added to what is there.

# %%
HOW = '''
"""One vpmaddwd and an addition for 8 lanes."""

from metasched.dtypes import DType
from metasched.ir.nodes import BinOp


def emit(operands):
    """C += the dot products of the pair of A with each pair of B."""
    a, b = operands.repeated("A"), operands.groups("B")
    products = operands.call("llvm.x86.avx2.pmadd.wd", DType.I32, a, b)
    operands.store("C", operands.binary(BinOp.ADD, operands.load("C"), products))
'''

# %% [markdown]
# ## 3. Where the two files go
#
# In the package: `metasched/schedule/intrinsics/dot_i16_avx2.py` and
# `metasched/compiler/cpu/intrinsics/dot_i16_avx2.py`. Nothing else is edited; a file in these folders is an intrinsic
# of its name. A trace means the same wherever it is replayed, so an intrinsic cannot come from another package: it is a
# contribution, with a [test](../CONTRIBUTING.md#adding-a-tensor-intrinsic). To try it without touching the package,
# this tutorial puts them into a folder of its own, which this process alone takes for a part of the package.

# %%
folder = Path(tempfile.mkdtemp())
for package, text in ((metasched.schedule.intrinsics, WHAT), (metasched.compiler.cpu.intrinsics, HOW)):
    place = folder / package.__name__
    place.mkdir()
    (place / "dot_i16_avx2.py").write_text(text)
    package.__path__.append(str(place))

# %% [markdown]
# ## 4. By hand
#
# A product of two matrices of 16-bit integers, the second transposed. Cut `j` by the eight lanes and `k` by the pair,
# put these two loops innermost, and say that they are one instruction.

# %%
program = ms.parse_program("""
program products[N=32, M=64, K=64](A: i16[N, K], B: i16[M, K]) -> C: i32[N, M]:
    C[i, j] = sum[k](i32(A[i, k]) * i32(B[j, k]))
""")
sch = ms.Schedule(program)
block = sch.get_block("C")
i, j, k = sch.get_loops(block)
j0, j1 = sch.split(j, [None, 8])
k0, k1 = sch.split(k, [None, 2])
sch.reorder(i, j0, k0, k1, j1)
sch.tensorize(k1, "dot_i16_avx2")
print(sch)

# %% [markdown]
# Numbers over the whole range of their type, compared with NumPy: integers have one right answer. And a look at the
# code. Where the CPU has VNNI as well, LLVM makes one `vpdpwssd` of `vpmaddwd` and the addition.

# %%
rng = np.random.default_rng(0)
A, B = (rng.integers(-(2**15), 2**15, shape, np.int16) for shape in ((32, 64), (64, 64)))
expected = A.astype(np.int32) @ B.astype(np.int32).T
target = ms.Target.detect()
if target.has("avx2"):
    kernel = ms.compile(program, trace=sch.trace)
    np.testing.assert_array_equal(kernel(A, B), expected)
    print(next(line.strip() for line in kernel.asm.splitlines() if "vpmaddwd" in line or "vpdpwssd" in line))

# %% [markdown]
# A loop that does not fit is refused, and the message says what differs:

# %%
wrong = ms.Schedule(program)
i, j, k = wrong.get_loops(wrong.get_block("C"))
try:
    wrong.tensorize(j, "dot_i16_avx2")
except ms.ScheduleError as error:
    print(error)

# %% [markdown]
# ## 5. By a rule
#
# The search uses an instruction by a rule, and the rule is there: `tensorize` finds out which of a block's variables
# are the instruction's, what has to be fused, padded and packed, and samples the tiles around it. A CPU's rule is a
# configuration of it: how large the tile of accumulators may be, which is what the registers hold.

# %%
from metasched.rules.tensorize import tensorize

use_pmaddwd = tensorize(intrinsics=("dot_i16_avx2",), rows=(4, 1), columns=2).named("use_pmaddwd")
space = ms.space(program, rules=[use_pmaddwd, "vectorize", "parallelize", "unroll"], target=target)
print(space.explain())

# %% [markdown]
# The first sketch, with its sizes left free. It copies `B` into panels of eight columns, as the instruction wants them.
# With any sizes drawn it is a kernel, checked as the one by hand was:

# %%
sketch = space[0]
print(sketch)
if target.has("avx2"):
    drawn = ms.compile(program, trace=sketch.trace, policy=ms.Policy.REPAIR)
    np.testing.assert_array_equal(drawn(A, B), expected)

# %% [markdown]
# ## Where to go from here
#
# - [Adding a tensor intrinsic](../CONTRIBUTING.md#adding-a-tensor-intrinsic): the test that holds it to its program,
#   and what else a description may say (tiles, layouts, denormals).
# - [The tensor instruction of another CPU](../docs/rules.md#the-tensor-instruction-of-another-cpu): what the rule finds
#   out by itself.

# %%
for package in (metasched.schedule.intrinsics, metasched.compiler.cpu.intrinsics):
    package.__path__.pop()
    sys.modules.pop(f"{package.__name__}.dot_i16_avx2", None)
