"""A rule, from the idea to the gain.

The kernels of a network get schedules from a search space, and the space comes from rules. Where you know something
about a layer that the rules do not, you write it down as a rule of your own, twenty lines of Python, and the network
runs faster for it. This tutorial does that to a step of attention. Everything runs, here or as `python
03_rule_for_a_layer.py`.

It needs `pip install 'metasched[onnx]'`. [Writing rules](../docs/rules.md) goes through the same idea for a program of
its own, with all that rules can do.
"""

from __future__ import annotations

import shutil
import tempfile
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser

import metasched as ms

# %% [markdown]
# ## 1. The network, and which layer
#
# One token looks at 4096 earlier ones: its query is multiplied with each of their keys, a softmax makes weights of the
# products, and these average the values.

# %%
TEXT = """
<ir_version: 10, opset_import: ["": 18]>
attend (float[1, 64] query, float[4096, 64] keys, float[4096, 64] values) => (float[1, 64] y) {
    scores = Gemm <alpha = 0.125, transB = 1> (query, keys)
    weights = Softmax (scores)
    y = MatMul (weights, values)
}
"""


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"query": (1, 64), "keys": (4096, 64), "values": (4096, 64)}
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


net = ms.load_onnx(onnx.parser.parse_model(TEXT))
given = inputs()
expected = net(**given)

# %% [markdown]
# The profile says where the time goes: in `scores`, which reads a megabyte of keys.

# %%
print(net.profile(*given.values()))

# %% [markdown]
# Its program is like any other: a sum over 64 products for each of 4096 keys, which lie one after another in memory.

# %%
program = next(row.task.program for row in net.tasks().rows if row.task.nodes[0].name == "scores")
print(program)

# %% [markdown]
# ## 2. What an expert knows
#
# A vector register holds 16 numbers. The rules that metasched comes with tile a product so that a register holds 16
# *results*; then each of its 16 lanes reads another row of the keys, 64 numbers apart. Here one would rather read along
# a row: 16 partial sums for each key, in the lanes of one register, added up at the end. (By now they have a rule for
# that, too: `dot_products`, which came of this idea. So this page compares with the rules of before, `cpu` without it.)
# As a rule:


# %%
@ms.rule
def row_lanes(sch: Any, block: Any, *, lanes: int = 16) -> Any:
    """Sum along the last dimension in vector lanes: neighbouring terms go to different partial sums.

    Args:
        lanes: how many partial sums each element of the result has.
    """
    info = sch.describe(block)
    if not info.reduces or not info.trivial:
        return ms.skip("it is not a reduction that is not scheduled yet")
    along = info.reduction[-1].name
    if not all(read.uses and along in read.uses[-1] for read in info.reads):
        return ms.skip("it does not read along its reduction")
    *rows, k = sch.get_loops(block)
    _, lane = sch.split(k, [None, lanes])
    partial = sch.rfactor(lane)
    sch.vectorize(sch.get_loops(partial)[-1], lanes=lanes)
    sch.reverse_compute_at(block, rows[-1])
    return None


# %% [markdown]
# Where it applies, and why not elsewhere, is said before anything is measured:

# %%
BEFORE = "cpu,-dot_products"
explained = ms.space(program, rules=[row_lanes, BEFORE]).explain()
assert "row_lanes           applied" in explained
print(explained)

# %% [markdown]
# ## 3. What it gains
#
# The layer's program is tuned alone, in the space of those rules, and in that of our rule before them: on this machine,
# with as many trials, and results are checked. What is measured goes to a database; a network takes from it what is
# recorded for its programs, whoever recorded it. A few trials here, so that this page is built in seconds; 64 are
# usual.

# %%
folder = tempfile.mkdtemp()
without, with_ours = f"sqlite:///{folder}/without.db", f"sqlite:///{folder}/with.db"
found = ms.tune(program, trials=4, rules=BEFORE, db=without, progress=False)
kernel = ms.tune(program, trials=4, rules=[row_lanes, BEFORE], db=with_ours, progress=False)
print(f"without the rule: {found.report.seconds * 1e6:.0f} us, with it: {kernel.report.seconds * 1e6:.0f} us")
print(f"\n{kernel.trace}")


# %% [markdown]
# And in the network, which runs the fastest of what is recorded for its programs. A search measures the guess first,
# the one that a call without a word gets. Here that is by the shipped rule that came of the same idea, so it may stay.


# %%
def microseconds(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, number=20, repeat=20)) / 20 * 1e6


before = microseconds(lambda: net(**given))
net.use(with_ours)
np.testing.assert_allclose(net(**given), expected, rtol=1e-3, atol=1e-3)
after = microseconds(lambda: net(**given))
print(f"the network: {before:.0f} us with guesses alone, {after:.0f} us with what was found")
print(net.profile(*given.values()))

# %% [markdown]
# ## 4. Is it the rule?
#
# A time before and a time after are not a proof. `metasched rules try FILE.py PROGRAM.ms` compares with as many trials
# of the shipped rules, at equal seeds, times the two best kernels in turns, and prints an interval for the gain: [from
# an idea to a gain](../docs/rules.md#from-an-idea-to-a-gain).

# %%
shutil.rmtree(folder)
