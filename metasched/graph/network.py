"""A network as its users hold it: called with arrays, printed, looked at."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from metasched.cost.model_registry import DEFAULT_MODEL, MakeModel
from metasched.database.backends import DatabaseLike, opened_database
from metasched.database.base import Access, Database
from metasched.database.record import Record, TaskKey
from metasched.errors import KernelError
from metasched.graph.choices import NO_CHOICES, Choices
from metasched.graph.errors import NetworkError
from metasched.graph.executable import Executable
from metasched.graph.inputs import random_inputs
from metasched.graph.ir import Array, Graph, ValueType
from metasched.graph.kernels import kernels
from metasched.graph.packed_constants import let_constants_go, return_free_memory
from metasched.graph.passes.pipeline import PassOptions, PassReport, optimised, run_passes
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.precision.error import PrecisionError, differences
from metasched.graph.precision.rounding import without_rounding
from metasched.graph.profile import NetworkProfile, profiled
from metasched.graph.recorded import add_settled, choices_of, records_to_run, surroundings_of
from metasched.graph.settling import Settlement, settle
from metasched.graph.state import NetworkState
from metasched.graph.tasks import NetworkTask, TaskRow, TaskTable, tasks_of
from metasched.graph.tuning import NetworkReport, NetworkSettings, tune_graphs
from metasched.graph.tuning_view import NetworkShown
from metasched.knowledge.library import KnowledgeLike
from metasched.measure.executor_registry import DEFAULT_EXECUTOR
from metasched.measure.runner import Runner
from metasched.measure.timing import Surroundings
from metasched.permissions import Allow, Allowed
from metasched.runtime import arguments
from metasched.runtime.foreign import as_numpy
from metasched.search.objectives import Objective
from metasched.search.session import DEFAULT_DATABASE
from metasched.search.strategy import DEFAULT_STRATEGY, MakeStrategy
from metasched.search.task_scheduler import NETWORK_SCHEDULER, MakeScheduler
from metasched.space.registry import RuleSpec
from metasched.support.cached import cached_property
from metasched.target import Target


class Network:
    """A model with all sizes bound: `net(x)` runs it.

    Inputs are NumPy arrays of the network's types (see `inputs`), by position or by name, or arrays of other libraries
    in the CPU's memory; a contiguous copy is made where one is not. Results are new NumPy arrays, a tuple where there
    are several. Kernels are compiled at the first call, or by `compile`. Several threads may call one network.

    Attributes:
        graph: what the model says.
        optimised: what runs: the graph after the passes; see `passes`.
        precision: what products are computed from.
        state: what it holds between calls, by the names of inputs that calls do not give; empty for most networks.

    """

    def __init__(
        self, graph: Graph, target: Target | None = None, precision: ProductPrecision | str = ProductPrecision.F32
    ) -> None:
        self.graph = graph
        self.target = target or Target.detect()
        self.precision = ProductPrecision.of(precision)
        self.choices: Choices = NO_CHOICES
        self.state = NetworkState(self._state_types)
        self._executable: Executable | None = None
        self._error: PrecisionError | None = None
        self._lock = threading.Lock()

    @property
    def _options(self) -> PassOptions:
        return PassOptions(self.target, precision=self.precision)

    @cached_property
    def optimised(self) -> Graph:
        """The graph after the passes, which is what runs."""
        return optimised(self.graph, self._options)

    def _again(self) -> Graph:
        return optimised(self.graph, self._options)

    def passes(self) -> tuple[PassReport, ...]:
        """What each pass did, in order: print one for its remarks; `before` and `after` of it are graphs."""
        return tuple(run_passes(self.graph, self._options))

    def tasks(self, db: DatabaseLike | None = None) -> TaskTable:
        """The distinct programs that run, and how often each does; with their best times in a database if there is one.

        Raises DatabaseError for a database that is not there.
        """
        tasks = tasks_of(self.optimised)
        if db is None:
            return TaskTable([TaskRow(task) for task in tasks])
        with ExitStack() as own:
            database = own.enter_context(opened_database(db, Access.READ))
            found = self._records(database, None)
            counts = {task.key: sum(database.count(key) for key in self._keys(task)) for task in tasks}
        times = {key: record.seconds for key, record in found.items()}
        return TaskTable([TaskRow(task, times.get(task.key), counts[task.key]) for task in tasks])

    def _keys(self, task: NetworkTask) -> list[TaskKey]:
        kinds = (kind for kind in Surroundings if kind is not Surroundings.IN_PLACE)
        return [TaskKey.of(task.program, self.target, kind) for kind in kinds]

    def _records(self, database: Database, allow: Allow) -> Mapping[str, Record]:
        surroundings = surroundings_of(self.optimised, self.target)
        return records_to_run(database, tasks_of(self.optimised), self.target, surroundings, Allowed.of(allow))

    def tune(
        self,
        trials: int | None = None,
        db: DatabaseLike = DEFAULT_DATABASE,
        *,
        budget: float | None = None,
        objective: str | Objective = "sum",
        scheduler: str | MakeScheduler = NETWORK_SCHEDULER,
        seed: int = 0,
        progress: NetworkShown = None,
        rules: RuleSpec = None,
        allow: Allow = None,
        knowledge: KnowledgeLike = None,
        runner: str | Runner = DEFAULT_EXECUTOR,
        strategy: str | MakeStrategy = DEFAULT_STRATEGY,
        model: str | MakeModel = DEFAULT_MODEL,
    ) -> NetworkReport:
        """Measure candidates for the network's kernels, and run the best of them from then on.

        Tasks are timed as the network runs them, with weights that other kernels have driven from the caches. Which
        task is next, a scheduler chooses. At the end the network itself is timed in turns with what it ran before, and
        keeps what is faster there, so that tuning makes no network slower. What is recorded is not measured again: a
        run that was interrupted or killed at any moment goes on by the same call.

        Args:
            trials: measurements of all tasks together to have in the database in the end, earlier ones included.
            db: where they are kept: a URL, or a database that is open.
            budget: seconds that it may take. By default 600, where no number of trials is given.
            objective: what is minimised: "sum", the network's time; "early_stopping", the same without tasks that have
                not become faster for long; "latency=SECONDS", which ends as soon as that is reached; or an `Objective`.
            scheduler: "gradient", "round_robin", or a function of `SchedulerInputs`.
            progress: how to show where it stands: by default a table where somebody looks on; False shows nothing, a
                function is called with a `NetworkProgress` after each measurement.
            seed, rules, allow, knowledge, runner, strategy, model: as of `tune`.

        Raises NetworkError where no kernel is large enough to be tuned.
        """
        settings = NetworkSettings(
            db, objective, scheduler, seed, progress, rules, allow, knowledge, runner, strategy, model
        )
        return tune_networks([self], trials, budget=budget, settings=settings)

    def use(self, db: DatabaseLike, *, allow: Allow = None) -> Network:
        """Run the best kernels that are recorded in a database, where there are any. Returns this network.

        Raises DatabaseError for a database that is not there.
        """
        with ExitStack() as own:
            database = own.enter_context(opened_database(db, Access.READ))
            self.schedule_by(choices_of(self._records(database, allow), tasks_of(self.optimised)))
        return self

    def schedule_by(self, choices: Choices) -> None:
        """Schedule tasks by choices, from the next call on."""
        with self._lock:
            self.choices = {**self.choices, **choices}
            self._executable = None

    @property
    def inputs(self) -> Mapping[str, ValueType]:
        """Names and types of what a call is given, in order."""
        return {name: self.graph.types[name] for name in self.graph.inputs if name not in self.graph.states}

    @property
    def outputs(self) -> Mapping[str, ValueType]:
        """Names and types of what a call returns, in order."""
        held = self.graph.states.values()
        return {label: self.graph.types[name] for label, name in self.graph.outputs if label not in held}

    @property
    def _state_types(self) -> Mapping[str, ValueType]:
        return {name: self.graph.types[name] for name in self.graph.states}

    def session(self) -> Network:
        """This network with a state of its own, zeros at first; code and weights are the same, held once."""
        self._compiled()
        other = copy.copy(self)
        other.state = NetworkState(self._state_types)
        return other

    def compile(self) -> Network:
        """Compile every distinct program now. Returns this network."""
        self._compiled()
        return self

    def _compiled(self) -> Executable:
        if self._executable is None:
            with self._lock:
                if self._executable is None:
                    graph = self._whole()
                    codes = kernels(graph, self.choices, self.target)
                    self._executable = Executable(graph, codes, self.target)
                    self._let_go(graph)
        return self._executable

    def _whole(self) -> Graph:
        """The graph that runs with all of its constants, which are computed once more where they were let go."""
        return replace(self.optimised, constants=dict(self.optimised.constants.items()))

    def _let_go(self, whole: Graph) -> None:
        self.optimised = let_constants_go(whole, self.graph, self._again)
        return_free_memory()

    @property
    def runs_here(self) -> bool:
        """Whether this machine has what the target has."""
        return self.target.features <= Target.detect(threads=1).features

    def settle(self, choices: Choices, db: DatabaseLike) -> Settlement:
        """Schedule tasks by those of the choices that are faster in this network's own call, and record what it runs.

        Where that cannot be timed, for lack of memory or of this target's CPU, all are taken, and the result says so.
        """
        if not self.runs_here:
            self.schedule_by(choices)
            return Settlement(unsettled=f"this machine cannot run what is for {self.target.name}")
        before, graph, earlier = self._compiled(), self._whole(), dict(self.choices)

        def choices_with(tuned: Set[str]) -> Choices:
            return {**earlier, **{key: choice for key, choice in choices.items() if key in tuned}}

        def executable(tuned: Set[str]) -> Executable:
            return Executable(graph, kernels(graph, choices_with(tuned), self.target), self.target)

        found, taken = settle(before, executable, self._trial_inputs())
        other = {task.key for task in found.tasks if not task.is_tuned}
        with self._lock:
            self.choices, self._executable = choices_with(choices.keys() - other), taken
            if found.unsettled:
                self._executable = None
        self._let_go(graph)
        with ExitStack() as own:
            database = own.enter_context(opened_database(db))
            add_settled(database, found.tasks, taken.steps, tasks_of(self.optimised), self.target)
        return found

    def _trial_inputs(self) -> list[Array]:
        """Inputs of its types for timing it; states are copies, positions the lowest."""
        given = random_inputs(self.inputs)
        for part in self.optimised.parts.values():
            if part.position is not None and part.position.input in given:
                given[part.position.input].fill(part.position.lowest)
        return self._with(self.state.copy(), list(given.values()))

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network; raises KernelError for inputs that it cannot take."""
        if named:
            inputs = arguments.in_order(f"network `{self.graph.name}`", list(self.inputs), inputs, named)
        arrays = self._checked(inputs)
        executable = self._compiled()
        if self.state:
            with self.state.lock:
                results = executable.run(self._with(self.state, arrays))
        else:
            results = executable.run(arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def export(self, folder: str | Path) -> Path:
        """Write the compiled network into a folder that runs with NumPy alone, and return its path.

            net.export("fast")
            from fast.network import run  # in any process: it takes and gives what this network does

        It has `network.py`, its machine code, and the weights as kernels read them, which processes share. It is for
        Linux on x86-64 and CPUs with this target's instruction sets. Raises NetworkError on other machines, for
        a folder that has other files in it, and for a network that has states.
        """
        if self.state:
            raise NetworkError(
                f"network `{self.graph.name}` has states, and an exported one keeps nothing between calls\n"
                "  hint: load it without `states`, and give its caches with each call"
            )
        # It imports the compiler.
        from metasched.graph.export import export_network

        return export_network(self._compiled(), self.graph.name, self.target, folder)

    def profile(self, /, *inputs: Any, runs: int = 30, **named: Any) -> NetworkProfile:
        """Where the time of a call goes, on these inputs: print it, or read its `kernels`. See `graph.profile`."""
        if named:
            inputs = arguments.in_order(f"network `{self.graph.name}`", list(self.inputs), inputs, named, ["runs"])
        given = self._with(self.state.copy(), self._checked(inputs))
        return profiled(self._compiled(), self.optimised, given, self.target, runs)

    def _with(self, state: NetworkState, arrays: Sequence[Array]) -> list[Array]:
        """Everything that the graph takes, in its order."""
        given = iter(arrays)
        return [state[name] if name in state else next(given) for name in self.graph.inputs]

    def precision_error(self, /, *inputs: Any, **named: Any) -> PrecisionError:
        """How far results are from those in float32, on these inputs or, without any, on random ones.

        Runs the model in float32 beside: of a quantised one, without rounding to bytes. So it takes that network's time
        and memory. What the network holds between calls stays as it is. `repr` shows what was found last. Raises
        KernelError for inputs that the network cannot take.
        """
        if not inputs and not named:
            named = random_inputs(self.inputs)
        both = self.session(), Network(without_rounding(self.graph), self.target)
        for network in both:
            network.state = self.state.copy()
        made = [network(*inputs, **named) for network in both]
        results, expected = (each if isinstance(each, tuple) else (each,) for each in made)
        found = differences(dict(zip(self.outputs, results, strict=True)), expected)
        self._error = PrecisionError(self.precision.value, found)
        return self._error

    def _checked(self, inputs: Sequence[Any]) -> list[Array]:
        wanted = self.inputs
        if len(inputs) != len(wanted):
            listed = ", ".join(f"{name}: {type_}" for name, type_ in wanted.items())
            raise KernelError(f"network `{self.graph.name}` takes ({listed}), and {len(inputs)} inputs are given")
        taken = [
            np.asarray(value) if isinstance(value, np.generic) else as_numpy(name, value)
            for name, value in zip(wanted, inputs, strict=True)
        ]
        for (name, type_), array in zip(wanted.items(), taken, strict=True):
            if not isinstance(array, np.ndarray):
                raise KernelError(f"the input `{name}` is {type_}, and a {type(array).__name__} is given")
            if array.dtype != type_.dtype.numpy or array.shape != type_.shape:
                raise KernelError(
                    f"the input `{name}` is {type_}, and an array of {array.dtype} {array.shape} is given\n"
                    "  hint: cast or reshape it; other sizes are bound at load"
                )
        return taken

    def __repr__(self) -> str:
        given = ", ".join(f"{name}: {type_}" for name, type_ in self.inputs.items())
        made = ", ".join(f"{name}: {type_}" for name, type_ in self.outputs.items())
        count = sum(1 for _ in self.graph.computes)
        facts = [f"{count} kernels", f"{len(self.graph.tasks)} distinct"]
        if self.precision is not ProductPrecision.F32:
            facts.append(self.precision.value)
        if self._error is not None:
            facts.append(self._error.summary)
        return f"<network {self.graph.name}({given}) -> ({made}), {', '.join(facts)}>"


def tune_networks(
    networks: Sequence[Network],
    trials: int | None = None,
    *,
    budget: float | None = None,
    settings: NetworkSettings | None = None,
    **given: Any,
) -> NetworkReport:
    """Tune several networks in one session, in which a program that two of them run is one task.

        ms.tune_networks([encoder, decoder], budget=600, objective="geomean")

    Args:
        networks: each runs its best kernels afterwards.
        trials: measurements of all tasks together to have in the database in the end.
        budget: seconds; by default 600, where no number of trials is given.
        settings: how, or the arguments of `Network.tune` by name. By `objective`, "sum" is the time of all of them one
            after another, "geomean" the geometric mean of their speed-ups, `LatencyRequirement((0.003, 0.02))` what
            each has to meet.

    Raises NetworkError where no kernel is large enough to be tuned.
    """
    how = settings or NetworkSettings(**given)
    started = time.perf_counter()

    def compile_all() -> None:
        for net in networks:
            if net.runs_here:
                net.compile()

    report = tune_graphs([(net.optimised, net.target) for net in networks], how, trials, budget, compile_all)
    pairs = zip(networks, report.choices, strict=True)
    settlements = tuple(net.settle(choices, how.db) for net, choices in pairs)
    choices_now = tuple(net.choices for net in networks)
    elapsed = time.perf_counter() - started
    return replace(report, settlements=settlements, choices=choices_now, elapsed_s=elapsed)
