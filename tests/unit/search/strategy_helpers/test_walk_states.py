"""What is kept between batches is the same whether it was kept or is worked out again."""

from __future__ import annotations

from metasched.search.strategy_helpers.walk_states import EPOCH, WalkStates


def test_a_lost_state_is_walked_again_within_its_epoch() -> None:
    walks: list[int] = []

    def walk(length: int, state: tuple[int, ...] | None) -> tuple[int, ...]:
        walks.append(length)
        return (*(state or ()), length)

    whole, lost = WalkStates(walk), WalkStates(walk)
    lengths = list(range(0, 80, 8))
    for n in range(1, len(lengths) + 1):
        before = whole.state_before(lengths[:n])
        assert before == lost.state_before(lengths[:n])
        assert len(before or ()) == (n - 1) % EPOCH
        whole.leave(lengths[n - 1], (*(before or ()), lengths[n - 1]))
    walks.clear()
    assert WalkStates(walk).state_before(lengths) == whole.state_before(lengths)
    assert len(walks) < EPOCH
