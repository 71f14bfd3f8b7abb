"""A network as its users hold it: called with arrays, printed, looked at."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metasched.errors import KernelError
from metasched.graph.choices import NO_CHOICES, Choices
from metasched.graph.errors import NetworkError
from metasched.graph.executable import Executable
from metasched.graph.inputs import random_inputs
from metasched.graph.ir import Array, Graph, ValueType
from metasched.graph.kernels import kernels
from metasched.graph.packed_constants import let_constants_go, return_free_memory
from metasched.graph.passes.pipeline import PassOptions, PassReport, optimised, run_passes
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.precision.error import PrecisionError, differences
from metasched.graph.precision.rounding import without_rounding
from metasched.graph.profile import NetworkProfile, profiled
from metasched.graph.state import NetworkState
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
        state: what it holds between calls, by the names of inputs that calls do not give; empty for most networks.

    """

    def __init__(
        self, graph: Graph, target: Target | None = None, precision: ProductPrecision | str = ProductPrecision.F32
    ) -> None:
        self.graph = graph
        self.target = target or Target.detect()
        self.precision = ProductPrecision.of(precision)
        self.choices: Choices = NO_CHOICES
        self.state = NetworkState(self._state_types)
        self._executable: Executable | None = None
        self._error: PrecisionError | None = None
        self._lock = threading.Lock()

    @property
    def _options(self) -> PassOptions:
        return PassOptions(self.target, precision=self.precision)

    @cached_property
    def optimised(self) -> Graph:
        """The graph after the passes, which is what runs."""
        return optimised(self.graph, self._options)

    def _again(self) -> Graph:
        return optimised(self.graph, self._options)

    def passes(self) -> tuple[PassReport, ...]:
        """What each pass did, in order: print one for its remarks; `before` and `after` of it are graphs."""
        return tuple(run_passes(self.graph, self._options))

    @property
    def inputs(self) -> Mapping[str, ValueType]:
        """Names and types of what a call is given, in order."""
        return {name: self.graph.types[name] for name in self.graph.inputs if name not in self.graph.states}

    @property
    def outputs(self) -> Mapping[str, ValueType]:
        """Names and types of what a call returns, in order."""
        held = self.graph.states.values()
        return {label: self.graph.types[name] for label, name in self.graph.outputs if label not in held}

    @property
    def _state_types(self) -> Mapping[str, ValueType]:
        return {name: self.graph.types[name] for name in self.graph.states}

    def session(self) -> Network:
        """This network with a state of its own, zeros at first; code and weights are the same, held once."""
        self._compiled()
        other = copy.copy(self)
        other.state = NetworkState(self._state_types)
        return other

    def compile(self) -> Network:
        """Compile every distinct program now. Returns this network."""
        self._compiled()
        return self

    def _compiled(self) -> Executable:
        if self._executable is None:
            with self._lock:
                if self._executable is None:
                    graph = self.optimised
                    codes = kernels(graph, self.choices, self.target)
                    self._executable = Executable(graph, codes, self.target)
                    self.optimised = let_constants_go(graph, self.graph, self._again)
                    return_free_memory()
        return self._executable

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network; raises KernelError for inputs that it cannot take."""
        if named:
            inputs = arguments.in_order(f"network `{self.graph.name}`", list(self.inputs), inputs, named)
        arrays = self._checked(inputs)
        executable = self._compiled()
        if self.state:
            with self.state.lock:
                results = executable.run(self._with(self.state, arrays))
        else:
            results = executable.run(arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def export(self, folder: str | Path) -> Path:
        """Write the compiled network into a folder that runs with NumPy alone, and return its path.

            net.export("fast")
            from fast.network import run  # in any process: it takes and gives what this network does

        It has `network.py`, its machine code, and the weights as kernels read them, which processes share. It is for
        Linux on x86-64 and CPUs with this target's instruction sets. Raises NetworkError on other machines, for
        a folder that has other files in it, and for a network that has states.
        """
        if self.state:
            raise NetworkError(
                f"network `{self.graph.name}` has states, and an exported one keeps nothing between calls\n"
                "  hint: load it without `states`, and give its caches with each call"
            )
        # It imports the compiler.
        from metasched.graph.export import export_network

        return export_network(self._compiled(), self.graph.name, self.target, folder)

    def profile(self, /, *inputs: Any, runs: int = 30, **named: Any) -> NetworkProfile:
        """Where the time of a call goes, on these inputs: print it, or read its `kernels`. See `graph.profile`."""
        if named:
            inputs = arguments.in_order(f"network `{self.graph.name}`", list(self.inputs), inputs, named, ["runs"])
        given = self._with(self.state.copy(), self._checked(inputs))
        return profiled(self._compiled(), self.optimised, given, self.target, runs)

    def _with(self, state: NetworkState, arrays: Sequence[Array]) -> list[Array]:
        """Everything that the graph takes, in its order."""
        given = iter(arrays)
        return [state[name] if name in state else next(given) for name in self.graph.inputs]

    def precision_error(self, /, *inputs: Any, **named: Any) -> PrecisionError:
        """How far results are from those in float32, on these inputs or, without any, on random ones.

        Runs the model in float32 beside: of a quantised one, without rounding to bytes. So it takes that network's time
        and memory. What the network holds between calls stays as it is. `repr` shows what was found last. Raises
        KernelError for inputs that the network cannot take.
        """
        if not inputs and not named:
            named = random_inputs(self.inputs)
        both = self.session(), Network(without_rounding(self.graph), self.target)
        for network in both:
            network.state = self.state.copy()
        made = [network(*inputs, **named) for network in both]
        results, expected = (each if isinstance(each, tuple) else (each,) for each in made)
        found = differences(dict(zip(self.outputs, results, strict=True)), expected)
        self._error = PrecisionError(self.precision.value, found)
        return self._error

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
        facts = [f"{count} kernels", f"{len(self.graph.tasks)} distinct"]
        if self.precision is not ProductPrecision.F32:
            facts.append(self.precision.value)
        if self._error is not None:
            facts.append(self._error.summary)
        return f"<network {self.graph.name}({given}) -> ({made}), {', '.join(facts)}>"
