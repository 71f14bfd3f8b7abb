"""Data classes that are made in a ninth of the time.

`dataclasses` writes six methods of each class as text and compiles them, which was half of the time that importing this
package took. Here `__init__` is written with the class, `__eq__` and `__hash__` at their first use, which most classes
of a process never come to, and the other methods are no text.

A class is declared as there, with those arguments that the package uses, and `dataclasses.fields`, `replace` and
`asdict` take it. It has no `InitVar`, and no docstring of its arguments where none is written.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class _Made:
    """A mark in a default's place: the field has a factory, which is called where the argument is not given."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _class(
    cls: type[Any] | None = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002 -- it is named so there
    kw_only: bool = False,
) -> Any:
    """What `dataclasses.dataclass` does, for these arguments."""
    if cls is None:
        return lambda later: _class(later, frozen=frozen, eq=eq, repr=repr, kw_only=kw_only)
    _declare(cls, frozen=frozen, kw_only=kw_only)
    found = fields(cls)
    own = vars(cls)
    if "__init__" not in own:
        cls.__init__ = _init(cls, found, frozen=frozen)
    if repr and "__repr__" not in own:
        cls.__repr__ = _with_name(cls, "__repr__", recursive_repr()(_repr(tuple(f.name for f in found if f.repr))))
    if eq:
        _compare(cls, found, frozen=frozen)
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refusals(cls, frozenset(f.name for f in found))
    return cls


def _declare(cls: type[Any], *, frozen: bool, kw_only: bool) -> None:
    """Have the fields found and checked, with those of base classes, and nothing written."""
    text = cls.__doc__
    cls.__doc__ = text or cls.__name__  # or else the arguments are looked into, for a docstring
    # What is frozen goes with bases that are: only then is it said beforehand, which has two methods written.
    inherits = frozen and any(is_dataclass(base) for base in cls.__mro__[1:])
    dataclasses.dataclass(init=False, repr=False, eq=False, frozen=inherits, kw_only=kw_only)(cls)
    cls.__dataclass_params__.frozen = frozen
    cls.__doc__ = text


def _with_name(cls: type[Any], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = name
    function.__qualname__ = f"{cls.__qualname__}.{name}"
    return function


def _compile_method(
    cls: type[Any], name: str, head: str, body: Iterable[str], given: dict[str, Any]
) -> Callable[..., Any]:
    """A method, in the module of its class; `given` is what else its text may name."""
    lines = "\n".join(f"  {line}" for line in body)
    text = f"def _make({', '.join(given)}):\n def {name}({head}):\n{lines}\n return {name}"
    module = sys.modules.get(cls.__module__)
    made: dict[str, Any] = {}
    exec(text, {} if module is None else vars(module), made)
    return _with_name(cls, name, made["_make"](**given))


def _init(cls: type[Any], found: Sequence[Field[Any]], *, frozen: bool) -> Callable[..., Any]:
    """`__init__`, whose arguments are the fields; a factory is called where its argument is not given."""
    given: dict[str, Any] = {"_set": object.__setattr__, "_MADE": _MADE}
    places: list[str] = []
    by_name: list[str] = []
    body: list[str] = []
    for f in found:
        value = f.name
        argument = f.name
        if f.default_factory is not MISSING:
            made = f"_make_{f.name}"
            given[made] = f.default_factory
            value = f"{made}() if {f.name} is _MADE else {f.name}" if f.init else f"{made}()"
            argument = f"{f.name}=_MADE"
        elif not f.init:
            continue
        elif f.default is not MISSING:
            given[f"_default_{f.name}"] = f.default
            argument = f"{f.name}=_default_{f.name}"
        if f.init:
            (by_name if f.kw_only else places).append(argument)
        body.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    head = ", ".join(["self", *places, *(["*", *by_name] if by_name else [])])
    init = _compile_method(cls, "__init__", head, body or ["pass"], given)
    init.__annotations__ = {**{f.name: f.type for f in found if f.init}, "return": None}
    return init


def _repr(names: Sequence[str]) -> Callable[[Any], str]:
    def show(self: Any) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({values})"

    return show


def _compare(cls: type[Any], found: Sequence[Field[Any]], *, frozen: bool) -> None:
    """`__eq__` and `__hash__`, unless the class has its own. What can change has no hash."""
    own = vars(cls)
    # Python gives a class that defines `__eq__` the hash None.
    hashes = own.get("__hash__") is not None or ("__hash__" in own and "__eq__" not in own)
    if "__eq__" not in own:
        names = [f.name for f in found if f.compare]
        left, right = ("(" + "".join(f"{of}.{name}, " for name in names) + ")" for of in ("self", "other"))
        body = ["if other.__class__ is self.__class__:", f"  return {left} == {right}", "return NotImplemented"]
        cls.__eq__ = _at_first_use(cls, "__eq__", "self, other", body)
    if not hashes and frozen:
        hashed = [f.name for f in found if (f.compare if f.hash is None else f.hash)]
        values = "".join(f"self.{name}, " for name in hashed)
        cls.__hash__ = _at_first_use(cls, "__hash__", "self", [f"return hash(({values}))"])
    elif not hashes:
        cls.__hash__ = None  # type: ignore[assignment]


def _at_first_use(cls: type[Any], name: str, head: str, body: Sequence[str]) -> Callable[..., Any]:
    """A method that puts the written one into its own place. Threads that come at once write it alike."""

    def compile_first(*arguments: Any) -> Any:
        written = _compile_method(cls, name, head, body, {})
        if vars(cls).get(name) is compile_first:
            setattr(cls, name, written)
        return written(*arguments)

    return _with_name(cls, name, compile_first)


def _refusals(cls: type[Any], names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """`__setattr__` and `__delattr__`. A subclass that is no data class may have attributes of its own."""

    def refuse_setting(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_deleting(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return _with_name(cls, "__setattr__", refuse_setting), _with_name(cls, "__delattr__", refuse_deleting)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _class
