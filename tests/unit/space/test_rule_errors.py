"""Mistakes in a rule, as a person is told them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import metasched as ms
from metasched.space.rule_errors import describe_error
from tests.support.schedules import schedule


def described_block() -> object:
    sch = schedule()
    return sch.describe(sch.get_block("dense"))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            lambda: described_block().reduce,  # type: ignore[attr-defined]
            "AttributeError: 'BlockInfo' object has no attribute 'reduce'\n  hint: did you mean `reduces`?",
        ),
        (lambda: [].apend(3), "AttributeError: 'list' object has no attribute 'apend'\n  hint: did you mean `append`?"),  # type: ignore[attr-defined]
        (lambda: [].zebra, "AttributeError: 'list' object has no attribute 'zebra'"),  # type: ignore[attr-defined]
        (lambda: schedule().splt(), "AttributeError: there is no primitive `splt`\n  hint: did you mean `split`?"),  # type: ignore[attr-defined]
        (lambda: dict[str, int]()["x"], "KeyError: 'x'"),
    ],
)
def test_an_attribute_that_is_not_there_has_the_closest_named(mistake: Callable[[], object], message: str) -> None:
    with pytest.raises((AttributeError, KeyError)) as info:
        mistake()
    found = describe_error(info.value)
    assert found.startswith(message)
    assert found.count("did you mean") == message.count("did you mean")


def test_an_error_of_ours_says_enough() -> None:
    assert describe_error(ms.MetaschedError("no")) == "no"
