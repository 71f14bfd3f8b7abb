"""Machine code for the tasks of a graph: from the cache, or made by their choices or the guess."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from metasched.calibration.store import core_of
from metasched.graph.code.builder_worker import WantedCode
from metasched.graph.code.building import BuilderProcesses, most_builders
from metasched.graph.code.cache import CodeCache
from metasched.graph.code.choices import Choice, Choices, ScheduleOrigin
from metasched.graph.code.default_choice import is_small, is_tiny
from metasched.graph.code.owned_files import code_key, is_time_to_look
from metasched.graph.code.step_code import TaskCode
from metasched.graph.code.task_code import compile_task
from metasched.graph.ir import Graph
from metasched.graph.loops.flat_graph import flat
from metasched.ir.program import Program
from metasched.target import Target

# With so few programs that take time to be made, none of them is worth starting a process for, which takes 2 seconds.
_FEW_PROGRAMS = 3


def build_graph_and_kernels(
    graph: Graph, passes: Callable[[], Graph], choices: Callable[[], Choices], target: Target
) -> tuple[Graph, dict[str, TaskCode]]:
    """Run passes on a graph and build its kernels' machine code. Builder processes get ready while the passes run, on
    the other cores.

    Raises what `kernels` does.
    """
    with BuilderProcesses() as builders:
        if _is_worth_processes({id(node.program): node.program for node in flat(graph).graph.computes}.values()):
            builders.start_processes(most_builders() - 1)
        made = passes()
        return made, kernels(made, choices(), target, builders=builders)


def kernels(
    graph: Graph,
    choices: Choices,
    target: Target,
    cache: CodeCache | None = None,
    builders: BuilderProcesses | None = None,
) -> dict[str, TaskCode]:
    """Machine code of every kernel of a graph, by the kernels' keys.

    What is not in the cache (by default the user's own) is made, in builder processes where it is much, and kept there
    but for stopgaps.
    `builders` are those of the caller; they do not build again afterwards.

    Raises ScheduleError and BuildError where a choice cannot be applied or compiled.
    """
    cache = CodeCache.open() if cache is None else cache
    flattened = flat(graph)
    graph, runs = flattened.graph, flattened.runs_in_loops()
    programs = {task: nodes[0].program for task, nodes in graph.tasks.items()}
    wanted = {}
    for key, kernel in graph.kernels.items():
        program = programs[kernel.task]
        strides = kernel.pitched_strides(program)
        wanted[key] = WantedCode(program, choices.get(kernel.task), strides, runs[kernel.task])
    keys = {key: _cache_key(key, one, target) for key, one in wanted.items()}
    found = {key: code for key in wanted if (code := cache.get(keys[key])) is not None}
    missing = {key: one for key, one in wanted.items() if key not in found}

    def store_code(key: str, code: TaskCode) -> None:
        found[key] = code
        if not code.is_stopgap:
            cache.put(keys[key], code)

    if _is_worth_processes(one.program for one in missing.values()):
        with builders or BuilderProcesses() as own:
            own.build(missing, target, store_code)
    else:
        for key, one in missing.items():
            store_code(key, compile_task(one.program, one.chosen(target), target, one.strides))
    if any(is_time_to_look(keys[key]) for key in missing):
        cache.remove_oldest()
    return {key: _set_origin(found[key], one.choice) for key, one in wanted.items()}


def _is_worth_processes(programs: Iterable[Program]) -> bool:
    """Whether processes are worth being started for some programs."""
    return sum(not is_small(program) for program in programs) > _FEW_PROGRAMS


def _set_origin(code: TaskCode, choice: Choice | None) -> TaskCode:
    if choice is None or choice.trace is None or code.is_stopgap:
        return code
    return replace(code, origin=choice.told)


def _cache_key(kernel: str, wanted: WantedCode, target: Target) -> str:
    choice = wanted.choice
    targets = str(target), str(target.runnable_here())  # that of a call, and that of what is computed of constants
    if choice is None:
        often = () if wanted.is_tiny == is_tiny(wanted.program) else ("often",)
        return code_key(kernel, ScheduleOrigin.GUESS.value, repr(core_of(target)), *often, *targets)
    return code_key(kernel, str(choice.trace), *targets)
