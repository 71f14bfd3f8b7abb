"""Machine code of the last candidates is kept, up to a number of bytes."""

from __future__ import annotations

from metasched.measure.recently_built import RecentlyBuilt
from metasched.measure.records import MeasureCandidate
from metasched.measure.workers.protocol import Message, MessageKind


def candidate(trace: str) -> MeasureCandidate:
    return MeasureCandidate("program", (), trace, "target")


def answer(size: int) -> Message:
    return Message(MessageKind.DONE, {}, bytes(size))


def test_the_ones_used_longest_ago_are_dropped_for_later_ones() -> None:
    built, answers = RecentlyBuilt(most_bytes=30), {name: answer(10) for name in "abc"}
    for name, given in answers.items():
        built.add(candidate(name), given)
    assert built.get(candidate("a")) is answers["a"]
    built.add(candidate("d"), answer(5))
    assert built.get(candidate("b")) is None
    assert all(built.get(candidate(name)) is not None for name in "acd")
    # a and c, of 10 bytes each, and d of 5
    built.add(candidate("e"), answer(5))
    assert built.get(candidate("a")) is not None


def test_an_answer_replaces_the_one_before() -> None:
    built = RecentlyBuilt(most_bytes=30)
    for size in (20, 30):
        given = answer(size)
        built.add(candidate("a"), given)
        assert built.get(candidate("a")) is given


def test_one_larger_than_all_room_is_not_kept() -> None:
    built = RecentlyBuilt(most_bytes=30)
    built.add(candidate("a"), answer(10))
    built.add(candidate("b"), answer(31))
    assert built.get(candidate("b")) is None
    built.add(candidate("c"), answer(30))
    assert built.get(candidate("c")) is not None
