"""A network as its users hold it: called with arrays, printed, looked at."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metasched.errors import KernelError
from metasched.graph.choices import NO_CHOICES, Choices
from metasched.graph.executable import Executable
from metasched.graph.export import export_network
from metasched.graph.importing import Binding, import_model
from metasched.graph.ir import Array, Graph, ValueType
from metasched.graph.kernels import kernels
from metasched.graph.model_file import ModelLike, read_model
from metasched.graph.passes.pipeline import PassOptions, PassReport, optimised, run_passes
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.profile import NetworkProfile, profiled
from metasched.runtime import arguments
from metasched.runtime.foreign import as_numpy
from metasched.support.cached import cached_property
from metasched.target import Target


class Network:
    """A model with all sizes bound: `net(x)` runs it.

    Inputs are NumPy arrays of the network's types (see `inputs`), by position or by name, or arrays of other libraries
    in the CPU's memory; a contiguous copy is made where one is not. Results are new NumPy arrays, a tuple where there
    are several. Kernels are compiled at the first call, or by `compile`. Several threads may call one network.

    Attributes:
        graph: what the model says.
        optimised: what runs: the graph after the passes; see `passes`.
        precision: what products are computed from.

    """

    def __init__(
        self, graph: Graph, target: Target | None = None, precision: ProductPrecision | str = ProductPrecision.F32
    ) -> None:
        self.graph = graph
        self.target = target or Target.detect()
        self.precision = ProductPrecision.of(precision)
        self.choices: Choices = NO_CHOICES
        self._executable: Executable | None = None
        self._lock = threading.Lock()

    @property
    def _options(self) -> PassOptions:
        return PassOptions(self.target, precision=self.precision)

    @cached_property
    def optimised(self) -> Graph:
        """The graph after the passes, which is what runs."""
        return optimised(self.graph, self._options)

    def passes(self) -> tuple[PassReport, ...]:
        """What each pass did, in order: print one for its remarks; `before` and `after` of it are graphs."""
        return tuple(run_passes(self.graph, self._options))

    @property
    def inputs(self) -> Mapping[str, ValueType]:
        """Names and types of the inputs, in order."""
        return {name: self.graph.types[name] for name in self.graph.inputs}

    @property
    def outputs(self) -> Mapping[str, ValueType]:
        """Names and types of the outputs, in order."""
        return {label: self.graph.types[name] for label, name in self.graph.outputs}

    def compile(self) -> Network:
        """Compile every distinct program now. Returns this network."""
        self._compiled()
        return self

    def _compiled(self) -> Executable:
        if self._executable is None:
            with self._lock:
                if self._executable is None:
                    codes = kernels(self.optimised, self.choices, self.target)
                    self._executable = Executable(self.optimised, codes, self.target)
        return self._executable

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network; raises KernelError for inputs that it cannot take."""
        if named:
            inputs = arguments.in_order(f"network `{self.graph.name}`", list(self.graph.inputs), inputs, named)
        arrays = self._checked(inputs)
        results = self._compiled().run(arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def export(self, folder: str | Path) -> Path:
        """Write the compiled network into a folder that runs with NumPy alone, and return its path.

            net.export("fast")
            from fast.network import run  # in any process: it takes and gives what this network does

        It has `network.py`, its machine code, and the weights as kernels read them, which processes share. It is for
        Linux on x86-64 and CPUs with this target's instruction sets. Raises NetworkError on other machines, and for
        a folder that has other files in it.
        """
        return export_network(self._compiled(), self.graph.name, self.target, folder)

    def profile(self, /, *inputs: Any, runs: int = 30, **named: Any) -> NetworkProfile:
        """Where the time of a call goes, on these inputs: print it, or read its `kernels`. See `graph.profile`."""
        if named:
            inputs = arguments.in_order(
                f"network `{self.graph.name}`", list(self.graph.inputs), inputs, named, ["runs"]
            )
        return profiled(self._compiled(), self.optimised, self._checked(inputs), self.target, runs)

    def _checked(self, inputs: Sequence[Any]) -> list[Array]:
        wanted = self.inputs
        if len(inputs) != len(wanted):
            listed = ", ".join(f"{name}: {type_}" for name, type_ in wanted.items())
            raise KernelError(f"network `{self.graph.name}` takes ({listed}), and {len(inputs)} inputs are given")
        taken = [
            np.asarray(value) if isinstance(value, np.generic) else as_numpy(name, value)
            for name, value in zip(wanted, inputs, strict=True)
        ]
        for (name, type_), array in zip(wanted.items(), taken, strict=True):
            if not isinstance(array, np.ndarray):
                raise KernelError(f"the input `{name}` is {type_}, and a {type(array).__name__} is given")
            if array.dtype != type_.dtype.numpy or array.shape != type_.shape:
                raise KernelError(
                    f"the input `{name}` is {type_}, and an array of {array.dtype} {array.shape} is given\n"
                    "  hint: cast or reshape it; other sizes are bound at load"
                )
        return taken

    def __repr__(self) -> str:
        given = ", ".join(f"{name}: {type_}" for name, type_ in self.inputs.items())
        made = ", ".join(f"{name}: {type_}" for name, type_ in self.outputs.items())
        count = sum(1 for _ in self.graph.computes)
        return f"<network {self.graph.name}({given}) -> ({made}), {count} kernels, {len(self.graph.tasks)} distinct>"


def load_onnx(
    model: ModelLike,
    *,
    values: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    target: Target | None = None,
    precision: ProductPrecision | str = ProductPrecision.F32,
    **sizes: int,
) -> Network:
    """A network from an ONNX model: opsets 13 to the newest that the installed package `onnx` knows.

        net = ms.load_onnx("m.onnx", batch=1, seq=128)

    Args:
        model: the path of a file, its bytes, or an `onnx.ModelProto`. External data is read from the file's folder.
        values: inputs that are settled now, by name: those that decide shapes, such as a target shape or axes. The
            network does not take them any more.
        shapes: whole shapes of inputs, by name, where the model names no sizes.
        target: the CPU to compile for; by default this one.
        precision: "f32", what the model says, or "bf16": products of bf16, added up in f32. A quantised model computes
            with the bytes that it says at any precision.
        sizes: sizes that the model leaves open, by their names in it.

    Every node becomes programs of the language: `net.graph` has them, and prints them. Raises RefusedModel, with all
    nodes that cannot be expressed, and NetworkError for a file that is damaged or sizes that are not settled.
    """
    binding = Binding(sizes, shapes or {}, values or {})
    return Network(import_model(read_model(model), binding), target, precision)
