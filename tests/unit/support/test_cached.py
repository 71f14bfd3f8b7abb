"""What is worked out once an object and kept with it, without a lock."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from metasched.support.cached import cached_property, find_kept, keep, kept_with


@dataclass(frozen=True)
class Counted:
    seen: list[int]

    @cached_property
    def total(self) -> int:
        """The sum."""
        self.seen.append(0)
        return sum(self.seen)


class Slow:
    """Whose property is worked out by two objects at a time, or never."""

    both = threading.Barrier(2)

    @cached_property
    def met(self) -> bool:
        return self.both.wait(timeout=20) >= 0


def test_it_is_worked_out_once_an_object() -> None:
    one, other = Counted([1, 2]), Counted([5])
    assert (one.total, one.total, one.seen) == (3, 3, [1, 2, 0])
    assert other.total == 5
    assert Counted.total.__doc__ == "The sum."


def test_no_object_waits_for_another() -> None:
    objects = [Slow(), Slow()]
    threads = [threading.Thread(target=lambda each=each: each.met) for each in objects]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [vars(each) for each in objects] == [{"met": True}] * 2


def test_results_are_kept_by_a_key() -> None:
    one, other = Counted([1]), Counted([1])
    made: list[int] = []

    def make() -> list[int]:
        made.append(len(made))
        return list(made)

    first = kept_with(one, "_made", make)
    assert kept_with(one, "_made", make) is find_kept(one, "_made") is first
    assert kept_with(other, "_made", make) == [0, 1], "an equal object has its own"
    assert find_kept(one, "_other") is None
    assert keep(one, "_made", [7]) is first, "what was given out stays"
