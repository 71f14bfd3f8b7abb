"""A hash of what a value does, the same in every process: of functions by their source, of data by its content.

A function counts with its source (comments, layout and docstrings do not), its defaults, what it closes over, and
whatever of a user's own modules it mentions by name: functions and classes with their source, constants with their
value. What belongs to Python or to this package counts by its name; what belongs to another installed package by its
name with that package's `__version__`, or with its source where there is none. What is reached only at run time
(attributes of objects, files, the environment) cannot be seen.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType, GetSetDescriptorType, MethodType, ModuleType
from typing import Any

from metasched.support.source_text import source_of

Json = None | bool | int | float | str | list["Json"]

_OWN = __name__.partition(".")[0]
_OWN_RULES = f"{_OWN}.rules"  # they are code like a user's, and have no version of their own
# Folders that packages are installed in beside those of `sysconfig`: a user's, Debian's, those that a path adds.
_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})
_PLAIN_TYPES = (type(None), bool, int, float, str)


def fingerprint(value: object) -> str:
    """32 hexadecimal digits. An object with a method `ingredients()` counts by what that returns."""
    return _digest(_Reader().read(value))[:32]


def _digest(content: Json) -> str:
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


class _Reader:
    """Turns values into JSON: an object into a hash of what it is made of, whether it is met once or twice.

    An object inside itself, such as a function that calls itself, is mentioned by how far outside it is.
    """

    def __init__(self) -> None:
        self._inside: list[int] = []
        self._known: dict[int, str] = {}
        self._alive: list[object] = []  # or another object might get the identity of one that was read

    def read(self, value: object) -> Json:
        if isinstance(value, Enum):
            return [_name(type(value)), value.name]
        if isinstance(value, _PLAIN_TYPES):
            return value
        if isinstance(value, bytes):
            return ["bytes", value.hex()]
        if isinstance(value, list | tuple):
            return ["list", *map(self.read, value)]
        if isinstance(value, Set):
            return ["set", *sorted(map(self.read, value), key=json.dumps)]
        if isinstance(value, Mapping):
            pairs = ([self.read(key), self.read(item)] for key, item in value.items())
            return ["dict", *sorted(pairs, key=json.dumps)]
        return self._hash_object(value)

    def _hash_object(self, value: object) -> Json:
        if id(value) in self._inside:
            return ["again", len(self._inside) - self._inside.index(id(value))]
        if id(value) not in self._known:
            self._alive.append(value)
            self._inside.append(id(value))
            self._known[id(value)] = _digest(self._object(value))
            self._inside.pop()
        return self._known[id(value)]

    def _object(self, value: object) -> Json:
        ingredients = getattr(value, "ingredients", None)
        if callable(ingredients) and not isinstance(value, type):
            return [_name(type(value)), self.read(ingredients())]
        if isinstance(value, MethodType):
            return ["method", self.read(value.__self__), self.read(value.__func__)]
        if isinstance(value, partial):
            return ["partial", self.read(value.func), self.read(value.args), self.read(value.keywords)]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, ModuleType) or (callable(value) and hasattr(value, "__qualname__")):
            return _name_and_version(value)
        if is_dataclass(value):
            return [self.read(type(value)), *([f.name, self.read(getattr(value, f.name))] for f in fields(value))]
        if hasattr(value, "tobytes"):  # an array
            content = hashlib.sha256(value.tobytes()).hexdigest()
            return [_name(type(value)), str(getattr(value, "dtype", "")), str(getattr(value, "shape", "")), content]
        if not _is_opaque(type(value)):
            return [self.read(type(value)), *([k, self.read(item)] for k, item in sorted(vars(value).items()))]
        # How it prints, unless it prints where it lies in memory.
        text = repr(value)
        return [_name(type(value)), None if f"{id(value):x}" in text else text]

    def _function(self, wrapped: FunctionType) -> Json:
        fn = inspect.unwrap(wrapped)
        if not isinstance(fn, FunctionType) or _is_opaque(fn):
            return _name_and_version(fn)
        closed = inspect.getclosurevars(fn).nonlocals
        text = source_of(fn)
        return [
            "function",
            self._code(fn.__code__) if text is None else text,
            self.read(fn.__defaults__),
            self.read(fn.__kwdefaults__),
            self.read(closed),
            self._referred_things(fn.__code__, fn.__globals__),
        ]

    def _class(self, value: type) -> Json:
        if _is_opaque(value):
            return _name_and_version(value)
        bases = [self.read(base) for base in value.__bases__ if base is not object]
        text = source_of(value)
        if text is None:
            own = ((name, item) for name, item in sorted(vars(value).items()) if _is_written(name, item))
            return ["class", value.__qualname__, bases, *([name, self.read(item)] for name, item in own)]
        methods = (fn for fn in vars(value).values() if isinstance(fn, FunctionType))
        return ["class", text, bases, *(self._referred_things(fn.__code__, fn.__globals__) for fn in methods)]

    def _code(self, code: CodeType) -> Json:
        constants = [self.read(constant) for constant in code.co_consts if constant != code.co_filename]
        return ["code", code.co_code.hex(), list(code.co_names), list(code.co_varnames), constants]

    def _referred_things(self, code: CodeType, known: Mapping[str, object]) -> Json:
        """The user's own things to which a function refers by name, also through the user's own modules."""
        names = sorted(set(_names_in(code)))
        out: list[Json] = []
        for name in names:
            if name not in known:
                continue
            value = known[name]
            if isinstance(value, ModuleType) and not _is_opaque(value):
                found = ((inner, vars(value)[inner]) for inner in names if inner in vars(value))
                out += [[name, inner, self.read(item)] for inner, item in found]
            else:
                out.append([name, self.read(value)])
        return out


def _is_written(name: str, item: object) -> bool:
    """Whether a class has an attribute that was written in its source, as far as that can be known."""
    return isinstance(item, FunctionType) or not (name.startswith("__") or isinstance(item, GetSetDescriptorType))


def _names_in(code: CodeType) -> Iterator[str]:
    """The names in a function and in those inside it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return chain(code.co_names, *map(_names_in, inner))


def _is_opaque(value: Any) -> bool:
    """Whether it counts by its name and version: what is Python's, this package's, or of an installed package that
    is not one of rules.
    """
    name = value.__name__ if isinstance(value, ModuleType) else (getattr(value, "__module__", None) or "builtins")
    top = name.partition(".")[0]
    if top == _OWN:
        return not (name == _OWN_RULES or name.startswith((f"{_OWN_RULES}.", f"{_OWN}.file:")))
    if top == "__main__":
        return False
    if top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is not None and _is_installed(Path(file))


def _is_installed(file: Path) -> bool:
    """Whether a file lies where packages are installed."""
    if not _PACKAGE_FOLDERS.isdisjoint(file.parts):
        return True
    folders = sysconfig.get_paths()
    return any(file.is_relative_to(folders[name]) for name in ("purelib", "platlib", "stdlib"))


def _name_and_version(value: Any) -> Json:
    """Something of an installed package."""
    name = value.__name__ if isinstance(value, ModuleType) else _name(value)
    top = name.partition(".")[0]
    if top == _OWN or top in sys.stdlib_module_names or (isinstance(value, ModuleType) and "." not in name):
        return ["named", name, _version(top)]
    return ["named", name, _version(top) or source_of(value)]


def _version(package: str) -> str | None:
    version = getattr(sys.modules.get(package), "__version__", None)
    return version if isinstance(version, str) and package != _OWN else None


def _name(value: Callable[..., Any] | type) -> str:
    return f"{value.__module__}.{value.__qualname__}"
