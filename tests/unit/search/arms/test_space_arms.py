"""A program's space as the search sees it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import metasched as ms
from metasched.cost.features import NAMES
from metasched.cost.model import CostModel
from metasched.schedule.trace_outline import outline_of
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.rounds.population import draw_arms, legal
from metasched.search.space_protocol import Candidate
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig

TEXT = """
program dense_relu[N=32, M=48, K=20](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
"""


@pytest.fixture(scope="module")
def arms() -> SpaceArms:
    return SpaceArms(ms.space(ms.parse_program(TEXT)), ms.Target.detect(threads=2))


def test_what_is_proposed_can_be_replayed_and_found_again(arms: SpaceArms) -> None:
    found = Evolution(arms.arms, CostModel(), 0, EvolutionConfig(population=64, generations=1)).propose(8)
    assert len({candidate.arm for candidate in found}) >= 4
    for candidate in found:
        text = arms.trace(candidate)
        assert arms.locate(text) == candidate
        replayed = ms.parse_trace(text).apply_to(ms.parse_program(TEXT))
        assert str(replayed.trace.canonical()) == str(ms.parse_trace(text).canonical())


def test_a_trace_of_another_space_is_not_found(arms: SpaceArms) -> None:
    schedule = ms.Schedule(ms.parse_program(TEXT))
    schedule.parallel(schedule.get_loops(schedule.get_block("dense"))[0])
    assert arms.locate(str(schedule.trace)) is None


def test_a_trace_of_a_structure_that_was_not_met_is_found(arms: SpaceArms) -> None:
    """Records of any structure teach, so it is made from the decisions of the trace."""
    other = SpaceArms(ms.space(ms.parse_program(TEXT)), ms.Target.detect(threads=2))
    rng = np.random.default_rng(5)
    texts = []
    for number in draw_arms(rng, other, 12):
        arm = other[number]
        (row, *_) = legal(arm, arm.sample(rng, 32)).tolist()
        texts.append(other.trace(Candidate(number, tuple(row))))
    before = len(fresh := SpaceArms(ms.space(ms.parse_program(TEXT)), ms.Target.detect(threads=2)))
    found = fresh.locate_all([outline_of(text) for text in texts], lambda n: texts[n])
    assert before == 0
    assert len(fresh) == len(texts)
    assert [fresh.trace(c) for c in found if c is not None] == texts


def test_numbers_are_carried_over_by_address(arms: SpaceArms) -> None:
    rng = np.random.default_rng(0)
    one, *others = draw_arms(rng, arms, 8)
    rows = legal(arms[one], arms[one].sample(rng, 8))
    for other in others:
        adopted = arms[other].adopt(rng, arms[one], rows)
        theirs = {v.address: rows[:, v.span] for v in arms[one].sketch.variables}
        for v in arms[other].sketch.variables:
            if v.address in theirs:
                assert np.array_equal(adopted[:, v.span], theirs[v.address])


def test_a_structure_is_found_by_its_decisions(arms: SpaceArms) -> None:
    rng = np.random.default_rng(0)
    for number in draw_arms(rng, arms, 8):
        decisions = {choice.address: choice.options[choice.taken] for choice in arms.choices(number)}
        assert arms.of(rng, decisions) == number


def test_what_decides_alike_up_to_a_choice_has_the_same_next_one(arms: SpaceArms) -> None:
    """So the decisions of structures are the levels of a tree; what is missing of a prefix is drawn."""
    rng = np.random.default_rng(1)
    for number in draw_arms(rng, arms, 6):
        choices = arms.choices(number)
        assert choices, "every structure of this space has several options"
        for level, choice in enumerate(choices):
            before = {c.address: c.options[c.taken] for c in choices[:level]}
            for taken, option in enumerate(choice.options):
                made = arms.of(rng, {**before, choice.address: option})
                if made is not None:
                    found = arms.choices(made)
                    assert found[:level] == choices[:level]
                    assert (found[level].address, found[level].options) == (choice.address, choice.options)
                    assert found[level].taken == taken


def test_structures_with_an_illegal_step_are_counted() -> None:
    def module(sch: ms.Schedule) -> None:
        if sch.choose("how", ["right", "wrong"]) == "wrong":
            sch.split(sch.get_loops(sch.get_block("dense"))[0], [2, 2])

    made = SpaceArms(ms.space(ms.parse_program(TEXT), module=module), ms.Target.detect(threads=2))
    assert draw_arms(np.random.default_rng(0), made, 4) == [0]
    assert sum(made.refused.values()) > 0
    assert all("the factors cover less" in reason for reason in made.refused)


def test_constraints_that_no_number_meets_are_counted() -> None:
    def module(sch: ms.Schedule) -> None:
        loop, *_ = sch.get_loops(sch.get_block("relu"))
        sch.vectorize(loop, lanes=sch.sample_categorical([65, 80] if sch.choose("wide", [True, False]) else [8, 80]))

    made = SpaceArms(ms.space(ms.parse_program(TEXT), module=module), ms.Target.detect(threads=2))
    rng = np.random.default_rng(0)
    draw_arms(rng, made, 8)
    assert len(made) == 2
    assert not made.refused
    for arm in map(made.__getitem__, range(2)):
        arm.mask(arm.sample(rng, 16))
    assert made.refused == {"vectorize: lanes are not between 1 and 64": 1}


def test_every_arm_has_the_same_features(arms: SpaceArms) -> None:
    for arm in (arms[n] for n in draw_arms(np.random.default_rng(0), arms, 8)):
        rows = arm.sample(np.random.default_rng(0), 20)
        features = arm.features(rows[arm.mask(rows)])
        assert features.shape[1] == len(NAMES)
        assert np.isfinite(features).all()
        assert sorted(n for group in arm.groups for n in group) == list(range(len(arm.columns)))


PROPOSE = """
import numpy as np, sys
import metasched as ms
from metasched.cost.model import CostModel
from metasched.search.arms.space_arms import SpaceArms
from metasched.schedule.trace_outline import outline_of
from metasched.search.rounds.population import draw_arms, legal
from metasched.search.space_protocol import Candidate
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.space_protocol import Observation

arms = SpaceArms(ms.space(ms.parse_program(sys.argv[1])), ms.Target.parse(sys.argv[2]))
search = Evolution(arms.arms, CostModel(threads=int(sys.argv[3])), 0, EvolutionConfig(population=64, generations=1))
for batch in range(2):
    found = search.propose(8)
    search.observe([Observation(c, 1e-3 * (1 + n % 3)) for n, c in enumerate(found)])
    print([arms.trace(c) for c in found])
"""


def test_proposals_are_the_same_in_every_process_and_with_every_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(ms.Target.detect(threads=2))
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
    there = subprocess.run(
        [sys.executable, "-c", PROPOSE, TEXT, target, "1"],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    monkeypatch.setattr(sys, "argv", ["-c", TEXT, target, "2"])
    exec(PROPOSE, {})
    assert there == capsys.readouterr().out
    assert "trace 1 of dense_relu" in there
