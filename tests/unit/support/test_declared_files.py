"""Things that files declare, and what decorators declare functions to be."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from metasched.support.declared_files import Declarations, DeclaredFiles, require_several
from metasched.support.imports import imports

DECLARED: Declarations[str] = Declarations("letters")


def letters(name: str, module: ModuleType) -> Mapping[str, Any]:
    return require_several(module, [(letter, function) for function, letter in DECLARED.of_module(module)], "a letter")


def module(name: str, *declared: tuple[str, ...]) -> ModuleType:
    """One with a function for each, declared to be some letters."""
    made = ModuleType(name)
    for n, own in enumerate(declared):
        exec(f"def f{n}(): pass", made.__dict__)
        DECLARED.add(made.__dict__[f"f{n}"], *own)
    return made


def test_a_function_may_be_declared_several_times() -> None:
    found = module("one", ("a", "b"), ())
    assert DECLARED.add(found.f0, "c") is found.f0
    assert DECLARED.declared_of(found.f0) == ("a", "b", "c")
    assert DECLARED.declared_of(found.f1) == DECLARED.declared_of(3) == ()
    assert letters("one", found) == {"a": found.f0, "b": found.f0, "c": found.f0}


def test_what_a_module_imports_is_declared_elsewhere() -> None:
    found, other = module("one", ("a",)), module("two", ("b",))
    found.__dict__["borrowed"] = other.f0
    assert list(letters("one", found)) == ["a"]


def test_a_module_declares_something_and_nothing_twice() -> None:
    with pytest.raises(TypeError, match=r"^empty must declare a letter$"):
        letters("empty", ModuleType("empty"))
    with pytest.raises(TypeError, match=r"^one declares a twice$"):
        letters("one", module("one", ("a",), ("a",)))


def test_no_two_files_declare_one_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    files = DeclaredFiles("letters", "letter", letters)
    found = {"one": module("one", ("a",)), "two": module("two", ("b", "c"))}
    monkeypatch.setattr(imports, "of_package", lambda package: iter(found.items()))
    assert list(files.merge()) == ["a", "b", "c"]
    found["three"] = module("three", ("c",))
    with pytest.raises(TypeError, match=r"^letters\.three declares c, which another file declares$"):
        files.merge()
