"""Candidates of tensor instructions that are timed: each once, all with such an instruction, good ones early."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import metasched as ms
from benchmarks.yardstick.data import TENSOR_DATA, read_tasks
from benchmarks.yardstick.liked import liked_candidates
from benchmarks.yardstick.tensor_tasks import tensor_tasks
from metasched.cost.learning.trained import read_shipped_model
from metasched.search.arms.space_arms import SpaceArms
from tests.support.cross import AMX, WIDE, plain

SAPPHIRE = replace(plain("sapphirerapids", frozenset((*WIDE, *AMX))), threads=2)


def space(target: ms.Target) -> SpaceArms:
    program = ms.operators.load("matmul_nn", M=64, N=64, K=64, T="bf16", ACC="f32")
    return SpaceArms(ms.space(program, target=target), target)


def test_what_scores_like_is_among_the_first() -> None:
    arms = space(SAPPHIRE)
    found = liked_candidates(arms, np.random.default_rng(0))
    assert len(set(found)) == len(found) > 30
    assert all("tensorize(" in arms.trace(candidate) for candidate in found)
    scores = [read_shipped_model().log_seconds(arms[c.arm].features(np.array([c.row])))[0] for c in found]
    assert scores[0] == min(scores)


def test_without_such_instructions_there_are_none() -> None:
    assert liked_candidates(space(plain("skylake", frozenset({"avx2", "fma"}))), np.random.default_rng(0)) == []


def test_the_measurements_are_of_the_tasks() -> None:
    measured = list(read_tasks(TENSOR_DATA))
    assert {task.spec.name for task in measured} <= {spec.name for spec in tensor_tasks()}
    assert {task.text for task in measured} <= {spec.text for spec in tensor_tasks()}
