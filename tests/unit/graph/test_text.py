"""Names that nothing has yet."""

from __future__ import annotations

from metasched.graph.text import fresh


def test_a_fresh_name_is_the_one_asked_for_or_has_marks_behind_it() -> None:
    assert fresh("x", {"y"}) == "x"
    assert fresh("x", {"x": 1, "x'": 2}) == "x''"
    assert fresh("past", {"past"}, "_") == "past_"
