"""The pool of threads in processes of their own: starting and ending, forks, signals. Each is given a minute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scenarios import Scenarios, scenarios_of

ENDINGS = ("the_process_ends_while_threads_look_for_work", "the_process_ends_while_a_thread_runs_regions")

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at threads as Linux shows them")


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenarios]:
    with scenarios_of(
        "tests.support.pool_scenarios", tmp_path_factory.mktemp("pool"), {"NUMBA_NUM_THREADS": "3"}
    ) as made:
        yield made


def passes(scenarios: Scenarios, name: str) -> None:
    ended = scenarios.run(name)
    assert (ended.status, ended.out) == (0, f"passed {name}\n"), ended


@pytest.mark.parametrize(
    "name",
    [
        "threads_are_one_fewer_than_chunks_and_stay",
        "a_process_of_serial_kernels_has_no_pool",
        "threads_without_work_sleep",
        "threads_leave_signals_to_others",
        "as_many_chunks_as_there_may_be",
        "the_system_gives_no_threads",
        "forks_of_every_kind",
        "forks_beside_threads_that_run_regions",
        "signal_handlers_call",
        "waiting_takes_about_as_long_as_threads_look",
        "exported_kernels_and_the_package_share_a_pool",
    ],
)
def test_scenario(scenarios: Scenarios, name: str) -> None:
    passes(scenarios, name)


@pytest.mark.parametrize("name", ENDINGS)
def test_the_process_ends(scenarios: Scenarios, name: str) -> None:
    for _ in range(2):
        passes(scenarios, name)
