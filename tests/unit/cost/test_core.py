"""The constants of a core go with the target, from a task down to every term."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.cost.core import DEFAULT_CORE, Core, default_core
from metasched.cost.expectation import Limit, expectation_of, least_cycles
from metasched.cost.features import NAMES, features_of
from metasched.ir.nodes import Func
from metasched.search.guesses.guess import guess
from metasched.search.task import Task

SERVER = ms.Target("sapphirerapids", frozenset({"avx512f", "fma"}), 2, 32 << 10, 1 << 20, 32 << 20)
SLOW = replace(DEFAULT_CORE, operations=0.25, parallel_launch=1e6)


@pytest.fixture(scope="module")
def func() -> Func:
    trace = operators.expert("matmul_nn.goto").trace
    return trace.apply_to(operators.load("matmul_nn", M=256, N=256, K=256), ms.Policy.REPAIR).func


@pytest.mark.parametrize("name", ["operations", "parallel_launch", "loop_overhead", "usable", "l2_bytes"])
def test_a_constant_changes_the_features(func: Func, name: str) -> None:
    wrong = replace(DEFAULT_CORE, **{name: getattr(DEFAULT_CORE, name) / 3})
    assert not np.array_equal(features_of(func, SERVER, wrong), features_of(func, SERVER))


def test_every_default_is_positive() -> None:
    constants = (getattr(DEFAULT_CORE, field.name) for field in fields(Core))
    assert all(constant > 0 for constant in constants if isinstance(constant, float))


def test_cpus_that_compute_vectors_in_halves_have_constants_of_their_own() -> None:
    zen4 = replace(SERVER, name="znver4")
    assert default_core(SERVER) == DEFAULT_CORE
    assert default_core(zen4).operations == DEFAULT_CORE.operations / 2
    assert default_core(replace(zen4, features=frozenset({"avx2", "fma"}))) == DEFAULT_CORE


def test_pairs_of_bf16_are_as_fast_as_multiply_adds_where_vectors_are_computed_in_halves() -> None:
    zen4 = replace(SERVER, name="znver4", features=SERVER.features | {"avx512bf16"})
    program = operators.load("matmul_nn", M=64, N=64, K=64, T="bf16", ACC="f32")
    func = operators.expert("matmul_nn.bf16").trace.apply_to(program, ms.Policy.REPAIR).func
    there, here = (expectation_of(func, zen4, core) for core in (DEFAULT_CORE, default_core(zen4)))
    assert here.parts[Limit.OPERATIONS] < 0.7 * there.parts[Limit.OPERATIONS]
    declared = replace(default_core(zen4), throughputs=())
    assert least_cycles(func, zen4, default_core(zen4)) < 0.7 * least_cycles(func, zen4, declared)


def test_estimates_are_by_the_core_that_is_given(func: Func) -> None:
    slow = expectation_of(func, SERVER, SLOW)
    assert slow.parts[Limit.OPERATIONS] == pytest.approx(
        8 * expectation_of(func, SERVER).parts[Limit.OPERATIONS], rel=0.05
    )
    assert slow.parts[Limit.LAUNCH] >= 1e6
    assert least_cycles(func, SERVER, SLOW) == pytest.approx(8 * least_cycles(func, SERVER))


def test_a_task_searches_by_its_core() -> None:
    program = operators.load("matmul_nn", M=64, N=64, K=64)
    arms, slow = Task(program, target=SERVER).arms.arms, Task(program, target=SERVER, core=SLOW).arms.arms
    assert arms.first() == slow.first() == 0
    rows = arms[0].sample(np.random.default_rng(0), 4)
    cycles = NAMES.index("s0.operation_cycles")
    assert np.all(slow[0].features(rows)[:, cycles] > arms[0].features(rows)[:, cycles] + 2.9)


def test_a_guess_is_by_the_core_that_is_given() -> None:
    program = operators.load("matmul_nn", M=64, N=64, K=64)
    for rules in (None, "cpu"):
        usual, slow = guess(program, SERVER, rules).expected, guess(program, SERVER, rules, core=SLOW).expected
        assert usual is not None
        assert slow is not None
        assert slow.parts[Limit.OPERATIONS] > 4 * usual.parts[Limit.OPERATIONS]
