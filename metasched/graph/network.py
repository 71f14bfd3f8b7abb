"""A network as its users hold it: called with arrays, printed, looked at."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from typing import Any

from metasched.database.base import Access, Database
from metasched.database.database_registry import DatabaseLike, opened_database
from metasched.database.record import Record, TaskKey
from metasched.graph.code.choices import NO_CHOICES, Choices
from metasched.graph.code.step_code import TaskCode
from metasched.graph.growing.calls import cut_results, extend_inputs
from metasched.graph.inputs import UsualInputs, as_arrays, random_inputs, require_types
from metasched.graph.ir import Array, Graph
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.loop_node import ASSUMED_STEPS
from metasched.graph.loops.bodies import replace_constants
from metasched.graph.loops.flat_graph import flat
from metasched.graph.members import NetworkBase
from metasched.graph.passes.constant_folding import constant_folding
from metasched.graph.passes.declaration import PassContext
from metasched.graph.passes.pipeline import PassOptions, PassReport, optimise_graph, run_passes
from metasched.graph.passes.strips import StripGroup, strip_groups, strips
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.precision.error import PrecisionError, differences
from metasched.graph.precision.rounding import without_rounding
from metasched.graph.running.executable import Executable
from metasched.graph.running.execution_plan import StepInfo
from metasched.graph.running.packed_constants import let_constants_go, return_free_memory
from metasched.graph.running.planning import executable
from metasched.graph.running.profile import NetworkProfile, profile_network
from metasched.graph.running.state import NetworkState
from metasched.graph.running.weights import WeightStore
from metasched.graph.saved.exported_parts import ExportedMember, ExportedPart, NetworkExport
from metasched.graph.saved.network_cache import CachePlace
from metasched.graph.signature import DeferredGraph, Signature
from metasched.graph.tasks import NetworkTask, TaskRow, TaskTable, tasks_of
from metasched.graph.tuning.recorded import (
    add_groups,
    add_settled,
    choices_of,
    recorded_ways,
    records_to_run,
    surroundings_of,
)
from metasched.graph.tuning.settling import Settlement, expected_seconds, settle
from metasched.graph.tuning.strip_turns import StripSettlement, open_groups, settle_groups
from metasched.graph.value_type import ValueType
from metasched.lang.call_arguments import order_arguments
from metasched.measure.timing import Surroundings
from metasched.permissions import Allow, Allowed
from metasched.runtime.machine_check import lacking_here
from metasched.support.cached import cached_property
from metasched.target import Target


class Network(NetworkBase):
    """A model with all sizes bound, as `ms.load_onnx` gives it: `net(x)` runs it.

        net = ms.load_onnx("m.onnx", batch=1)
        y = net(x)
        net.tune(budget=600)  # seconds; from then on net(x) runs the best that was found
        print(net.profile(x))

    Inputs are NumPy arrays of the network's types (see `inputs`), by position or by name, or arrays of other libraries
    in the CPU's memory; a contiguous copy is made where one is not. Results are new NumPy arrays, a tuple where there
    are several. Kernels are compiled at the first call, or by `compile`. Several threads may call one network.

    Attributes:
        signature: what it takes and returns.
        weights: those of all networks of the model, where it is one of several.
        precision: what products are computed from.
        ways: groups of reductions that were timed, by the structural hashes of their joined programs: whether they are
            computed in strips by one kernel.
        state: what it holds between calls, by the names of inputs that calls do not give; empty for most networks.

    """

    def __init__(
        self,
        graph: Graph | DeferredGraph,
        target: Target | None = None,
        precision: ProductPrecision | str = ProductPrecision.F32,
        *,
        weights: WeightStore | None = None,
        place: CachePlace | None = None,
    ) -> None:
        """`weights` are those of other networks of the model: what is the same in this one is held once.

        `place` is where the network is kept on disk, compiled with the schedules that it has when nothing is tuned.
        """
        self._given = graph
        self.signature = graph.signature if isinstance(graph, DeferredGraph) else Signature.from_graph(graph)
        self._usual = UsualInputs(self.signature.given)
        self.target = target or Target.detect()
        self.precision = ProductPrecision.of(precision)
        self.choices: Choices = NO_CHOICES
        self.ways: Mapping[str, bool] = {}
        self.state = NetworkState(self.signature.held)
        self._executable: Executable | None = None
        self._error: PrecisionError | None = None
        self.weights = weights
        self._cached = place
        self._followed: Callable[[], Choices] = dict
        self._taken: Choices | None = None
        self._note: Callable[[], Mapping[str, Any] | None] = dict
        self._lock = threading.Lock()

    @cached_property
    def graph(self) -> Graph:
        """What the model says; of a network that was found on disk, the model is read when somebody looks at it."""
        return self._given.read() if isinstance(self._given, DeferredGraph) else self._given

    @property
    def _options(self) -> PassOptions:
        return self._options_with({})

    def _options_with(self, ways: Mapping[str, bool]) -> PassOptions:
        known = {**self.ways, **ways}
        faster = frozenset(key for key, together in known.items() if together)
        return PassOptions(self.target, frozenset(), self.precision, faster, frozenset(known) - faster)

    @cached_property
    def optimised(self) -> Graph:
        """The graph after the passes, which is what runs."""
        return self._rerun_passes()

    def _rerun_passes(self) -> Graph:
        return optimise_graph(self.graph, self._options)

    def passes(self) -> tuple[PassReport, ...]:
        """What each pass did, in order: print one for its remarks; `before` and `after` of it are graphs."""
        return tuple(run_passes(self.graph, self._options))

    def own_tasks(self, db: DatabaseLike | None) -> TaskTable:
        """The programs that calls of just this size run; see `tasks`."""
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
        kinds = (kind for kind in Surroundings if kind.is_searched)
        return [TaskKey.of(task.program, self.target, kind) for kind in kinds]

    def _records(self, database: Database, allow: Allow) -> Mapping[str, Record]:
        surroundings = surroundings_of(self.optimised, self.target)
        return records_to_run(database, tasks_of(self.optimised), self.target, surroundings, Allowed.of(allow))

    def use(self, db: DatabaseLike, *, allow: Allow = None) -> Network:
        """Run the best kernels that are recorded in a database, where there are any. Returns this network.

        Raises NoRecord for a database that is not there.
        """
        with ExitStack() as own:
            database = own.enter_context(opened_database(db, Access.READ))
            self._go_ways(recorded_ways(database, self.target))
            self.schedule_by(choices_of(self._records(database, allow), tasks_of(self.optimised)))
        return self

    def schedule_by(self, choices: Choices) -> None:
        """Schedule tasks by choices, from the next call on."""
        if not choices:
            return
        with self._lock:
            self.choices = {**self.choices, **choices}
            self._executable = None

    def _go_ways(self, ways: Mapping[str, bool]) -> None:
        """Compute groups of reductions in these ways, from the next call on."""
        if all(self.ways.get(key) is together for key, together in ways.items()):
            return
        with self._lock:
            self.ways = {**self.ways, **ways}
            self.optimised = self._rerun_passes()
            self._executable = None

    @property
    def inputs(self) -> Mapping[str, ValueType]:
        """Names and types of what a call is given, in order."""
        return self.signature.given

    @property
    def outputs(self) -> Mapping[str, ValueType]:
        """Names and types of what a call returns, in order."""
        return self.signature.returned

    def session(self) -> Network:
        """This network with a state of its own, zeros at first; code and weights are the same, held once."""
        self.compiled()
        other = copy.copy(self)
        other.state = NetworkState(self.signature.held)
        return other

    def compiled(self) -> Executable:
        """What a call runs, compiled where it is not yet."""
        if self._executable is None:
            with self._lock:
                if self._executable is None:
                    self._executable = self._load_executable() or self._build_executable()
        return self._executable

    @property
    def _is_as_loaded(self) -> bool:
        return not self.choices and not self.ways

    def _schedules(self) -> Choices:
        """What schedules tasks: its own choices, and what follows from another network's."""
        if self._taken is None:
            self._taken = self._followed()
        return {**self._taken, **self.choices}

    def _load_executable(self) -> Executable | None:
        return (
            None
            if self._cached is None or not self._is_as_loaded
            else self._cached.executable(self.target, self.weights)
        )

    def _build_executable(self) -> Executable:
        graph, codes = self._graph_and_kernels()
        made = executable(graph, codes, self.target, self.weights)
        self._let_go(graph)
        if self._cached is not None and self._is_as_loaded and not any(code.is_stopgap for code in codes.values()):
            note = self._note()
            if note is not None:
                self._cached.put(self.signature, made, self.weights, note)
        return made

    def _graph_and_kernels(self) -> tuple[Graph, dict[str, TaskCode]]:
        """The graph that runs, with all of its constants, and its kernels."""
        from metasched.graph.code.kernels import build_graph_and_kernels

        if "optimised" in vars(self):
            graph = self._complete_graph()
            return graph, kernels(graph, self._schedules(), self.target)
        return build_graph_and_kernels(self.graph, self._complete_graph, self._schedules, self.target)

    @property
    def members(self) -> tuple[Network, ...]:
        """The networks that calls run on: this one, and others for other sizes."""
        return (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """What tells members apart, for a person; empty for a network that is its only one."""
        return ("",)

    @property
    def state_bytes(self) -> int:
        """What is held between calls."""
        return self.state.nbytes

    @property
    def executable(self) -> Executable | None:
        """What a call runs; None where it is not compiled yet."""
        return self._executable

    @property
    def is_compiled(self) -> bool:
        """Whether the kernels are made that a call runs."""
        return self._executable is not None

    def keep_with(self, note: Callable[[], Mapping[str, Any] | None]) -> None:
        """Say what is kept on disk with it, as JSON; None where it is not to be kept."""
        self._note = note

    def follow(self, choices: Callable[[], Choices]) -> None:
        """Schedule tasks as another network does, where nothing else says how: asked for when this one is compiled."""
        self._followed = choices

    @property
    def steps(self) -> tuple[StepInfo, ...]:
        """What a call runs, in order, with schedules; they are compiled where they are not."""
        return self.compiled().steps

    def _complete_graph(self) -> Graph:
        """The graph that runs with all of its constants, which are computed once more where they were let go."""
        return replace_constants(self.optimised, lambda constants: dict(constants.items()))

    def _let_go(self, whole: Graph) -> None:
        self.optimised = let_constants_go(whole, self.graph, self._rerun_passes)
        return_free_memory()

    @property
    def runs_here(self) -> bool:
        """Whether this machine has what the target has."""
        return not lacking_here(self.target)

    def settle(self, choices: Choices, db: DatabaseLike) -> Settlement:
        """Schedule tasks by those of the choices that are faster in this network's own call, and record what it runs.

        Where that cannot be timed, for lack of memory or of this target's CPU, all are taken, and the result says so.
        """
        if not self.runs_here:
            self.schedule_by(choices)
            return Settlement(unsettled=f"this machine cannot run what is for {self.target.name}")
        before, graph, earlier, all_now = self.compiled(), self._complete_graph(), dict(self.choices), self._schedules()

        def choices_with(tuned: Set[str]) -> Choices:
            return {**earlier, **{key: choice for key, choice in choices.items() if key in tuned}}

        def with_tuned(tuned: Set[str]) -> Executable:
            known = {**all_now, **choices_with(tuned)}
            return executable(graph, kernels(graph, known, self.target), self.target, self.weights)

        found, taken = settle(before, with_tuned, self._trial_inputs())
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

    def settle_strips(self, db: DatabaseLike, most: int) -> StripSettlement:
        """Compute groups of reductions in strips or apart, as is faster in this network's own call, and record both.

        What a database has of them is taken, and not timed again. At most `most` different groups are timed now, those
        with the most bytes between their reductions first.
        """
        with ExitStack() as own:
            database = own.enter_context(opened_database(db))
            self._go_ways(recorded_ways(database, self.target))
            groups = open_groups(self._groups, self.ways, most) if most and self.runs_here else []
            if not groups:
                return StripSettlement()

            def in_ways(ways: Mapping[str, bool]) -> Executable:
                graph = optimise_graph(self.graph, self._options_with(ways))
                return executable(graph, kernels(graph, self._schedules(), self.target), self.target, self.weights)

            found, taken = settle_groups(self.compiled(), in_ways, groups, self._trial_inputs())
            if found.changed:
                self._go_ways(found.changed)
                with self._lock:
                    self._executable = taken
                self._let_go(self.optimised)
            self.ways = {**self.ways, **{group.key: group.is_together for group in found.groups}}
            add_groups(database, found.groups, self.target)
        return found

    @property
    def _groups(self) -> tuple[StripGroup, ...]:
        before = next((report.before for report in self.passes() if report.name == strips.__name__), None)
        return () if before is None else strip_groups(before, self._options)

    def settling_s(self) -> float:
        """The seconds that `settle` is expected to take at most, by what a run takes now; compiles the network."""
        if not self.runs_here:
            return 0.0
        compiled, inputs = self.compiled(), self._trial_inputs()
        compiled.run(inputs, ASSUMED_STEPS)  # the first starts threads, and brings code and weights from memory
        return expected_seconds(float(compiled.run_timed(inputs, ASSUMED_STEPS).nanoseconds.sum()) * 1e-9)

    def _trial_inputs(self) -> list[Array]:
        """Inputs of its types for timing it; states are copies, positions the lowest."""
        given = random_inputs(self.inputs)
        growth = self.signature.growth
        if growth is not None:
            given[growth.length].fill(growth.longest // 2)
        for part in self.optimised.parts.values():
            if part.position is not None and part.position.input in given and growth is None:
                given[part.position.input].fill(part.position.lowest)
        return self._graph_arguments(self.state.copy(), list(given.values()))

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network; raises KernelError for inputs that it cannot take."""
        if named:
            inputs = order_arguments(f"network `{self.signature.name}`", tuple(self.inputs), inputs, named)
        return self.run_on(self.state, inputs)

    def run_on(self, state: NetworkState, inputs: Sequence[Any]) -> Any:
        """Run the network on a state of its types; raises KernelError for inputs that it cannot take."""
        arrays = self._require_inputs(inputs)
        compiled = self.compiled()
        if state:
            with state.lock:
                results = compiled.run(self._graph_arguments(state, arrays))
        else:
            results = compiled.run(arrays)
        if self.signature.growth is not None:
            results = cut_results(self.signature, self._name_inputs(arrays), results)
        return results[0] if len(results) == 1 else tuple(results)

    def _name_inputs(self, arrays: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.inputs, arrays, strict=True))

    def exported(self) -> NetworkExport:
        """What an export of it has; it is compiled where it is not yet."""
        part = ExportedPart((ExportedMember(self.signature, self.compiled()),))
        return NetworkExport(self.signature, (part,))

    def profile(self, /, *inputs: Any, runs: int = 30, **named: Any) -> NetworkProfile:
        """Where the time of a call goes, on these inputs or, without any, on random ones: print it, or read its
        `kernels`. See `running.profile`.
        """
        if not inputs and not named:
            named = random_inputs(self.inputs)
        if named:
            inputs = order_arguments(f"network `{self.signature.name}`", list(self.inputs), inputs, named, ["runs"])
        return self.profile_on(self.state, inputs, runs)

    def profile_on(self, state: NetworkState, inputs: Sequence[Any], runs: int) -> NetworkProfile:
        """Where the time of a call on a copy of a state goes."""
        given = self._graph_arguments(state.copy(), self._require_inputs(inputs))
        return profile_network(self.compiled(), self.optimised, given, self.target, runs)

    def _graph_arguments(self, state: NetworkState, arrays: Sequence[Array]) -> list[Array]:
        """Everything that the graph takes, in its order."""
        given = iter(arrays)
        return [state[name] if name in state else next(given) for name in self.signature.inputs]

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

    def _require_inputs(self, inputs: Sequence[Any]) -> Sequence[Array]:
        if self.signature.growth is None and self._usual.are(inputs):
            return inputs
        wanted = self.inputs
        taken = as_arrays(self.signature.name, wanted, inputs)
        if self.signature.growth is not None:
            taken = extend_inputs(self.signature, self._name_inputs(taken))
        return require_types(wanted, taken)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}: {type_}" for name, type_ in self.inputs.items())
        made = ", ".join(f"{name}: {type_}" for name, type_ in self.outputs.items())
        whole = flat(self.graph).graph
        facts = [f"{sum(1 for _ in whole.computes)} kernels", f"{len(whole.tasks)} distinct"]
        if self.precision is not ProductPrecision.F32:
            facts.append(self.precision.value)
        if self._error is not None:
            facts.append(self._error.summary)
        return f"<network {self.graph.name}({given}) -> ({made}), {', '.join(facts)}>"


def kernels(graph: Graph, choices: Choices, target: Target) -> dict[str, TaskCode]:
    """Machine code of every kernel of a graph; a start from the cache does not wait for what makes it."""
    from metasched.graph.code import kernels as made

    return made.kernels(graph, choices, target)


def fold_constants(graph: Graph, target: Target | None = None) -> Graph:
    """A graph without what depends on constants alone. How much of that is computed at import depends on sizes."""
    return remove_dead_code(constant_folding(graph, PassContext(PassOptions(target or Target.detect()))))
