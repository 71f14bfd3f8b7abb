"""A registry of named things: ours, a file each in a package, and those of other packages, by entry points.

A thing is imported when it is first asked for by name, and checked before it is returned.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from metasched.support.calls import lacking_methods, name_of, takes
from metasched.support.data_classes import dataclass
from metasched.support.imports import imports
from metasched.support.installed import entry_points
from metasched.support.messages import a_or_an, did_you_mean, listing

T = TypeVar("T")
Given = TypeVar("Given")
Made = TypeVar("Made")

_OURS = "metasched"
# Errors of imports whose text needs no name of the error beside it.
_SAYS_ENOUGH = (ImportError, AttributeError, SyntaxError)


class UnfitError(Exception):
    """What the check of a registry raises for a value that is not of its kind; the text says why."""


@dataclass(frozen=True)
class Product:
    """What the functions of a registry make.

    Attributes:
        of: what they make it of, such as "StrategyInputs".
        methods: what has to be there of it.
        hint: how to mend a function whose result has other methods.
    """

    of: str
    methods: tuple[str, ...]
    hint: str


@dataclass(frozen=True)
class Registry(Generic[T]):
    """Named things of one kind.

    Attributes:
        group: the entry-point group in which other packages declare theirs, such as "metasched.rules"; None where
            they may not.
        kind: what one is called in messages, such as "rule".
        check: takes what a name stands for and returns it as it is used; raises UnfitError for what is not of the kind.
        error: makes the exception that is raised, from its message and a `hint=`.
        package: the package of ours, each a module of its name; None if ours are declared as entry points too.
        attribute: the name in such a module of what it provides; by default that of the module.
        product: what the things make, where they are functions that `make` calls.

    """

    group: str | None
    kind: str
    check: Callable[[object], T]
    error: Callable[..., Exception]
    package: str | None = None
    attribute: str | None = None
    product: Product | None = None

    def names(self) -> tuple[str, ...]:
        """All names, sorted; nothing is loaded."""
        return tuple(sorted({*self._own_points(), *(point.name for point in self._added_points())}))

    def points(self) -> Mapping[str, EntryPoint]:
        """The entry point of each name, in the order of names; ours have one made for them."""
        found = {point.name: point for point in self._added_points()} | self._own_points()
        return dict(sorted(found.items()))

    def get(self, name: str) -> T:
        """What a name stands for, loaded and checked.

        Raises `error` for an unknown name (with similar ones), for one that two packages declare, and for one that
        cannot be imported or is not of the kind (naming the package).
        """
        declared = self._declared_points(name)
        if not declared:
            raise self.error(f"there is no {self.kind} `{name}`", hint=self.advice(name))
        if len(declared) > 1:
            where = " and ".join(f"{origin(point)} ({point.value})" for point in declared)
            raise self.error(
                f"two packages have {a_or_an(self.kind)} `{name}`: {where}", hint=hint_for_two_packages(self.kind)
            )
        return self._load_point(declared[0])

    def resolve(self, given: str | T, hint: str = "") -> T:
        """What a name stands for, or what is given instead of one.

        Raises `error` as `get` does, and, with the hint, for what is not of the kind.
        """
        return self.get(given) if isinstance(given, str) else self.require_fit("this", given, hint)

    def require_fit(self, what: str, value: object, hint: str = "") -> T:
        """A value as it is used. Raises `error`, which calls it `what`, for one that is not of the kind."""
        try:
            return self.check(value)
        except UnfitError as error:
            raise self._unfit(what, error, hint) from None

    def make(self: Registry[Callable[[Given], Made]], factory: Callable[[Given], Made], given: Given) -> Made:
        """What a function of this kind makes. Raises `error` where that lacks a method of the registry's product."""
        assert self.product is not None, self.kind
        made = factory(given)
        if lacking := lacking_methods(made, *self.product.methods):
            raise self.error(
                f"{name_of(factory)} made {made!r} of {self.product.of}, which is no {self.kind}: it has no "
                f"`{lacking[0]}`",
                hint=self.product.hint,
            )
        return made

    def get_own(self, name: str) -> T:
        """The value of one of our own names, whatever other packages call by the same name: for our own use."""
        return self._load_point(self._own_points()[name])

    def package_of(self, name: str) -> str:
        """The package that declares a name, and its version, for messages."""
        return origin(self.points()[name])

    def advice(self, name: str) -> str:
        """A hint for an unknown name: similar names, and all names."""
        names = self.names()
        near, there = did_you_mean(name, names), listing(names)
        return f"{near} Installed are {there}" if near else f"installed are {there}"

    def _declared_points(self, name: str) -> tuple[EntryPoint, ...]:
        """Who declares a name. A package that is installed twice, as in a checkout, declares it once."""
        own = self._own_points().get(name)
        points = [*([own] if own is not None else []), *(point for point in self._added_points() if point.name == name)]
        return tuple({point.value: point for point in points}.values())

    def _added_points(self) -> Iterable[EntryPoint]:
        return () if self.group is None else entry_points(group=self.group)

    def _own_points(self) -> dict[str, EntryPoint]:
        if self.package is None:
            return {}
        names = [info.name for info in pkgutil.iter_modules(imports.module(self.package).__path__)]
        group = self.group or ""
        return {name: EntryPoint(name, f"{self.package}.{name}:{self.attribute or name}", group) for name in names}

    def _load_point(self, point: EntryPoint) -> T:
        try:
            with imports.under_way():
                value = point.load()
        except (Exception, SystemExit) as error:
            told = str(error) if isinstance(error, _SAYS_ENOUGH) else f"{type(error).__name__}: {error}"
            raise self.error(
                f"the {self.kind} `{point.name}` of {origin(point)} cannot be loaded ({point.value}): {told}"
            ) from error
        try:
            return self.check(value)
        except UnfitError as error:
            # Here alone: an origin has the metadata of its package read, which takes longer than all else of a name.
            raise self._unfit(f"`{point.name}` of {origin(point)} ({point.value})", error) from None

    def _unfit(self, what: str, why: UnfitError, hint: str = "") -> Exception:
        return self.error(f"{what} is no {self.kind}: {why}", hint=hint)


def checked_function(value: object, of: str, *arguments: str) -> Callable[..., Any]:
    """A value that a registry calls, as it is. `of` says what it is a function of, `arguments` each of these.

    Raises UnfitError for what cannot be called with so many.
    """
    if not callable(value):
        raise UnfitError(f"it is {value!r}, and not a function of {of}")
    if not takes(value, *arguments):
        many = "one argument" if len(arguments) == 1 else f"{len(arguments)} arguments"
        raise UnfitError(f"it cannot be called with {many}, {' and '.join(arguments)}")
    return value


def hint_for_two_packages(kind: str) -> str:
    """What to do where two packages have a name."""
    return f"uninstall one of them, or have its makers give the {kind} another name"


def origin(point: EntryPoint) -> str:
    """The package that an entry point comes from, and its version."""
    if point.dist is not None:
        return f"{point.dist.name} {point.dist.version}"
    return _OURS if point.value.startswith(f"{_OURS}.") else "an unknown package"
