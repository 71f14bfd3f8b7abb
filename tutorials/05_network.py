"""From a PyTorch module to a tuned network that runs with NumPy alone.

A model file goes in; what comes out is one function of arrays. On the way there is nothing that cannot be looked at:
every layer becomes a program of the language, every program gets a schedule, and you can see both. This file takes a
small convolutional network along that way. Everything runs, here or as `python 05_network.py`.

It needs `pip install 'metasched[onnx]'`. With PyTorch (and onnxscript) the model is exported from a module; without,
the same layers are written down in ONNX's own text.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

import metasched as ms
from metasched.graph.ir import Compute, ShapeView

# %% [markdown]
# ## 1. A model
#
# Two convolutions with batch norm and a skip connection, an average over the image, and a classifier. In PyTorch:


# %%
def export_with_torch(file: Path) -> None:
    import torch  # type: ignore[import-not-found]
    from torch import nn

    class Small(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
            self.second = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
            self.head = nn.Linear(16, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            y = torch.relu(self.second(y) + y)
            return self.head(y.mean((2, 3)))

    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own
        torch.onnx.export(Small().eval(), (torch.randn(1, 3, 32, 32),), str(file), input_names=["x"], dynamo=True)


# %% [markdown]
# The same as ONNX has it. A model file is such a graph, and its weights.

# %%
TEXT = """
<ir_version: 10, opset_import: ["": 18]>
small (float[1, 3, 32, 32] x) => (float[1, 10] y) {
    c1 = Conv <pads = [1, 1, 1, 1]> (x, w1)
    n1 = BatchNormalization (c1, scale, shift, mean, var)
    r1 = Relu (n1)
    c2 = Conv <pads = [1, 1, 1, 1]> (r1, w2)
    n2 = BatchNormalization (c2, scale, shift, mean, var)
    s = Add (n2, r1)
    r2 = Relu (s)
    g = GlobalAveragePool (r2)
    f = Flatten (g)
    y = Gemm <transB = 1> (f, w3, b3)
}
"""
WEIGHTS = {"w1": (16, 3, 3, 3), "w2": (16, 16, 3, 3), "w3": (10, 16), "b3": (10,), "scale": (16,), "shift": (16,)}


def write_by_hand(file: Path) -> None:
    model = onnx.parser.parse_model(TEXT)
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(shape, np.float32) * 0.2 for name, shape in WEIGHTS.items()}
    arrays |= {"mean": np.zeros(16, np.float32), "var": np.ones(16, np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    onnx.save(model, file)


def has_torch() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "onnxscript"))


folder = Path(tempfile.mkdtemp())
(export_with_torch if has_torch() else write_by_hand)(folder / "small.onnx")

# %% [markdown]
# ## 2. What is in it
#
# `load_onnx` turns every node into programs, with all sizes bound. `net.graph` is what the model says. The passes then
# make of it what runs, `net.optimised`: batch norm goes into the weights, and what follows a convolution element by
# element is computed where its result is still in registers. Equal programs are one *task*, and are tuned once.

# %%
net = ms.load_onnx(folder / "small.onnx")
print(net)

# %%
for report in net.passes():
    print(report)
imported, runs = (len(list(graph.computes)) for graph in (net.graph, net.optimised))
print(f"{imported} programs as imported, {runs} after the passes. The first of these:")
print(next(iter(net.optimised.computes)).program)
assert runs < imported

# %% [markdown]
# ## 3. Calling it
#
# `net(x)` takes and gives NumPy arrays. It is compiled at the first call, or by `net.compile()`: every task by a guess,
# which is often good and measures nothing.

# %%
x = np.random.default_rng(1).standard_normal((1, 3, 32, 32), np.float32)
y = net(x)
print(y)

# %% [markdown]
# Nobody has to take our word for the numbers. `ms.reference` runs any program in the plainest way and shares nothing
# with the compiler; here it runs the whole graph, as it was imported, node by node.


# %%
def by_reference(net: ms.Network, x: np.ndarray) -> np.ndarray:
    values = {**net.graph.constants, net.graph.inputs[0]: x}
    for node in net.graph.nodes:
        if isinstance(node, Compute):
            results = ms.reference(node.program)(*(values[name] for name in node.inputs))
            values |= zip(node.outputs, results if isinstance(results, tuple) else (results,), strict=True)
        elif isinstance(node, ShapeView):  # the same elements in another shape
            values[node.output] = values[node.input].reshape(net.graph.types[node.output].shape)
    return np.asarray(values[net.graph.outputs[0][1]])


expected = by_reference(net, x)
np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
print(f"largest difference from the reference: {np.abs(y - expected).max():.2g}")

# %% [markdown]
# ## 4. Where the time goes
#
# `net.profile(x)` times each kernel where it runs, in the network's own call, and says what share of the limit of the
# machine it reaches. What is far from it, and takes long, is worth a look: a [rule of your own](03_rule_for_a_layer.py)
# may help.

# %%
print(net.profile(x))

# %% [markdown]
# ## 5. Tuning
#
# `net.tune(budget=600)` measures candidates for ten minutes, those tasks first that promise most for the whole network,
# and shows a table meanwhile. What was measured is in a database: Ctrl-C loses nothing, the same call goes on, and
# `ms.load_onnx(..., db=...)` starts with the best. Here are a few trials, to see it work.

# %%
print(net.tune(trials=2, db=f"sqlite:///{folder}/small.db", progress=False))

# %% [markdown]
# ## 6. Handing it over
#
# `net.export("folder")` writes what was compiled: a Python file, machine code and weights. It needs NumPy, and none of
# metasched: so it is another process that runs it here.

# %%
ELSEWHERE = """
import sys
import numpy as np
from fast.network import run
assert "metasched" not in sys.modules and "numba" not in sys.modules
np.save("y.npy", run(np.load("x.npy")))
"""

net.export(folder / "fast")
np.save(folder / "x.npy", x)
subprocess.run([sys.executable, "-c", ELSEWHERE], cwd=folder, check=True)
np.testing.assert_array_equal(np.load(folder / "y.npy"), net(x))
print("exported: ", *sorted(file.name for file in (folder / "fast").iterdir()))

# %% [markdown]
# That is all of it: a model in, a folder out, and nothing in between that could not be looked at.
# [Networks](../docs/networks.md) has the rest: precision, sizes that change, and what is refused.

# %%
shutil.rmtree(folder)
