"""Data classes of ours do what those of `dataclasses` do."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from typing import Any, ClassVar, get_type_hints

import pytest

from metasched.support import data_classes

Declare = Callable[..., Any]
BOTH = (dataclasses.dataclass, data_classes.dataclass)


@data_classes.dataclass(frozen=True)
class Point:
    x: int
    y: int = 2
    names: list[str] = field(default_factory=list, compare=False)


def shapes(declare: Declare) -> list[type[Any]]:
    """Classes with what the package's have."""

    @declare
    class Plain:
        a: int
        b: str = "b"

    @declare(frozen=True)
    class Frozen:
        """It has a docstring."""

        KIND: ClassVar[str] = "kind"
        a: int
        b: tuple[int, ...] = ()
        c: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
        d: int = field(default=4, kw_only=True)

    @declare(frozen=True)
    class Derived(Frozen):
        b: tuple[int, ...] = (1,)
        e: int = 5

    @declare(frozen=True, kw_only=True)
    class ByName:
        a: int = 1
        b: int

    @declare(frozen=True, eq=False)
    class Itself:
        a: int = 1

    @declare(frozen=True, repr=False)
    class Own:  # noqa: PLW1641 -- its hash is what is asked for
        a: int = 1

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    @declare
    class Hashed:
        a: int = 1

        def __hash__(self) -> int:
            return 7

    @declare(frozen=True)
    class Checked:
        a: int
        twice: int = field(init=False, default=0)
        made: list[int] = field(init=False, default_factory=list, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2 * self.a)

    @declare(frozen=True)
    class Empty:
        pass

    return [Plain, Frozen, Derived, ByName, Itself, Own, Hashed, Checked, Empty]


def arguments(kind: type[Any]) -> dict[str, int]:
    return {f.name: 10 + n for n, f in enumerate(fields(kind)) if f.init and f.default is dataclasses.MISSING}


PAIRS = [pytest.param(*pair, id=pair[0].__name__) for pair in zip(*map(shapes, BOTH), strict=True)]


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_it_is_declared_as_theirs(theirs: type[Any], ours: type[Any]) -> None:
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert get_type_hints(ours.__init__) == get_type_hints(theirs.__init__)
    assert [(f.name, f.type, f.default, f.kw_only) for f in fields(ours)] == [
        (f.name, f.type, f.default, f.kw_only) for f in fields(theirs)
    ]
    for name in ("__match_args__", "__annotations__"):
        assert getattr(ours, name) == getattr(theirs, name)
    written = ("__init__", "__repr__", "__eq__", "__setattr__", "__delattr__", "__hash__")
    assert [name for name in written if name in vars(ours)] == [name for name in written if name in vars(theirs)]
    for name in written:
        assert getattr(getattr(ours, name), "__qualname__", None) == getattr(
            getattr(theirs, name), "__qualname__", None
        )
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)


def refusal(kind: type[Any], change: Callable[..., None], *given: object) -> str | None:
    """What a change of a new object is refused with."""
    try:
        change(kind(**arguments(kind)), *given)
    except FrozenInstanceError as error:
        return str(error)
    return None


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_it_is_used_as_theirs(theirs: type[Any], ours: type[Any]) -> None:
    def seen(kind: type[Any]) -> list[Any]:
        one, same = (kind(**arguments(kind)) for _ in range(2))
        found: list[Any] = [repr(one).replace(hex(id(one)), "address"), asdict(one), is_dataclass(one)]
        for _ in range(2):  # at the first use, and later
            found += [one == same, one == 1, kind.__eq__(one, 1), one != same]
        if kind.__hash__ is not None:
            found += [hash(one) == hash(same), len({one, same}), kind.__hash__ is object.__hash__]
        for f in fields(kind):
            other = replace(one, **{f.name: ()}) if f.init else None
            found.append((f.name, other == one, one == other, getattr(other, f.name, None)))
            found += [refusal(kind, setattr, f.name, 3), refusal(kind, delattr, f.name)]
        return found

    assert seen(ours) == seen(theirs)


@pytest.mark.parametrize("declare", BOTH)
def test_a_hash_is_that_of_the_values(declare: Declare) -> None:
    @declare(frozen=True)
    class Counted:
        a: int
        b: int = field(default=0, hash=False)

    assert hash(Counted(1, 2)) == hash(Counted(1, 3)) == hash((1,))
    assert Counted(1, 2) != Counted(1, 3)


def test_values_that_are_made_are_made_anew() -> None:
    assert Point(1).names is not Point(1).names
    assert Point(1, names=(given := ["a"])).names is given


def test_it_is_pickled_and_compared_where_none_was_made_before() -> None:
    code = (
        "import pickle, sys; one, same, other = pickle.loads(sys.stdin.buffer.read())\n"
        "print(one == same, one == other, hash(one) == hash(same), repr(one))"
    )
    data = pickle.dumps((Point(1, 2), Point(1, 2, ["a"]), Point(2)))
    said = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True).stdout.decode()
    assert said == "True False True Point(x=1, y=2, names=[])\n"


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("second", BOTH)
def test_they_derive_from_one_another(first: Declare, second: Declare) -> None:
    @first(frozen=True)
    class Base:
        a: int = 1

    @second(frozen=True)
    class Derived(Base):
        b: int = 2

    class Plain(Derived):
        pass

    assert (Derived(3).a, Derived(3).b) == (3, 2)
    assert Derived(1) != Base(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        Derived().a = 2
    one: Any = Plain()
    one.other = 3
    assert one.other == 3
    del one.other
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'b'"):
        del one.b
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        second(type("Changing", (Base,), {}))


def test_what_is_inside_itself_is_shown_once() -> None:
    @data_classes.dataclass
    class Ring:
        next: Any = None

    ring = Ring()
    ring.next = ring
    assert repr(ring).endswith("Ring(next=...)")


def test_no_text_is_made_of_the_arguments() -> None:
    assert Point.__doc__ is None
