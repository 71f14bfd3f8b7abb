"""Signal handlers and forks while kernels are compiled: nothing hangs. Each in a process that is given a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.scenarios import Scenarios, scenarios_of


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenarios]:
    folder = tmp_path_factory.mktemp("reentrancy")
    env = {"METASCHED_CACHE": str(folder), "NUMBA_THREADING_LAYER": "workqueue"}
    with scenarios_of("tests.support.reentrancy_scenarios", folder, env) as made:
        yield made


@pytest.fixture(scope="module")
def later_scenarios(scenarios: Scenarios) -> Scenarios:
    """The same, where all that compiling imports has been imported."""
    scenarios.prepare("imported")
    return scenarios


def passes(scenarios: Scenarios, name: str) -> None:
    ended = scenarios.run(name)
    assert ended.out == f"passed {name}\n", ended


@pytest.mark.parametrize(
    "name", ["handler_calls_while_imports_are_under_way", "many_forks_beside_threads_that_compile"]
)
def test_first_calls_of_a_process(scenarios: Scenarios, name: str) -> None:
    passes(scenarios, name)


@pytest.mark.parametrize(
    "name",
    [
        "handler_calls_the_function_that_compiles",
        "handler_calls_another_function",
        "handler_packs_the_kernel_that_packs",
        "fork_beside_a_thread_that_compiles",
        "fork_beside_a_thread_inside_llvm",
        "fork_from_a_handler_while_compiling",
    ],
)
def test_later_calls(later_scenarios: Scenarios, name: str) -> None:
    passes(later_scenarios, name)
