"""Names that nothing has yet."""

from __future__ import annotations

from metasched.graph.text import fresh_name


def test_a_fresh_name_is_the_one_asked_for_or_has_marks_behind_it() -> None:
    assert fresh_name("x", {"y"}) == "x"
    assert fresh_name("x", {"x": 1, "x'": 2}) == "x''"
    assert fresh_name("past", {"past"}, "_") == "past_"
