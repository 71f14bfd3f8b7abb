from __future__ import annotations

from metasched.support.calls import lacking_methods, name_of, takes


def test_what_a_function_can_be_called_with() -> None:
    assert takes(lambda a, b=1: a, "a")
    assert takes(lambda *a: a, "a", "b")
    assert not takes(lambda: 1, "a")
    assert not takes(lambda a, *, b: a, "a")
    assert takes(dict, "a"), "it does not say"


def test_what_an_object_lacks() -> None:
    assert lacking_methods([], "append", "push") == ["push"]
    assert lacking_methods(None, "close") == ["close"]


def test_what_a_function_is_called() -> None:
    assert name_of(lacking_methods) == "`lacking_methods`"
    assert name_of(3) == "`3`"
