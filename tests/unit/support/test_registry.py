from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metasched.errors import MetaschedError
from metasched.support.registry import Product, Registry, UnfitError, checked_function, origin

GROUP = "metasched_test.shapes"


def whole(value: object) -> int:
    if not isinstance(value, int):
        raise UnfitError(f"it is {value!r}")
    return value


def numbers(package: str | None = None, attribute: str | None = None) -> Registry[int]:
    return Registry(GROUP, "number", whole, MetaschedError, package, attribute)


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of ours: two numbers, and three modules that provide none."""
    folder = tmp_path / "ours_of_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text("one = 1\n")
    (folder / "two.py").write_text("two = 2\n")
    (folder / "three.py").write_text("three = 'three'\n")
    (folder / "four.py").write_text("fore = 4\n")
    (folder / "five.py").write_text("five = 5 +\n")
    (folder / "six.py").write_text("import sys\n\nsys.exit('six')\n")
    (folder / "seven.py").write_text("seven = 1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder.name
    for name in [name for name in sys.modules if name.split(".")[0] == folder.name]:
        del sys.modules[name]


def declare(folder: Path, package: str, *lines: str) -> None:
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]) + "\n")


def test_ours_are_found_by_their_files_and_loaded_when_they_are_named(ours: str) -> None:
    registry = numbers(ours)
    assert registry.names() == ("five", "four", "one", "seven", "six", "three", "two")
    assert [f"{ours}.{name}" in sys.modules for name in registry.names()] == [False] * 7
    assert registry.get("two") == 2
    assert [f"{ours}.{name}" in sys.modules for name in registry.names()] == [False] * 6 + [True]


def test_those_of_other_packages_are_found_by_entry_points(ours: str, tmp_path: Path) -> None:
    declare(tmp_path, "others", "answer = tests.unit.support.test_registry:ANSWER")
    registry = numbers(ours)
    assert registry.get("answer") == 42
    assert (
        list(registry.points())
        == list(registry.names())
        == ["answer", "five", "four", "one", "seven", "six", "three", "two"]
    )
    assert origin(registry.points()["answer"]) == "others 1.0"
    assert origin(registry.points()["one"]) == "an unknown package"


ANSWER = 42


def test_no_package_s_metadata_is_read_where_nothing_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes longer than all else, and only messages name packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    declare(tmp_path, "others", "answer = tests.unit.support.test_registry:ANSWER")
    asked: list[object] = []
    monkeypatch.setattr("metasched.support.registry.origin", lambda point: asked.append(point) or "others")
    assert numbers().get("answer") == 42
    assert asked == []
    with pytest.raises(MetaschedError, match="of others"):
        Registry(GROUP, "number", _refuse, MetaschedError).get("answer")
    assert len(asked) == 1


def _refuse(_: object) -> int:
    raise UnfitError("it is refused")


def test_a_name_that_is_not_there(ours: str) -> None:
    with pytest.raises(MetaschedError) as found:
        numbers(ours).get("tow")
    assert str(found.value) == (
        "there is no number `tow`\n  hint: did you mean `two`? Installed are `five`, `four`, `one`, `seven`, `six`, "
        "`three` and `two`"
    )
    with pytest.raises(MetaschedError, match=re.escape("there is no number `x`\n  hint: installed are none")):
        numbers().get("x")


def test_a_name_that_two_packages_declare(ours: str, tmp_path: Path) -> None:
    declare(tmp_path, "others", "one = tests.unit.support.test_registry:ANSWER")
    message = (
        f"two packages have a number `one`: an unknown package ({ours}.one:one) and "
        "others 1.0 (tests.unit.support.test_registry:ANSWER)\n"
        "  hint: uninstall one of them, or have its makers give the number another name"
    )
    with pytest.raises(MetaschedError, match=re.escape(message)):
        numbers(ours).get("one")
    assert numbers(ours).get_own("one") == 1, "what we use ourselves is ours"


def test_a_package_that_is_found_twice_declares_its_names_once(ours: str, tmp_path: Path) -> None:
    declare(tmp_path, "others", "answer = tests.unit.support.test_registry:ANSWER")
    declare(tmp_path, "again", "answer = tests.unit.support.test_registry:ANSWER")
    assert numbers(ours).get("answer") == 42


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "three",
            "`three` of an unknown package (ours_of_test.three:three) is no number: it is 'three'",
        ),
        ("four", "the number `four` of an unknown package cannot be loaded (ours_of_test.four:four): module"),
        ("five", "the number `five` of an unknown package cannot be loaded (ours_of_test.five:five): invalid syntax"),
        ("six", "the number `six` of an unknown package cannot be loaded (ours_of_test.six:six): SystemExit: six"),
        ("seven", "`seven` of an unknown package cannot be loaded (ours_of_test.seven:seven): ZeroDivisionError: div"),
    ],
)
def test_what_cannot_be_loaded_or_is_of_another_kind(ours: str, name: str, message: str) -> None:
    with pytest.raises(MetaschedError, match=re.escape(message)):
        numbers(ours).get(name)


def test_one_name_for_what_each_module_provides(tmp_path: Path, ours: str) -> None:
    (tmp_path / ours / "eight.py").write_text("NUMBER = 8\n")
    assert numbers(ours, "NUMBER").get("eight") == 8


def test_a_check_may_change_what_it_takes(ours: str) -> None:
    def halved(value: object) -> float:
        if value != 2:
            raise UnfitError("it is not 2")
        return 1.0

    registry = Registry(GROUP, "half", halved, MetaschedError, ours)
    assert registry.get("two") == 1.0
    with pytest.raises(MetaschedError, match="is no half: it is not 2"):
        registry.get("one")


def test_what_is_given_instead_of_a_name_is_checked_too(ours: str) -> None:
    registry = numbers(ours)
    assert (registry.resolve("two"), registry.resolve(7)) == (2, 7)
    with pytest.raises(MetaschedError, match=re.escape("this is no number: it is 2.5\n  hint: a whole one")):
        registry.resolve(2.5, "a whole one")  # type: ignore[arg-type]
    with pytest.raises(MetaschedError, match=r"^my own is no number: it is None$"):
        registry.require_fit("my own", None)


def test_what_a_function_makes_has_the_methods_of_its_kind() -> None:
    def check(value: object) -> Callable[[str], object]:
        return checked_function(value, "a text", "a text")

    registry = Registry(None, "text", check, MetaschedError, product=Product("a text", ("upper",), "return a text"))
    assert registry.make(lambda given: given * 2, "ab") == "abab"
    message = "`len` made 2 of a text, which is no text: it has no `upper`\n  hint: return a text"
    with pytest.raises(MetaschedError, match=f"^{re.escape(message)}$"):
        registry.make(len, "ab")


def test_a_function_is_one_of_so_many_arguments() -> None:
    assert checked_function(divmod, "two numbers", "one", "another") is divmod
    with pytest.raises(UnfitError, match="it is 3, and not a function of a seed"):
        checked_function(3, "a seed", "a seed")
    with pytest.raises(UnfitError, match="it cannot be called with one argument, a seed"):
        checked_function(lambda: 3, "a seed", "a seed")
    with pytest.raises(UnfitError, match="it cannot be called with 2 arguments, a URL and an Access"):
        checked_function(lambda url: url, "a URL and an Access", "a URL", "an Access")
