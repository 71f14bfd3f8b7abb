"""`ms.jit`, and the function that it makes."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from metasched.database.database_registry import DatabaseLike
from metasched.doors.jit.errors import TraceError
from metasched.doors.jit.structure import LEAF, DictStructure, Leaf, ListStructure, Structure, flatten, unflatten
from metasched.doors.jit.trace import TracedOperand
from metasched.doors.jit.tracing import TracedFunction, trace_function
from metasched.errors import KernelError
from metasched.graph.ir import Graph
from metasched.graph.network import Network
from metasched.permissions import Allow
from metasched.runtime.arguments import require_unmasked
from metasched.runtime.foreign import Library, as_numpy, is_foreign
from metasched.settings import DEFAULT_DATABASE
from metasched.space.registry import RuleSpec
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an, counted
from metasched.target import Target

if TYPE_CHECKING:
    from metasched.graph.tuning.view import NetworkShown

_ARRAY = np.ndarray
_ARRAYS = (np.ndarray, np.generic, TracedOperand)
# Values of Python that are part of a combination, beside floats.
_CONSTANTS = frozenset({bool, int, str, type(None)})


@overload
def jit(function: Callable[..., Any], *, target: Target | None = None) -> JitFunction: ...


@overload
def jit(function: None = None, *, target: Target | None = None) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    function: Callable[..., Any] | None = None, *, target: Target | None = None
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """A compiled form of a Python function of arrays in NumPy's names.

        f = ms.jit(lambda A, B: np.maximum(A @ B, 0))
        C = f(A, B)

        @ms.jit
        def normalised(x, eps=1e-5):
            return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)

    It is traced once for each combination of shapes and types: Python runs the function on arrays whose elements are
    not known, and what NumPy's functions and operators would compute becomes a network. Results have NumPy's types and
    shapes. Arguments and results may be tuples, lists and dicts of arrays. Arguments that are no arrays are part of the
    combination: another value is another trace. Arrays that the function finds outside of itself are constants, copied
    when it is traced.

    Args:
        function: what is compiled; without one, this is a decorator with options.
        target: the CPU to compile for; by default this one.

    A call raises TraceError for what cannot be traced, with the line and what to do instead.
    """
    if function is None:
        return lambda given: JitFunction(given, target)
    return JitFunction(function, target)


@dataclass(frozen=True)
class _CompiledNetwork:
    """A network of one combination of shapes and types, and the structure of its results."""

    network: Network
    results: Structure
    scalars: tuple[bool, ...]
    single: bool


class JitFunction:
    """What `ms.jit` makes: a function that has a network for each combination of shapes and types.

        f = ms.jit(lambda A, B: np.maximum(A @ B, 0))
        C = f(A, B)
        f.tune(A, B, budget=60)  # seconds, for these shapes and types
        f.network(A, B)  # the network itself: its profile, its programs, an export

    The first call with such a combination traces the function and compiles the network.
    """

    def __init__(self, function: Callable[..., Any], target: Target | None = None) -> None:
        if not callable(function):
            raise TypeError(f"ms.jit takes a function, not {a_or_an(type(function).__name__)}")
        functools.update_wrapper(self, function)
        self.function = function
        self._target = target
        self._compiled: dict[Any, _CompiledNetwork] = {}
        # The same, found by what takes less time to make of most arguments.
        self._of_plain_calls: dict[tuple[Any, ...], _CompiledNetwork] = {}
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):  # a function of another language does not say
            self._signature = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The function's result. Raises TraceError for what cannot be traced, and what NumPy raises while it is."""
        plain = _numpy_call_key(args, kwargs)
        if plain is None:
            return self._general(args, kwargs)
        key, arrays = plain
        found = self._of_plain_calls.get(key)
        if found is None:
            found = self._of_plain_calls[key] = self._find_compiled(_Call.from_arguments(self, args, kwargs))
        return _run_compiled(found, arrays)

    def network(self, /, *args: Any, **kwargs: Any) -> Network:
        """The network for arguments such as these."""
        return self._find_compiled(_Call.from_arguments(self, args, kwargs)).network

    def tune(
        self,
        /,
        *args: Any,
        trials: int | None = None,
        seed: int = 0,
        budget: float | None = None,
        patience: int | None = None,
        db: DatabaseLike = DEFAULT_DATABASE,
        rules: RuleSpec = None,
        allow: Allow = None,
        progress: NetworkShown = None,
        **kwargs: Any,
    ) -> Network:
        """Search for fast schedules for arguments such as these, and use them from now on. Returns the network.

        Args:
            args: arguments of the shapes and types to tune for.
            trials: measurements to have in the database in the end.
            seed: with the recorded times, decides every candidate.
            budget: seconds that it may take. By default 600, where nothing else says when to end.
            patience: end with a kernel after so many trials without one that is faster by more than noise.
            db: where records are kept: a URL, or a database that is open.
            rules: the rules that make the space, as of `ms.tune`.
            allow: what results may differ by, as of `ms.tune`.
            progress: how to show where the run stands, as of `Network.tune`, which takes more options:
                `f.network(...).tune(...)`.
            kwargs: arguments by name; those that are called as one of the above are given by their place.
        """
        network = self.network(*args, **kwargs)
        network.tune(
            trials, db, budget=budget, patience=patience, seed=seed, progress=progress, rules=rules, allow=allow
        )
        return network

    def graph(self, /, *args: Any, **kwargs: Any) -> Graph:
        """The graph that arguments such as these are traced to; it is printed as text."""
        return self.network(*args, **kwargs).graph

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The function as a method: the instance is an argument that is no array."""
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
        """It is pickled as functions are, by its name, where that is its own, as of one that is decorated; else as the
        function that it is of. Networks stay in their process: the other one traces anew.
        """
        name = getattr(self, "__qualname__", "")
        return name if _find_by_name(self.__module__, name) is self else (JitFunction, (self.function, self._target))

    def __repr__(self) -> str:
        count = len({id(found) for found in self._compiled.values()})
        return f"<jit {self._name}, traced for {counted(count, 'combination') if count else 'nothing yet'}>"

    # --- helpers

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = _Call.from_arguments(self, args, kwargs)
        if any(isinstance(array, TracedOperand) for array in call.given):
            return self.function(*args, **kwargs)  # called by a function that is being traced
        result = _run_compiled(self._find_compiled(call), call.arrays)
        library = Library.find(call.given)
        return result if library is None else _convert_to_library(library, result)

    def _find_compiled(self, call: _Call) -> _CompiledNetwork:
        key = call.key(self._name)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled.setdefault(key, self._compile_call(call))
        return found

    @property
    def _name(self) -> str:
        return str(getattr(self.function, "__name__", "function"))

    def argument_names(self, count: int) -> list[str]:
        """What arguments by position are called."""
        parameters = () if self._signature is None else self._signature.parameters.values()
        plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return [plain[n] if n < len(plain) else f"arg{n}" for n in range(count)]

    def _compile_call(self, call: _Call) -> _CompiledNetwork:
        types = [(name, array.shape, array.dtype) for name, array in zip(call.names, call.arrays, strict=True)]
        made: TracedFunction = trace_function(self.function, call.structure, types)
        scalars = tuple(not made.graph.types[value].shape for _, value in made.graph.outputs)
        network = Network(made.graph, self._target)
        return _CompiledNetwork(network, made.results, scalars, isinstance(made.results, Leaf))


def _find_by_name(module: str, name: str) -> Any:
    """What a module has by a dotted name; None where there is nothing."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


@dataclass(frozen=True)
class _Call:
    """The arguments of a call: their structure, and the arrays among them."""

    structure: Structure
    names: tuple[str, ...]
    given: tuple[Any, ...]

    @classmethod
    def from_arguments(cls, function: JitFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        found: list[tuple[str, Any]] = []
        labels = function.argument_names(len(args))
        parts = tuple(flatten(value, _is_array, label, found) for label, value in zip(labels, args, strict=True))
        items = tuple(flatten(value, _is_array, name, found) for name, value in sorted(kwargs.items()))
        named = DictStructure(tuple(sorted(kwargs)), items)
        names = tuple(name for name, _ in found)
        return cls(
            ListStructure(tuple, (ListStructure(tuple, parts), named)), names, tuple(array for _, array in found)
        )

    @cached_property
    def arrays(self) -> list[Any]:
        """The arrays as NumPy's."""
        return [_numpy(name, value) for name, value in zip(self.names, self.given, strict=True)]

    def key(self, function: str) -> Any:
        """What a trace is found by. Raises TraceError where an argument can be no part of it."""
        types = tuple(entry for array in self.arrays for entry in (array.dtype, array.shape))
        if self.structure == _positional_structure(len(self.arrays)):
            return types
        key = (self.structure, *types)
        try:
            hash(key)
        except (TypeError, ValueError) as error:  # ValueError is that of a memoryview
            raise TraceError(
                f"`{function}` is given an argument that is neither an array nor hashable: {error}",
                "give arrays, tuples, lists and dicts of arrays, or values that can be keys of a dict",
            ) from error
        return key


@functools.lru_cache(maxsize=64)
def _positional_structure(count: int) -> Structure:
    """The structure of so many arrays by position."""
    return ListStructure(tuple, (ListStructure(tuple, (LEAF,) * count), DictStructure((), ())))


def _numpy_call_key(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], list[Any]] | None:
    """Types, shapes and numbers of arguments that are arrays of NumPy's and constants of Python, and the arrays.

    None where others are among them.
    """
    key: list[Any] = []
    arrays: list[Any] = []
    values = [*args, *(kwargs[name] for name in sorted(kwargs))] if kwargs else args
    for value in values:
        kind = type(value)
        if kind is _ARRAY:
            key += (value.dtype, value.shape)
            arrays.append(value)
        elif kind is float:
            key.append(value.hex())  # -0.0 is not 0.0, and no number is one number
        elif kind in _CONSTANTS:
            key += (kind, value)
        elif isinstance(value, np.generic):
            key += (value.dtype, ())
            arrays.append(np.asarray(value))
        else:
            return None
    return ((*key, len(args), *sorted(kwargs)) if kwargs else tuple(key)), arrays


def _is_array(value: Any) -> bool:
    return isinstance(value, _ARRAYS) or is_foreign(value)


def _numpy(name: str, value: Any) -> Any:
    """An argument as an array of NumPy's own class. Raises KernelError for one whose class changes what it means."""
    array = as_numpy(name, value)
    require_unmasked(name, array)
    if isinstance(array, np.matrix):
        raise KernelError(
            f"`{name}` is a numpy.matrix, whose operators are others", hint=f"pass `numpy.asarray({name})`"
        )
    return array if type(array) is _ARRAY else np.asarray(array)


def _run_compiled(found: _CompiledNetwork, arrays: Sequence[Any]) -> Any:
    """Run a network; its results have the structure that the function returns."""
    if not found.scalars:
        return unflatten(found.results, iter(()))
    made = found.network(*arrays)
    if found.single:
        return made[()] if found.scalars[0] else made
    results = made if isinstance(made, tuple) else (made,)
    leaves = (result[()] if scalar else result for result, scalar in zip(results, found.scalars, strict=True))
    return unflatten(found.results, leaves)


def _convert_to_library(library: Library, result: Any) -> Any:
    """Results as arrays of the library that the arguments are of."""
    found: list[tuple[str, Any]] = []
    structure = flatten(result, lambda leaf: isinstance(leaf, np.ndarray | np.generic), "", found)
    return unflatten(structure, (library.array(np.asarray(array)) for _, array in found))
