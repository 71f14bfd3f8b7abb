"""Measuring on a real dask cluster of several processes, whose machines are simulated: they die, hang and differ."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from metasched.errors import ResourceError
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.measure.cluster.address import SchedulerAddress
from metasched.measure.cluster.connection import Connection
from metasched.measure.cluster.runner import MACHINE_LOST, ClusterRunner
from metasched.measure.paired_timing import IN_TURNS
from metasched.measure.records import Lowered, Measurement, RunnerClosed
from tests.support.cluster import TARGET, Cluster

_S = 300.0  # for what happens at once: how long an answer is waited for before it is missing
PROGRAM = parse_program("program add[N=8](A: f32[N]) -> B: f32[N]:\n    add: B[i] = A[i] + 1\n")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.lose_all()


def lowered(runner: ClusterRunner, traces: list[str], program: Program = PROGRAM) -> list[Lowered]:
    return [f.result(_S) for f in [runner.lower(program, trace, str(TARGET)) for trace in traces]]


def submitted(runner: ClusterRunner, traces: list[str], program: Program = PROGRAM) -> list[Future[Measurement]]:
    found = lowered(runner, traces, program)
    return [runner.submit(program, one.candidate.trace, str(TARGET), lowered=one) for one in found]


def measured(runner: ClusterRunner, traces: list[str]) -> list[Measurement]:
    return [future.result(_S) for future in submitted(runner, traces)]


TRACES = [f"trace {n}" for n in range(16)]


def test_two_of_four_machines_are_lost_and_nothing_else(cluster: Cluster) -> None:
    cluster.start(delay_s=0.03)
    cluster.start(delay_s=0.03, dies_at=1)
    frozen = cluster.start(delay_s=0.2)
    cluster.start(delay_s=0.03)
    runner = cluster.runner()
    try:
        assert runner.batches_at_once == 4
        futures = submitted(runner, TRACES)
        while not any(line["pid"] == frozen for line in cluster.logged("begin")):
            time.sleep(0.01)
        os.kill(frozen, signal.SIGSTOP)
        results = [future.result(_S) for future in futures]
        assert runner.batches_at_once == 2
        again = measured(runner, TRACES[:3])
    finally:
        runner.close()
    assert [result.candidate.trace for result in results] == TRACES
    assert all(result.failure is None and result.seconds for result in results)
    assert [result.seconds for result in again] == [result.seconds for result in results[:3]]
    assert {name for name, _ in results[0].phases} == {"lower", "build", "run"}
    assert all(result.code for result in results)
    timed_by = {line["pid"] for line in cluster.logged("end")}
    assert timed_by >= {cluster.machines[0], cluster.machines[3]}


def test_what_hangs_is_retried_elsewhere_and_the_machine_is_left_alone(cluster: Cluster) -> None:
    stuck = cluster.start(hangs_at=1)
    cluster.start(delay_s=0.01)
    runner = cluster.runner(first_s=0.3, later_s=0.3, each_s=0.1)
    try:
        results = measured(runner, TRACES[:4])
        more = measured(runner, TRACES[4:8])
    finally:
        runner.close()
    assert all(result.failure is None for result in (*results, *more))
    assert sum(line["pid"] == stuck for line in cluster.logged("begin")) == 1


def test_other_cpus_versions_and_paces_time_nothing(cluster: Cluster) -> None:
    other_cpu = cluster.start(target=str(replace(TARGET, name="znver4")))
    other_version = cluster.start(version="metasched 0")
    slow = cluster.start(slower=1.3)
    alike = [cluster.start(slower=1.0), cluster.start(slower=1.05)]
    runner = cluster.runner()
    try:
        assert runner.batches_at_once == 5 - 1
        results = measured(runner, TRACES)
        assert runner.batches_at_once == 2
    finally:
        runner.close()
    assert all(result.failure is None for result in results)
    assert {line["pid"] for line in cluster.logged("begin")} == set(alike)
    built_by = {line["pid"] for line in cluster.logged("lower")} | {line["pid"] for line in cluster.logged("build")}
    assert other_version not in built_by
    assert {slow, other_cpu} <= built_by


def test_a_machine_times_one_candidate_at_a_time_whoever_asks_and_turns_stay_together(cluster: Cluster) -> None:
    cluster.start(delay_s=0.02)
    cluster.start(delay_s=0.02)
    first, second = cluster.runner(), cluster.runner()
    try:
        futures = [*submitted(first, TRACES[:6]), *submitted(second, TRACES[6:12])]
        results = [future.result(_S) for future in futures]
        assert all(result.failure is None for result in results)
        cluster.log.unlink()
        turns = replace(IN_TURNS, visits=5)
        again = [first.submit(PROGRAM, trace, str(TARGET), plan=turns) for trace in TRACES[:5]]
        assert [len(future.result(_S).visits) for future in again] == [5] * 5
        assert len({line["pid"] for line in cluster.logged("begin")}) == 1
    finally:
        first.close()
        second.close()
    for pid in cluster.machines:
        begins = [line["at"] for line in cluster.logged("begin") if line["pid"] == pid]
        ends = [line["at"] for line in cluster.logged("end") if line["pid"] == pid]
        assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))


def test_a_candidate_that_machines_are_lost_over_fails_and_the_others_do_not(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.start(deadly="trace 2")
    runner = cluster.runner(most_losses=1)
    try:
        results = measured(runner, TRACES[1:4])
    finally:
        runner.close()
    reasons = [result.failure and result.failure.reason for result in results]
    assert reasons == [None, MACHINE_LOST, None]


def test_failures_are_the_candidates_own(cluster: Cluster) -> None:
    cluster.start(fails_on="trace 1")
    runner = cluster.runner()
    try:
        results = measured(runner, ["trace 0", "trace 1"])
        runner.prepare(PROGRAM, {"A": np.ones(8, np.float32)})
    finally:
        runner.close()
    assert [result.failure and result.failure.reason for result in results] == [None, "made-up"]
    assert [name for name, _ in results[1].phases] == ["lower", "build"]


def test_nothing_of_the_target_is_an_error_that_says_what_there_is(cluster: Cluster) -> None:
    cluster.start(target=str(replace(TARGET, name="znver4")))
    runner = cluster.runner(patience_s=0.5)
    future = runner.lower(PROGRAM, "trace 1", str(TARGET))
    with pytest.raises(ResourceError, match="it is a znver4, and not a generic"):
        future.result(_S)
    with pytest.raises(ResourceError, match="no machine of the cluster"):
        runner.lower(PROGRAM, "trace 1", str(TARGET))
    runner.close()
    assert not cluster.connections[-1].is_open


def test_no_machine_and_closing(cluster: Cluster) -> None:
    with pytest.raises(ResourceError, match="no machine has joined the scheduler at tcp://"):
        cluster.runner(patience_s=0.3)
    cluster.start(delay_s=5)
    runner = cluster.runner()
    futures = submitted(runner, TRACES[:2])
    runner.close()
    for future in futures:
        with pytest.raises(RunnerClosed):
            future.result(_S)
    with pytest.raises(RunnerClosed):
        runner.lower(PROGRAM, "trace 1", str(TARGET))


def test_where_nobody_answers_no_thread_is_left() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ResourceError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9") as raised:
        Connection(SchedulerAddress.parse("127.0.0.1:9"), 0.2)
    assert "`dask scheduler --host 127.0.0.1 --port 9` starts one" in str(raised.value)
    assert "`metasched worker tcp://127.0.0.1:9` joins it" in str(raised.value)
    assert set(threading.enumerate()) <= before


def test_what_is_no_longer_wanted_is_not_timed(cluster: Cluster) -> None:
    cluster.start(delay_s=0.3)
    runner = cluster.runner()
    try:
        first = submitted(runner, TRACES[:1])
        while not cluster.logged("begin"):
            time.sleep(0.01)
        later = [runner.submit(PROGRAM, trace, str(TARGET)) for trace in TRACES[1:3]]
        assert all(future.cancel() for future in later)
        assert first[0].result(_S).failure is None
        assert measured(runner, TRACES[3:4])[0].failure is None
    finally:
        runner.close()
    assert Counter(line["what"] for line in cluster.logged("begin"))["begin"] == 2
