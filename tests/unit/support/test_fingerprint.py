"""Equal code and data have equal fingerprints, in every process; whatever changes what they do changes them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from metasched.support.fingerprint import fingerprint

MODULE = '''
import math
import numpy as np
from dataclasses import dataclass
from numpy import prod

LIMIT = 4
NAMES = {"a", "b", "c", "d"}


def helper(x):
    return x + LIMIT


@dataclass
class Config:
    size: int = 3

    def grow(self):
        return helper(self.size)


def outer(n):
    def inner(x):
        return x * n
    return inner


inner = outer(2)


def rule(sch, block, *, width=8):
    """Documentation."""
    # A comment.
    if helper(width) in NAMES:
        return rule(sch, Config(2).grow())
    return math.floor(np.sin(prod([inner(1), 2])))


small, large = (lambda b: b < 4), (lambda b: b > 4)
'''


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """A module of the user's, as some text has it."""
    count = iter(range(100))

    def load(text: str) -> dict[str, Any]:
        path = tmp_path / f"module{next(count)}.py"
        path.write_text(text)
        module = ModuleType(f"metasched.file:{path}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        module.__file__ = str(path)
        exec(compile(text, str(path), "exec"), vars(module))
        return vars(module)

    return load


def rule_of(names: dict[str, Any]) -> str:
    return fingerprint(names["rule"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    # A comment.\n", ""),
        ('"""Documentation."""', '"""Others."""'),
        ("return x * n", "return (x *\n            n)"),
        ("small, large", "short, tall"),
        ('{"a", "b", "c", "d"}', '{"d", "c", "b", "a"}'),
    ],
)
def test_what_changes_nothing(before: str, after: str, loaded: Callable[[str], dict[str, Any]]) -> None:
    assert before in MODULE
    assert rule_of(loaded(MODULE.replace(before, after))) == rule_of(loaded(MODULE))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("width=8", "width=16"),
        ("in NAMES", "not in NAMES"),
        ("LIMIT = 4", "LIMIT = 5"),
        ("x + LIMIT", "x - LIMIT"),
        ('"d"}', '"e"}'),
        ("outer(2)", "outer(3)"),
        ("return x * n", "return x + n"),
        ("size: int = 3", "size: int = 4"),
        ("return helper(self.size)", "return helper(-self.size)"),
        ("math.floor", "math.ceil"),
        ("import prod", "import sum as prod"),
    ],
)
def test_what_changes_a_function(before: str, after: str, loaded: Callable[[str], dict[str, Any]]) -> None:
    assert before in MODULE
    assert rule_of(loaded(MODULE.replace(before, after))) != rule_of(loaded(MODULE))


def test_lambdas_of_one_line_are_told_apart(loaded: Callable[[str], dict[str, Any]]) -> None:
    names, again = loaded(MODULE), loaded(MODULE)
    assert fingerprint(names["small"]) == fingerprint(again["small"]) != fingerprint(names["large"])


def test_a_function_without_source_counts_by_its_code() -> None:
    def made(text: str) -> str:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(text, names)
        return fingerprint(names["f"])

    assert made("def f(x): return x + 1") == made("def f(x): return x + 1") != made("def f(x): return x + 2")
    assert made("class f:\n  x = 1") == made("class f:\n  x = 1") != made("class f:\n  x = 2")
    assert made("class f:\n  def g(self): return 1") != made("class f:\n  def g(self): return 2")


def test_helpers_behind_a_module_of_the_users_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = tmp_path / "helpers_of_fingerprints.py"
    helpers.write_text("def unused(): pass\ndef used(x): return x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "import helpers_of_fingerprints as h\ndef f(x): return h.used(x)\n"

    def made() -> str:
        names: dict[str, Any] = {"__name__": "__main__"}
        monkeypatch.delitem(sys.modules, "helpers_of_fingerprints", raising=False)
        exec(code, names)
        return fingerprint(names["f"])

    first = made()
    helpers.write_text("def unused(): return 1\ndef used(x): return x\n")
    assert made() == first
    helpers.write_text("def unused(): return 1\ndef used(x): return 10 * x\n")
    assert made() != first


class Color(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Point:
    x: int
    y: object = None


class Plain:
    def __init__(self, x: int) -> None:
        self.x = x

    def scaled(self, y: int) -> int:
        return self.x * y


class Lazy:
    """Counts by what it says of itself, and not by what else it holds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cache: list[object] = [object()]

    def ingredients(self) -> object:
        return self.name


DIFFERENT = (
    None,
    0,
    1,
    True,
    1.0,
    "1",
    b"1",
    (1, 2),
    (2, 1),
    {1, 2},
    {1: 2},
    {2: 1},
    Color.RED,
    Color.BLUE,
    Point(1),
    Point(2),
    Point(1, Point(1)),
    Plain(1),
    Plain(2),
    Plain(1).scaled,
    Plain(2).scaled,
    Lazy("a"),
    Lazy("b"),
    np.zeros(3),
    np.ones(3),
    np.zeros(3, np.float32),
    np.dtype("f4"),
    np.dtype("f8"),
    partial(max, 1),
    partial(max, 2),
    partial(min, 1),
    len,
    np.sin,
    np.cos,
    np,
    Path("a"),
    Path("b"),
)


def test_values_that_differ_differ() -> None:
    found = [fingerprint(value) for value in DIFFERENT]
    assert len(set(found)) == len(found)


def test_equal_values_are_equal_whether_they_are_one_object_or_two() -> None:
    shared = Point(3)
    assert fingerprint((shared, shared)) == fingerprint((Point(3), Point(3)))
    assert fingerprint(Lazy("a")) == fingerprint(Lazy("a"))
    assert fingerprint([1, 2]) == fingerprint((1, 2))
    assert fingerprint({"b": 1, "a": 2}) == fingerprint({"a": 2, "b": 1})


def test_an_object_inside_itself_ends() -> None:
    loop = Plain(1)
    loop.x = loop  # type: ignore[assignment]
    other = Plain(1)
    other.x = other  # type: ignore[assignment]
    assert fingerprint(loop) == fingerprint(other) != fingerprint(Plain(1))


def test_it_is_the_same_in_other_processes(tmp_path: Path) -> None:
    module = tmp_path / "module_of_fingerprints.py"
    module.write_text(MODULE)
    script = textwrap.dedent(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        import module_of_fingerprints as m
        from metasched.support.fingerprint import fingerprint
        print(fingerprint((m.rule, m.small, m.NAMES, frozenset(m.NAMES), m.Config(4), object(), vars(m)["inner"])))
        """
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("folder", "by_name"), [("lib/python3/dist-packages", True), ("site-packages", True), ("own", False)]
)
def test_a_package_counts_by_name_and_version_wherever_packages_lie(
    folder: str, by_name: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's own folder, Debian's, one that a path adds: where `pip` puts packages is one of many."""
    found = []
    for limit in (1, 2):
        module = ModuleType("some_package")
        module.__dict__.update(__version__="1.0", __file__=str(tmp_path / folder / "some_package" / "__init__.py"))
        exec(f"def helper(x, limit={limit}): return x", vars(module))
        monkeypatch.setitem(sys.modules, "some_package", module)
        found.append(fingerprint(module.helper))
    assert (found[0] == found[1]) is by_name
