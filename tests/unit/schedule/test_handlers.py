from __future__ import annotations

import pytest

from metasched.errors import NondeterministicModule
from metasched.lang.instructions import HOLE
from metasched.schedule.distributions.categorical import Categorical
from metasched.schedule.distributions.choice import ChoiceDistribution
from metasched.schedule.handlers import FREE, DrawFromPrior, EnumerateOptions, Policy, Repair, Replay, Site, Symbolic
from metasched.schedule.trace import Schedule
from tests.support.schedules import fails, loops_of, schedule

LANES = Site("lanes", "sample_categorical", Categorical((4, 8), (0.5, 0.5)))
HOW = Site("how", "choose", ChoiceDistribution(("a", "b", "c")))


def test_recording_draws_from_the_prior() -> None:
    drawn = {DrawFromPrior(seed).decide(HOW) for seed in range(40)}
    assert drawn == {"a", "b", "c"}
    assert DrawFromPrior(3).decide(LANES) == DrawFromPrior(3).decide(LANES)


def test_replaying_takes_what_is_given() -> None:
    replay = Replay({"lanes": 8, "never": 1}, Policy.STRICT, DrawFromPrior(0))
    assert replay.decide(LANES) == 8
    assert replay.leftover() == ["never"]
    assert replay.repairs == []


def test_strict_replaying_raises() -> None:
    with fails('sample_categorical: no decision is given for "lanes"'):
        Replay({}, Policy.STRICT, DrawFromPrior(0)).decide(LANES)
    with fails("choose: the decision \"d\" at \"how\" is not in the support (one of 'a', 'b', 'c')"):
        Replay({"how": "d"}, Policy.STRICT, DrawFromPrior(0)).decide(HOW)


def test_repairing_is_reported() -> None:
    replay = Replay({"lanes": 5}, Policy.REPAIR, DrawFromPrior(0))
    assert replay.decide(LANES) == 4
    drawn = replay.decide(HOW)
    assert drawn is not FREE
    assert drawn == DrawFromPrior(0).decide(HOW)
    assert replay.repairs == [Repair("lanes", 5, 4), Repair("how", None, drawn)]


def test_handlers_nest() -> None:
    """Structure as given, numbers left free, and nothing reported for what stays open."""
    replay = Replay({"how": "b"}, Policy.REPAIR, Symbolic(DrawFromPrior(0)))
    assert replay.decide(HOW) == "b"
    assert replay.decide(LANES) is FREE
    assert replay.repairs == []


def test_symbolic_leaves_numbers_free() -> None:
    sch = schedule(handler=Symbolic(DrawFromPrior(0)))
    i, j, _ = loops_of(sch, "dense")
    outer, inner = sch.sample_tile(i, parts=2)
    sch.split(i, [outer, inner])
    sch.split(j, [None, sch.sample_categorical([2, 4])])
    assert sch.context.free == {"t1", "t2"}
    assert sch.trace.decisions == {}
    assert "for i_0, i_1, j_0, j_1, k in grid(ceildiv(11, t1), t1, ceildiv(9, t2), t2, 7):" in str(sch)


def test_symbolic_keeps_what_it_cannot_decide_as_a_constraint() -> None:
    sch = schedule(handler=Symbolic(DrawFromPrior(0)))
    i, *_ = loops_of(sch, "dense")
    lanes = sch.sample_categorical([2, 4])
    sch.split(i, [3, lanes])
    assert [c.reason for c in sch.context.constraints] == ["split: the factors cover less than the extent of `i`"]


def test_forcing_takes_the_prefix_and_then_the_first() -> None:
    forced = EnumerateOptions({"how": "b"}, Symbolic(DrawFromPrior(0)))
    assert forced.decide(HOW) == "b"
    assert forced.decide(Site("later", "choose", HOW.dist)) == "a"
    assert forced.decide(LANES) is FREE
    assert [(site.address, taken) for site, taken in forced.met] == [("how", "b"), ("later", "a")]


def test_forcing_what_is_no_option() -> None:
    with pytest.raises(NondeterministicModule, match='offers other options at "how": "d" is not one of'):
        EnumerateOptions({"how": "d"}, Symbolic(DrawFromPrior(0))).decide(HOW)


def test_a_handler_that_decides_out_of_support() -> None:
    class Wrong:
        def decide(self, site: Site) -> object:
            return (HOLE, 99)

    sch: Schedule = schedule(handler=Wrong())  # type: ignore[arg-type]
    i, *_ = loops_of(sch, "dense")
    tiles = "1 inner factor of 11, the innermost at most 64"
    message = f'sample_tile: the decision [_, 99] at "i" is not in the support ({tiles})'
    with fails(message):
        sch.sample_tile(i)
    assert len(sch.trace) == 2
