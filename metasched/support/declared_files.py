"""Things that are declared in a file each of one of our packages: found by the files' names, and checked when loaded.

Other packages cannot add to these, as traces and models must mean the same everywhere (`metasched.support.registry` is
for what they can add to). A file that lacks something, or declares something else, is a TypeError that names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Generic, TypeVar

from metasched.support.data_classes import dataclass
from metasched.support.imports import imports
from metasched.support.messages import did_you_mean, listing, with_hint

T = TypeVar("T")
D = TypeVar("D")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class DeclaredFiles(Generic[T]):
    """What the files of a package declare.

    Attributes:
        package: the package, such as "metasched.schedule.primitives"; each of its modules is one file.
        kind: what one is called in messages, such as "primitive".
        read: what a module declares, from its name and the module. Raises TypeError where it says too little.

    """

    package: str
    kind: str
    read: Callable[[str, ModuleType], T]

    def load(self) -> Mapping[str, T]:
        """Everything by name, in the order of names. Raises TypeError."""
        return MappingProxyType({name: self.read(name, module) for name, module in imports.of_package(self.package)})

    def merge(self: DeclaredFiles[Mapping[str, D]]) -> Mapping[str, D]:
        """The declarations of all files by name. Raises TypeError where two files declare one name."""
        found: dict[str, D] = {}
        for file, declared in self.load().items():
            for name, one in declared.items():
                if name in found:
                    raise TypeError(f"{self.package}.{file} declares {name}, which another file declares")
                found[name] = one
        return MappingProxyType(found)


@dataclass(frozen=True)
class Declarations(Generic[T]):
    """What decorators declare functions to be, kept with the functions; one may be declared several times.

    Attributes:
        key: the attribute of a function that has it.

    """

    key: str

    def add(self, function: F, *declared: T) -> F:
        """The function, with what it is declared to be as well."""
        function.__dict__[self.key] = (*self.declared_of(function), *declared)
        return function

    def declared_of(self, value: object) -> tuple[T, ...]:
        """The declarations of a value of a module; none where it is no such function."""
        found: tuple[T, ...] = getattr(value, "__dict__", {}).get(self.key, ())
        return found

    def of_module(self, module: ModuleType) -> list[tuple[Callable[..., Any], T]]:
        """The functions that a module defines, with each thing that they are declared to be."""
        own = (value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__)
        return [(value, one) for value in own for one in self.declared_of(value)]


def require_several(module: ModuleType, declared: Iterable[tuple[str, T]], expected: str) -> Mapping[str, T]:
    """The declarations of a module, by name.

    Raises TypeError where there are none, which says what is expected, and where it declares a name twice.
    """
    found: dict[str, T] = {}
    for name, one in declared:
        if name in found:
            raise TypeError(f"{module.__name__} declares {name} twice")
        found[name] = one
    if not found:
        raise TypeError(f"{module.__name__} must declare {expected}")
    return found


def require_only(kind: str, name: str, module: ModuleType, declared: Mapping[str, T]) -> T:
    """The one thing of a kind that a module declares, of those it does by their names: it has the module's.

    Raises TypeError.
    """
    if list(declared) != [name]:
        raise TypeError(f"{module.__name__} must declare exactly one {kind}, named `{name}`")
    return declared[name]


@dataclass(frozen=True)
class Constant:
    """A name in capitals that a file may define: the type of its value, and what it is without one.

    One without a default has to be there.
    """

    type: type | tuple[type, ...]
    default: object = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


def constants(kind: str, name: str, module: ModuleType, known: Mapping[str, Constant]) -> Mapping[str, Any]:
    """The constants of a file that describes something by names in capitals, with defaults for those left out.

    Names that begin with `_` are the file's own. Raises TypeError for a name that is not known, with the one that was
    probably meant, for one that is missing, and for a value of another type.
    """
    given = {key: value for key, value in vars(module).items() if key.isupper() and not key.startswith("_")}
    for key in given.keys() - known.keys():
        hint = did_you_mean(key, known) or f"known are {listing(known)}"
        raise TypeError(with_hint(f"{kind} {name} ({_place(module)}): there is no `{key}`", hint))
    missing = {key: constant for key, constant in known.items() if constant.required and key not in given}
    if missing:
        raise TypeError(f"{kind} {name} ({_place(module)}): it does not say {listing(missing)}")
    for key, value in given.items():
        if not isinstance(value, known[key].type):
            raise TypeError(
                f"{kind} {name} ({_place(module)}): `{key}` is {type(value).__name__}, not {_types(known[key].type)}"
            )
    return MappingProxyType({key: given.get(key, constant.default) for key, constant in known.items()})


def _place(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or module.__name__


def _types(types: type | tuple[type, ...]) -> str:
    return " or ".join(t.__name__ for t in (types if isinstance(types, tuple) else (types,)))
