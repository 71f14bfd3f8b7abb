"""Folds: what is judged had no part in what was learned."""

from __future__ import annotations

import numpy as np

from benchmarks.yardstick.data import NEAR_BEST
from benchmarks.yardstick.folds import OWN_RECORDS, by_task, folds_by_family, with_own
from benchmarks.yardstick.tasks import FAMILIES, tasks
from tests.unit.benchmarks.yardstick.conftest import MakeSamples


def test_no_task_of_the_family_judged_is_among_the_others(made_up: MakeSamples) -> None:
    samples = [
        made_up("a 1", "a"),
        made_up("b 1", "b"),
        made_up("a 2", "a", pool=NEAR_BEST),
        made_up("c 1", "c"),
    ]
    folds = list(folds_by_family(samples))
    assert [fold.family for fold in folds] == ["a", "b", "c"]
    for fold in folds:
        assert {one.family for one in fold.judged} == {fold.family}
        assert fold.family not in {one.family for one in fold.others}
        assert not {one.task for one in fold.judged} & {one.task for one in fold.others}
        assert len(fold.judged) + len(fold.others) == len(samples)
    assert sorted(one.task for fold in folds for one in fold.judged) == sorted(one.task for one in samples)


def test_two_dimensional_convolutions_are_one_family() -> None:
    convolutions = {spec.operator: spec.family for spec in tasks() if "conv2d" in spec.operator}
    plain = {family for name, family in convolutions.items() if not name.startswith(("depthwise", "conv2d_transpose"))}
    assert plain == {"convolution 2-D"}


def test_every_operator_is_of_one_family() -> None:
    operators = [operator for some in FAMILIES.values() for operator in some]
    assert len(operators) == len(set(operators))
    assert all(spec.family for spec in tasks())


def test_own_records_are_not_judged(made_up: MakeSamples) -> None:
    pools = [made_up("a 1", "a"), made_up("a 1 near", "a", count=200, pool=NEAR_BEST)]
    parts = with_own(pools, seed=3)
    assert parts is not None
    own, rest = parts
    assert len(own) == OWN_RECORDS
    assert [one.pool for one in rest] == ["space", NEAR_BEST]
    assert sum(map(len, rest)) == 300 - OWN_RECORDS
    judged = {time for one in rest for time in one.first}
    assert not set(own.first) & judged
    assert set(own.first) | judged == {time for pool in pools for time in pool.first}
    assert all(set(one.first) < set(pool.first) for one, pool in zip(rest, pools, strict=True))
    again, other = with_own(pools, seed=3), with_own(pools, seed=4)
    assert again is not None
    assert other is not None
    assert np.array_equal(again[0].first, own.first)
    assert not np.array_equal(other[0].first, own.first)


def test_features_stay_with_their_times(made_up: MakeSamples) -> None:
    pools = [made_up("a 1", "a"), made_up("a 1 near", "a", count=200, pool=NEAR_BEST)]
    parts = with_own(pools, seed=0)
    assert parts is not None
    of = {float(t): row for pool in pools for t, row in zip(pool.first, pool.features, strict=True)}
    for one in (parts[0], *parts[1]):
        assert all(np.array_equal(of[float(t)], row) for t, row in zip(one.first, one.features, strict=True))
        assert len(one.details.statements) == len(one.details.curves) == len(one)


def test_a_task_of_few_candidates_has_no_rest(made_up: MakeSamples) -> None:
    assert with_own([made_up("a 1", "a", count=OWN_RECORDS + 31)], seed=0) is None
    assert with_own([made_up("a 1", "a", count=OWN_RECORDS + 32)], seed=0) is not None


def test_a_pool_of_which_little_is_left_is_not_judged(made_up: MakeSamples) -> None:
    parts = with_own([made_up("a 1", "a", count=16), made_up("a 1 near", "a", count=200, pool=NEAR_BEST)], seed=0)
    assert parts is not None
    assert [one.pool for one in parts[1]] == [NEAR_BEST]


def test_pools_of_a_task_come_together(made_up: MakeSamples) -> None:
    one, other, near = made_up("a 1", "a"), made_up("a 2", "a"), made_up("a 1", "a", pool=NEAR_BEST)
    assert by_task([one, other, near]) == [[one, near], [other]]
