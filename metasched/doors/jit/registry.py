"""The functions of NumPy that can be traced, found by the files of `functions/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Signature, signature
from types import MappingProxyType, ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from metasched.doors.jit.errors import TraceError
from metasched.doors.jit.trace import ArrayTrace
from metasched.support.declared_files import Declarations, DeclaredFiles, require_several

# Takes the trace, and what NumPy's function takes in its order. Gives values, or traced arrays.
Traced: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Traced)
_TRACED_FUNCTIONS: Declarations[str] = Declarations("numpy_functions")
_REFUSED_FUNCTIONS: Declarations[str] = Declarations("refused_functions")


def traces(*names: str) -> Callable[[F], F]:
    """Declare that a function traces these functions of NumPy: "sum", "linalg.norm"."""

    def declare(function: F) -> F:
        return _TRACED_FUNCTIONS.add(function, *names)

    return declare


def refuses(*names: str) -> Callable[[F], F]:
    """Declare that a function says why these functions of NumPy cannot be traced."""

    def declare(function: F) -> F:
        return _TRACED_FUNCTIONS.add(_REFUSED_FUNCTIONS.add(function, *names), *names)

    return declare


def _read_declarations(name: str, module: ModuleType) -> Mapping[str, Traced]:
    del name
    found = [(numpy_name, function) for function, numpy_name in _TRACED_FUNCTIONS.of_module(module)]
    return require_several(module, found, "a function of NumPy, by `@traces`")


FILES = DeclaredFiles("metasched.doors.jit.functions", "family of functions", _read_declarations)


@cache
def numpy_functions() -> Mapping[str, tuple[Traced, Signature]]:
    """The functions of NumPy that can be traced, by names after `numpy.`. Raises TypeError for one declared twice."""
    return MappingProxyType({name: (function, signature(function)) for name, function in FILES.merge().items()})


def traceable() -> list[str]:
    """The names of the functions that can be traced, in order."""
    return sorted(
        name for name, (run, _) in numpy_functions().items() if name not in _REFUSED_FUNCTIONS.declared_of(run)
    )


def call(trace: ArrayTrace, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """What a function of NumPy makes of traced arrays, and the array that it is to be written into, if any.

    Raises TraceError and Unsupported.
    """
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    known = numpy_functions().get(name)
    if known is None:
        raise TraceError(
            f"np.{name} cannot be traced",
            "compute it outside of the function, and give it the result; docs/numpy_functions.md lists what can be "
            "traced",
        )
    run, form = known
    given = {key: value for key, value in kwargs.items() if not _is_default(key, value)}
    try:
        bound = form.bind(trace, *args, **given)
    except TypeError as error:
        raise TraceError(
            f"np.{name} is called with what cannot be traced: {error}", f"traced is np.{name}{_signature_text(form)}"
        ) from error
    out = bound.arguments.pop("out", None)
    return run(*bound.args, **bound.kwargs), out


def _is_default(key: str, value: Any) -> bool:
    """Whether an argument says nothing: NumPy's methods and wrappers pass such."""
    no_value = getattr(np, "_NoValue", None)
    return value is no_value or (key in ("device", "initial", "out", "where") and value is None)


def _signature_text(form: Signature) -> str:
    parameters = list(form.parameters.values())[1:]
    plain = [p.replace(annotation=p.empty, default=p.default) for p in parameters]
    return str(form.replace(parameters=plain, return_annotation=form.empty))
