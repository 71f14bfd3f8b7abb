"""Declaring primitives and samplers, and the registry that finds and checks them.

One file and one decorator each: the function's signature, in the names of `kinds`, is the declaration. It yields
the `Schedule` method, the argument checks, tracing, the textual form and the documentation.

    @primitive
    def fuse(ctx: Context, *loops: LoopName) -> LoopName: ...
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, overload

from metasched.lang.instructions import Decision, Instruction
from metasched.permissions import Permission
from metasched.schedule.batching import InBatches
from metasched.schedule.distributions.base import Distribution
from metasched.schedule.kinds import ArgumentKind, Named
from metasched.support.data_classes import dataclass
from metasched.support.documentation import documentation
from metasched.support.imports import imports

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__metasched_declaration__"


@dataclass(frozen=True)
class Param:
    """A parameter: `many` takes a list; `variadic` takes the rest of the positional arguments; `names` is the kind of
    name that a text is."""

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


# Converts an instruction of one version to the next.
Upgrade = Callable[[Instruction], Instruction]
# The support in words where a decision is outside of it whatever the program, and None where that does not show. Given
# are the arguments whose values a text shows, by parameter.
OutsideSupport = Callable[[Mapping[str, Any], Decision], str | None]
Amplification = Callable[..., tuple[float, float]]
# Which of the loops that it makes certainly run as often as an open random variable says; empty where that does not
# show. Given are all parameters without defaults, and the same of each: whether a loop does, whether an integer is
# open; None for None.
VaryingLoops = Callable[[Mapping[str, Any]], Sequence[bool]]


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What others have to know of a primitive or sampler besides its signature.

    `pure` ones only look; `random` ones return a distribution.
    `upgrades` maps an older version to what rewrites its instructions for the next version.
    `in_batches` carries an instruction over from an element of a batch to the whole batch; None where none can be.
    `threads` is for steps that only say what runs on several threads: without all of them a trace means the same.
    `varying_loops` is for the check of modules in text: which loops made differ in length between candidates.
    `places` is for samplers of places of blocks: the name of a loop, `root` or `inline`.
    `named` is for samplers that are given a name in Python, and then a list of their arguments.
    `outside_support` is for the check of modules in text: decisions that no program would allow.
    `permission` is what a step of it lets results differ by, which the caller has to allow.
    `amplification` is how much larger a step of it makes rounding errors: for data of any signs, and for data of
    independent signs. Given are the program before, the name of the block, and the arguments after that.
    """

    version: int = 1
    pure: bool = False
    random: bool = False
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict, compare=False)
    in_batches: InBatches | None = None
    threads: bool = False
    varying_loops: VaryingLoops | None = None
    places: bool = False
    named: bool = False
    outside_support: OutsideSupport | None = None
    permission: Permission | None = None
    amplification: Amplification | None = None


@dataclass(frozen=True, kw_only=True)
class Declaration(Traits):
    """The declaration of a primitive, or of a sampler of a distribution of class `drawn`."""

    name: str
    params: tuple[Param, ...]
    result: ArgumentKind
    many_results: bool
    doc: str
    run: Callable[..., Any]
    drawn: type[Distribution] | None = None

    @property
    def branches(self) -> bool:
        """Whether it gives a plain value, on which Python and modules may branch: what they do next depends on it."""
        return self.drawn is not None and self.drawn.structural and not self.places

    @property
    def naming(self) -> Mapping[int, Named]:
        """The positions of arguments that are names in the program, and their kinds."""
        return {place: p.names for place, p in enumerate(self.params) if p.names is not None}

    @property
    def looks(self) -> bool:
        """Whether it only looks, and draws nothing: it leaves all but its results as it was."""
        return self.pure and not self.random

    @property
    def signature(self) -> str:
        parts = []
        for p in self.params:
            text = f"*{p.name}" if p.variadic else p.name
            parts.append(text if p.required or p.variadic else f"{text}={p.default!r}")
        return f"{self.name}({', '.join(parts)})"

    @property
    def usage(self) -> str:
        """How it is called, for messages: in Python, a sampler that is named takes a name and a list; in texts not."""
        return f"{self.name}(name, options), and in texts {self.signature}" if self.named else self.signature


@overload
def primitive(fn: F) -> F: ...
@overload
def primitive(
    *,
    version: int = 1,
    pure: bool = False,
    upgrades: Mapping[int, Upgrade] | None = None,
    in_batches: InBatches | None = None,
    threads: bool = False,
    varying_loops: VaryingLoops | None = None,
    permission: Permission | None = None,
    amplification: Amplification | None = None,
) -> Callable[[F], F]: ...
def primitive(
    fn: F | None = None, *, upgrades: Mapping[int, Upgrade] | None = None, **traits: Any
) -> F | Callable[[F], F]:
    """Declare a primitive: `fn(ctx, ...)` rewrites `ctx.func` and returns the names of what it made.

    When its meaning changes, `version` goes up, and `upgrades={1: f}` turns an instruction of version 1 into one of
    version 2, so that old traces go on to apply. The others are those of `Traits`.
    """
    return _declare(fn, Traits(upgrades=upgrades or {}, **traits))


@overload
def sampler(fn: F) -> F: ...
@overload
def sampler(
    *,
    version: int = 1,
    upgrades: Mapping[int, Upgrade] | None = None,
    in_batches: InBatches | None = None,
    places: bool = False,
    named: bool = False,
    outside_support: OutsideSupport | None = None,
) -> Callable[[F], F]: ...
def sampler(
    fn: F | None = None, *, upgrades: Mapping[int, Upgrade] | None = None, **traits: Any
) -> F | Callable[[F], F]:
    """Declare a sampler: `fn(ctx, ...)` returns the distribution to draw from, whose class is its annotation.

    With `places` its decisions are places of blocks, which a trace holds as handles and Python says as texts. The
    others are those of `Traits`.
    """
    return _declare(fn, Traits(pure=True, random=True, upgrades=upgrades or {}, **traits))


def _declare(fn: F | None, traits: Traits) -> F | Callable[[F], F]:
    def attach(function: F) -> F:
        setattr(function, MARK, traits)
        return function

    return attach if fn is None else attach(fn)


def declaration_of(fn: Callable[..., Any]) -> Declaration:
    """Read the declaration from a marked function. Raises TypeError if the signature is incomplete."""
    traits: Traits = getattr(fn, MARK)
    hints = typing.get_type_hints(fn, include_extras=True)
    parameters = list(inspect.signature(fn).parameters.values())
    if not parameters or parameters[0].name != "ctx":
        raise TypeError(f"primitive {fn.__name__}: the first parameter must be `ctx`")
    doc = documentation(fn)
    if doc is None:
        raise TypeError(f"primitive {fn.__name__}: a docstring is part of the declaration")
    params = tuple(_param(fn.__name__, p, hints[p.name]) for p in parameters[1:])
    unknown = [old for old in traits.upgrades if not 1 <= old < traits.version]
    if unknown:
        raise TypeError(f"primitive {fn.__name__}: version {traits.version} has no upgrade of version {unknown[0]}")
    result, many = (ArgumentKind.NONE, False) if traits.random else _kind(fn.__name__, "return", hints["return"])
    return Declaration(
        **vars(traits),
        name=fn.__name__,
        params=params,
        result=result,
        many_results=many,
        doc=doc,
        run=fn,
        drawn=_distribution(fn.__name__, hints["return"]) if traits.random else None,
    )


def _distribution(owner: str, hint: Any) -> type[Distribution]:
    """The class of what a sampler returns."""
    if not all(isinstance(getattr(hint, trait, None), bool) for trait in ("structural", "gives_list")):
        raise TypeError(
            f"sampler {owner}: its result must be annotated with the class of its distribution, which says whether it "
            "is `structural` and whether it `gives_list`"
        )
    found: type[Distribution] = hint
    return found


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

    Raises TypeError for a file that does not declare exactly one primitive, named as the file.
    """
    found: dict[str, Declaration] = {}
    for name, module in imports.of_package("metasched.schedule.primitives"):
        declared = [v for v in vars(module).values() if hasattr(v, MARK) and v.__module__ == module.__name__]
        if len(declared) != 1 or declared[0].__name__ != name:
            raise TypeError(f"{module.__name__} must declare exactly one primitive, named `{name}`")
        found[name] = declaration_of(declared[0])
    return MappingProxyType(found)
