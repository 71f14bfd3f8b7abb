"""The backend of `torch.compile`, and what it would do with a model."""

from __future__ import annotations

import copy
import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from metasched.doors.pytorch.compiled import CompiledGraph, GraphReport
from metasched.doors.pytorch.decompositions import decompositions
from metasched.doors.pytorch.integer_inputs import integer_inputs
from metasched.doors.pytorch.lowering import LOGGER
from metasched.doors.pytorch.optimizers import count_fused_steps
from metasched.doors.pytorch.tensors import torch_module
from metasched.graph.errors import NetworkError
from metasched.graph.network import Network
from metasched.support.imports import imports
from metasched.support.messages import counted
from metasched.target import Target

_GRADIENTS = (
    "gradients are wanted, and networks have no derivatives. Call the model under torch.inference_mode() or "
    "torch.no_grad(), after model.eval()"
)
# Combinations of sizes that a graph has networks for: each takes memory for its code and weights.
_MOST_SIZES = 64
_MORE = (
    "PyTorch runs the others. Pad inputs to fewer sizes, or export the model to ONNX and load it with ranges of sizes"
)
_NO_LIMIT = 1 << 30
# What PyTorch has for sizes that are open, and does not trace of those that are numbers.
_SIZE_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sym_sum": sum,
    "sym_max": max,
    "sym_min": min,
    "sym_int": int,
    "sym_float": float,
    "sym_not": operator.not_,
}


class TorchBackend:
    """A backend of `torch.compile` that keeps what it made.

        backend = ms.TorchBackend()
        fast = torch.compile(model.eval(), backend=backend)      # backend="metasched" makes one of its own
        with torch.inference_mode():
            y = fast(x)
        print(backend)                 # which operators run in networks, and which in PyTorch, and why
        backend.networks[0].profile()

    Subgraphs of operators that the language can express run as networks, with parameters and buffers as constants;
    PyTorch runs the rest. What refused operators there are is logged once for each graph, as a warning of the logger
    `metasched.torch`. Graphs that want gradients are run by PyTorch. Each combination of shapes is a graph of its own:
    with `dynamic=True`, or where PyTorch finds that sizes vary, up to 64 of them.

    Attributes:
        reports: what became of each graph.

    """

    def __init__(self, *, target: Target | None = None) -> None:
        self.reports: list[GraphReport] = []
        self._target = target
        self.__name__ = "metasched"  # what PyTorch's messages call it

    def __getstate__(self) -> dict[str, Any]:
        """A copy, such as that of a compiled module that is copied deeply or pickled, makes networks of its own."""
        return {**self.__dict__, "reports": []}

    @property
    def networks(self) -> list[Network]:
        """All networks that run parts of graphs, in the order in which they were made."""
        return [network for report in self.reports for network in report.networks]

    def __str__(self) -> str:
        if not self.reports:
            return (
                "no graph yet: the first call of the compiled model makes them. If there was one, PyTorch traced none; "
                "it traces recurrent layers where torch._dynamo.config.allow_rnn = True stands before the call"
            )
        return "\n".join(f"graph {number}: {report}" for number, report in enumerate(self.reports))

    def __repr__(self) -> str:
        if not self.reports:
            return "<TorchBackend, no graph yet>"
        operators = sum(report.operators for report in self.reports)
        refused = sum(len(report.refused) for report in self.reports)
        facts = [counted(len(self.reports), "graph"), counted(len(self.networks), "network")]
        facts += [f"{counted(operators, 'operator')} in these", *([f"{refused} in PyTorch"] if refused else ())]
        return f"<TorchBackend, {', '.join(facts)}>"

    def __call__(self, module: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
        """What `torch.compile` calls with a graph and examples of its inputs.

        Raises NetworkError for `mode` and `options` of `torch.compile`: it has none.
        """
        if options:
            given = ", ".join(f"{name}={value!r}" for name, value in options.items())
            raise NetworkError(
                f"torch.compile was given {given}, and the backend metasched has no modes and options",
                hint="leave it out; the CPU that code is made for is `backend=ms.TorchBackend(target=...)`, and "
                "`dynamic` and `fullgraph` are PyTorch's own",
            )
        if any(_is_symbolic(value) for value in inputs):
            return _PerShape(self, module)
        common = imports.module("torch._dynamo.backends.common")
        compiler = common.aot_autograd(
            fw_compiler=self._eager,
            bw_compiler=_uncompiled_forward,
            inference_compiler=self._inference,
            decompositions=decompositions(),
        )
        compiled: Callable[..., Any] = compiler(module, inputs)
        return compiled

    def _inference(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        del inputs
        context = imports.module("torch._guards").TracingContext.try_get()
        metadata = None if context is None else context.fw_metadata
        constant = [] if metadata is None else _constant_inputs(metadata)
        count_fused_steps()
        return CompiledGraph(module, constant, partial(_network, target=self._target), _Reports(self))

    def _eager(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        LOGGER.warning("metasched: PyTorch runs a graph: %s", _GRADIENTS)
        self.reports.append(GraphReport(reason=_GRADIENTS))
        return _uncompiled_forward(module, inputs)


def backend(module: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend named "metasched", found by PyTorch by its entry point."""
    return TorchBackend()(module, inputs, **options)


def explain_torch(model: Callable[..., Any], *args: Any, **kwargs: Any) -> TorchBackend:
    """What `torch.compile(model, backend="metasched")` does with a model: it is compiled, and called once.

        print(ms.explain_torch(model.eval(), x))

    Printed, the result says of each graph how many operators run in networks, and which PyTorch runs and why; its
    `reports` have that as data, its `networks` the programs.
    """
    torch = torch_module()
    made = TorchBackend()
    with torch.no_grad():
        torch.compile(model, backend=made, dynamic=False)(*args, **kwargs)
    return made


def _network(graph: Any, target: Target | None) -> Network:
    return Network(graph, target)


class _Reports:
    """The reports of a backend that somebody has: a compiled graph, which PyTorch keeps, keeps no networks by them."""

    def __init__(self, backend: TorchBackend) -> None:
        self._backend = weakref.ref(backend)

    def __call__(self, report: GraphReport) -> None:
        backend = self._backend()
        if backend is not None:
            backend.reports.append(report)


class _PerShape:
    """A graph whose sizes are open: compiled again for each combination of sizes that it is called with."""

    def __init__(self, own: TorchBackend, module: Any) -> None:
        torch = torch_module()
        self._static = [
            "_dynamo_static_input_type" in node.meta.get("tensor_dict", {})
            for node in module.graph.nodes
            if node.op == "placeholder"
        ]
        self._numbers = _numbers(module)
        self._integers = frozenset(integer_inputs(module))
        self._marked = False
        self._module = module
        self._known: set[Any] = set()
        self._compile = partial(torch.compile, backend=own, dynamic=False)
        self._compiled: dict[tuple[str, ...], Callable[..., Any]] = {}

    def __call__(self, *values: Any) -> Any:
        """Raises nothing of its own: beyond `_MOST_SIZES` combinations, PyTorch runs the others."""
        values = tuple(
            value if static else _strip_dynamic_marks(value) for value, static in zip(values, self._static, strict=True)
        )
        values = tuple(torch_module().tensor(v) if n in self._integers else v for n, v in enumerate(values))
        numbers = tuple(values[number].item() for number in self._numbers)
        sizes = tuple(_layout(value) for value, static in zip(values, self._static, strict=True) if not static)
        key = _key(numbers)
        sizes = (key, *sizes)
        if sizes in self._known:
            return self._compiled[key](*values)
        dynamo = imports.module("torch._dynamo")
        if len(self._known) >= _MOST_SIZES:
            if len(self._known) == _MOST_SIZES:
                LOGGER.warning("metasched: a graph has networks for %d combinations of sizes; %s", _MOST_SIZES, _MORE)
            self._known.add(None)
            return self._module(*values)
        if not self._marked:
            for value, static in zip(values, self._static, strict=True):
                if static:
                    dynamo.mark_static_address(value)
            self._marked = True
        # PyTorch's own limit of graphs is for models that it traces again, and gives up for all sizes.
        with dynamo.config.patch(recompile_limit=_NO_LIMIT, accumulated_recompile_limit=_NO_LIMIT):
            made = self._compile_with_numbers(numbers)(*values)
        self._known.add(sizes)
        return made

    def _compile_with_numbers(self, numbers: tuple[float, ...]) -> Callable[..., Any]:
        """Compile the graph with these numbers in the place of those that it is given as tensors."""
        key = _key(numbers)
        if key not in self._compiled:
            known = dict(zip(self._numbers, numbers, strict=True))
            self._compiled[key] = self._compile(_substitute_numbers(self._module, known))
        return self._compiled[key]


def _key(numbers: tuple[float, ...]) -> tuple[str, ...]:
    """What tells numbers apart, zeros of both signs, too; NaN is as itself."""
    return tuple(map(repr, numbers))


def _strip_dynamic_marks(value: Any) -> Any:
    """The same tensor without what `torch._dynamo.mark_dynamic` and its relatives note on it, which `dynamic=False`
    gives way to.
    """
    if isinstance(value, torch_module().Tensor) and any(name.startswith("_dynamo_") for name in vars(value)):
        return torch_module().ops.aten.alias(value)
    return value


def _numbers(module: Any) -> list[int]:
    """The inputs of a graph that are numbers, such as the epsilon of a norm: tensors that it takes the number out of.

    PyTorch gives them so where sizes are open, and does not trace that again.
    """
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    return [n for n, node in enumerate(placeholders) if node.users and all(map(_takes_number, node.users))]


def _takes_number(node: Any) -> bool:
    return bool(node.op == "call_method" and node.target == "item")


def _substitute_numbers(module: Any, numbers: Mapping[int, float]) -> Any:
    """A graph with numbers in the place of inputs, which it still has; it computes with sizes as Python does."""
    fx, torch = imports.module("torch.fx"), torch_module()
    made = fx.GraphModule(module, copy.deepcopy(module.graph))
    of_python = {getattr(torch, name): function for name, function in _SIZE_FUNCTIONS.items()}
    for node in made.graph.nodes:
        if node.op == "call_function":
            node.target = of_python.get(node.target, node.target)
    placeholders = [node for node in made.graph.nodes if node.op == "placeholder"]
    for place, number in numbers.items():
        for item in list(placeholders[place].users):

            def known(node: Any, item: Any = item, number: float = number) -> Any:
                return number if node is item else node

            for user in list(item.users):
                user.args, user.kwargs = fx.map_arg((user.args, user.kwargs), known)
            made.graph.erase_node(item)
    made.recompile()
    return made


def _layout(value: Any) -> Any:
    """Shape and strides of a tensor; a size as it is."""
    return (value.shape, value.stride()) if isinstance(value, torch_module().Tensor) else value


def _is_symbolic(value: Any) -> bool:
    torch = torch_module()
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _constant_inputs(metadata: Any) -> list[int]:
    """The numbers of the inputs that are parameters and buffers, without those that the graph writes.

    PyTorch moves what is written to inputs behind the graph, which gives the new elements: so no operator tells of it.
    """
    first = len(metadata.tokens)  # what orders effects comes before the inputs
    infos = metadata.input_info
    numbers = metadata.static_input_indices or ()
    return [n for n in numbers if not (infos[n - first].mutates_data or infos[n - first].mutates_metadata)]


def _uncompiled_forward(module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A graph as PyTorch runs it, which takes its arguments in a list that it empties: it is warned of others."""
    del inputs
    run: Callable[..., Any] = imports.module("functorch.compile").make_boxed_func(module.forward)
    return run
