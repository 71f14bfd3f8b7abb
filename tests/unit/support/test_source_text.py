"""The text of functions: of those of a module as of others, without what does not say what they do."""

import importlib.util
import inspect
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from metasched.support.source_text import normalise_source, source_of

TEXT = '''\
"""A module."""
import functools

def plain(x):
    """Documented."""
    # and with a comment
    def inner(y):
        "So is this."
        return y
    try:
        class Held:
            """And this."""
    finally:
        pass
    match x:
        case 1:
            def matched():
                """The last."""
    return   inner(x)

@functools.lru_cache(
    maxsize=2)
def decorated(x): return x

async def waits(): return 1

class Kind:
    def method(self):
        """Documented."""
        return 1

@functools.total_ordering
class Marked(Kind):
    """Documented."""
    __lt__ = None
    class Inner: pass

def outer():
    def made(x):
        """Documented."""
        return x
    return made

pair = lambda x: x, lambda y: y + 1
'''


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    path = tmp_path / "written.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    "name", ["plain", "decorated", "waits", "Kind.method", "outer"], ids=lambda name: name.replace(".", "_")
)
def test_a_function_is_its_own_text_normalised(module: ModuleType, name: str) -> None:
    of = module
    for part in name.split("."):
        of = getattr(of, part)
    wanted = normalise_source(textwrap.dedent(inspect.getsource(of)))
    assert source_of(of) == source_of(of) == wanted
    assert "ocumented" not in wanted


def test_a_class_is_its_own_text_normalised(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert source_of(module.Kind) == normalise_source(inspect.getsource(module.Kind))
    assert source_of(module.Kind) == "class Kind:\n\n    def method(self):\n        return 1"
    assert (
        source_of(module.Marked)
        == "@functools.total_ordering\nclass Marked(Kind):\n    __lt__ = None\n\n    class Inner:\n        pass"
    )
    assert source_of(module.Marked.Inner) == "class Inner:\n    pass"
    assert source_of(type("Kind", (), {"__module__": "nowhere"})) is None


def test_docstrings_are_gone_wherever_they_are(module: ModuleType) -> None:
    text = source_of(module.plain)
    assert text is not None
    assert not any(said in text for said in ("Documented", "So is this", "And this", "The last", "comment"))
    assert text.count("pass") == 3  # of the class, of `finally`, and of what was matched


def test_a_function_inside_another_and_lambdas(module: ModuleType) -> None:
    assert source_of(module.outer()) == "def made(x):\n    return x"
    assert [source_of(fn) for fn in module.pair] == ["lambda x: x", "lambda y: y + 1"]
