"""Which machines have one pace."""

from __future__ import annotations

import pytest

from metasched.measure.cluster.yardstick import MachinePace, most_agreed_pace


def pace(factor: float, stream: float = 1.0) -> MachinePace:
    return MachinePace(1e-3 * factor, 2e-3 * factor * stream)


@pytest.mark.parametrize(("factor", "agree"), [(1.0, True), (1.09, True), (0.92, True), (1.11, False), (0.9, False)])
def test_paces_agree_within_a_tenth(factor: float, agree: bool) -> None:
    assert pace(1.0).agrees(pace(factor)) is agree
    assert pace(1.0).agrees(pace(1.0, factor)) is agree


def test_most_machines_decide_and_of_two_groups_the_faster_one() -> None:
    slow, fast = [pace(2.0), pace(2.02), pace(2.04)], [pace(1.0), pace(1.02)]
    assert most_agreed_pace([*fast, *slow]).agrees(slow[1])
    assert most_agreed_pace([*slow[:2], *fast]).agrees(fast[0])
    assert most_agreed_pace([slow[0]]) == slow[0]
