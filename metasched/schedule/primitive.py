"""Declaring primitives and samplers, and the registry that finds and checks them.

One file and one decorator each: the function's signature, in the names of `kinds`, is the declaration. It yields
the `Schedule` method, the argument checks, tracing, the textual form and the documentation.

    @primitive
    def fuse(ctx: Context, *loops: LoopName) -> LoopName: ...
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, overload

from metasched.lang.instructions import Instruction
from metasched.schedule.kinds import ArgumentKind, Named
from metasched.support.documentation import documentation
from metasched.support.imports import imports

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__metasched_declaration__"


@dataclass(frozen=True)
class Param:
    """A parameter: `many` takes a list; `variadic` takes the rest of the positional arguments; `names` is what of the
    program a text names."""

    name: str
    kind: ArgumentKind
    many: bool
    variadic: bool
    keyword: bool
    default: Any = inspect.Parameter.empty
    names: Named | None = None

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty and not self.variadic


# An instruction of one version as one of the next.
Upgrade = Callable[[Instruction], Instruction]


@dataclass(frozen=True)
class Declaration:
    """The declaration of a primitive. `pure` ones only look; `random` ones return a distribution.

    `places` are variables that take places of blocks: the name of a loop, `root` or `inline`.
    With `in_batches` an instruction says the same of a program and of a batch of it: it names blocks, buffers and
    loops, none of which is the batch's.
    `upgrades` maps an older version to what rewrites its instructions for the next version.
    """

    name: str
    version: int
    params: tuple[Param, ...]
    result: ArgumentKind
    many_results: bool
    pure: bool
    random: bool
    doc: str
    run: Callable[..., Any]
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict, compare=False)
    places: bool = False
    in_batches: bool = False

    @property
    def naming(self) -> Mapping[int, Named]:
        """The positions of arguments that name something of the program, and what."""
        return {place: p.names for place, p in enumerate(self.params) if p.names is not None}

    @property
    def signature(self) -> str:
        parts = []
        for p in self.params:
            text = f"*{p.name}" if p.variadic else p.name
            parts.append(text if p.required or p.variadic else f"{text}={p.default!r}")
        return f"{self.name}({', '.join(parts)})"


@overload
def primitive(fn: F) -> F: ...
@overload
def primitive(
    *,
    version: int = 1,
    pure: bool = False,
    upgrades: Mapping[int, Upgrade] | None = None,
    in_batches: bool = False,
) -> Callable[[F], F]: ...
def primitive(
    fn: F | None = None,
    *,
    version: int = 1,
    pure: bool = False,
    upgrades: Mapping[int, Upgrade] | None = None,
    in_batches: bool = False,
) -> F | Callable[[F], F]:
    """Declare a primitive: `fn(ctx, ...)` rewrites `ctx.func` and returns the names of what it made.

    When its meaning changes, `version` goes up, and `upgrades={1: f}` turns an instruction of version 1 into one of
    version 2, so that old traces go on to apply.
    """
    return _declare(fn, _Mark(version, pure, False, upgrades or {}, False, in_batches))


@overload
def sampler(fn: F) -> F: ...
@overload
def sampler(
    *,
    version: int = 1,
    upgrades: Mapping[int, Upgrade] | None = None,
    places: bool = False,
    in_batches: bool = False,
) -> Callable[[F], F]: ...
def sampler(
    fn: F | None = None,
    *,
    version: int = 1,
    upgrades: Mapping[int, Upgrade] | None = None,
    places: bool = False,
    in_batches: bool = False,
) -> F | Callable[[F], F]:
    """Declare a sampler: `fn(ctx, ...)` returns the `Distribution` to draw from.

    With `places` its decisions are places of blocks, which a trace holds as handles and Python says as texts.
    """
    return _declare(fn, _Mark(version, True, True, upgrades or {}, places, in_batches))


@dataclass(frozen=True)
class _Mark:
    version: int
    pure: bool
    random: bool
    upgrades: Mapping[int, Upgrade]
    places: bool
    in_batches: bool


def _declare(fn: F | None, mark: _Mark) -> F | Callable[[F], F]:
    def attach(function: F) -> F:
        setattr(function, MARK, mark)
        return function

    return attach if fn is None else attach(fn)


def declaration_of(fn: Callable[..., Any]) -> Declaration:
    """Read the declaration off a marked function. Raises TypeError where the signature says too little."""
    mark: _Mark = getattr(fn, MARK)
    hints = typing.get_type_hints(fn, include_extras=True)
    parameters = list(inspect.signature(fn).parameters.values())
    if not parameters or parameters[0].name != "ctx":
        raise TypeError(f"primitive {fn.__name__}: the first parameter must be `ctx`")
    doc = documentation(fn)
    if doc is None:
        raise TypeError(f"primitive {fn.__name__}: a docstring is part of the declaration")
    params = tuple(_param(fn.__name__, p, hints[p.name]) for p in parameters[1:])
    unknown = [old for old in mark.upgrades if not 1 <= old < mark.version]
    if unknown:
        raise TypeError(f"primitive {fn.__name__}: version {mark.version} has no upgrade of version {unknown[0]}")
    result, many = (ArgumentKind.NONE, False) if mark.random else _kind(fn.__name__, "return", hints["return"])
    return Declaration(
        fn.__name__,
        mark.version,
        params,
        result,
        many,
        mark.pure,
        mark.random,
        doc,
        fn,
        dict(mark.upgrades),
        mark.places,
        mark.in_batches,
    )


def _param(owner: str, p: inspect.Parameter, hint: Any) -> Param:
    kind, many = _kind(owner, p.name, hint)
    variadic = p.kind is inspect.Parameter.VAR_POSITIONAL
    keyword = p.default is not inspect.Parameter.empty or p.kind is inspect.Parameter.KEYWORD_ONLY
    named = next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Named)), None)
    return Param(p.name, kind, many or variadic, variadic, keyword, p.default, named)


def _kind(owner: str, name: str, hint: Any) -> tuple[ArgumentKind, bool]:
    if hint is type(None):
        return ArgumentKind.NONE, False
    if typing.get_origin(hint) is tuple:
        return _kind(owner, name, typing.get_args(hint)[0])[0], True
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, ArgumentKind):
            return extra, False
    raise TypeError(f"primitive {owner}: `{name}` must be annotated with a name from metasched.schedule.kinds")


@cache
def registry() -> Mapping[str, Declaration]:
    """Every primitive and sampler by name, found by importing `metasched.schedule.primitives`.

    Raises TypeError for a file that does not declare exactly one primitive of its own name.
    """
    found: dict[str, Declaration] = {}
    for name, module in imports.of_package("metasched.schedule.primitives"):
        declared = [v for v in vars(module).values() if hasattr(v, MARK) and v.__module__ == module.__name__]
        if len(declared) != 1 or declared[0].__name__ != name:
            raise TypeError(f"{module.__name__} must declare exactly one primitive, named `{name}`")
        found[name] = declaration_of(declared[0])
    return MappingProxyType(found)
