"""What a network does with all the networks that its calls run on: one of just one size, or one for each bucket."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from metasched.cost.model_registry import DEFAULT_MODEL, MakeModel
from metasched.database.database_registry import DatabaseLike
from metasched.graph.errors import NetworkError
from metasched.graph.running.executable import Executable
from metasched.graph.running.memory_figures import MemberMemory, NetworkMemory
from metasched.graph.saved.exported_parts import NetworkExport
from metasched.graph.tasks import TaskTable, join_tables
from metasched.graph.tuning.member import TunedMember
from metasched.knowledge.library import KnowledgeLike
from metasched.measure.executor_registry import DEFAULT_EXECUTOR
from metasched.measure.runner import Runner
from metasched.permissions import Allow
from metasched.search.scheduler_registry import NETWORK_SCHEDULER, MakeScheduler
from metasched.search.several_tasks.objectives import Objective
from metasched.search.strategy_registry import DEFAULT_STRATEGY, MakeStrategy
from metasched.settings import DEFAULT_DATABASE
from metasched.space.registry import RuleSpec
from metasched.target import Target

if TYPE_CHECKING:
    from metasched.graph.tuning.graphs import NetworkReport
    from metasched.graph.tuning.view import NetworkShown


class NetworkMember(TunedMember, Protocol):
    """A network of one size, which has kernels of its own."""

    @property
    def executable(self) -> Executable | None:
        """What a call runs; None where it is not compiled yet."""

    def compiled(self) -> Executable:
        """What a call runs, compiled where it is not yet."""

    def own_tasks(self, db: DatabaseLike | None) -> TaskTable:
        """The programs that it runs."""


class NetworkBase(ABC):
    """What all networks have, whatever number of sizes they are for.

    Attributes:
        target: the CPU that they are for.

    """

    target: Target

    @property
    @abstractmethod
    def members(self) -> Sequence[NetworkMember]:
        """The networks that calls run on."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """What tells members apart, for a person; empty for a network that is its only one."""

    def _named_members(self) -> Mapping[str, NetworkMember]:
        """The networks that calls run on, by their names."""
        return dict(zip(self.names, self.members, strict=True))

    @property
    @abstractmethod
    def state_bytes(self) -> int:
        """What is held between calls."""

    def tune(
        self,
        trials: int | None = None,
        db: DatabaseLike = DEFAULT_DATABASE,
        *,
        budget: float | None = None,
        patience: int | None = None,
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
        run that was interrupted or killed at any moment goes on by the same call. Kernels of all lengths of a network
        that grows, and of all buckets of one whose sizes are ranges, are tuned in one session.

        Args:
            trials: measurements of all tasks together to have in the database in the end, earlier ones included.
            db: where they are kept: a URL, or a database that is open.
            budget: seconds that it may take. By default 600, where nothing else says when to end.
            patience: end with a task after so many trials of it without one that is faster by more than noise.
            objective: what is minimised: "sum", the network's time (of one call on each of its members);
                "early_stopping", the same without tasks that have not become faster for long; "latency=SECONDS", which
                ends as soon as that is reached; or an `Objective`.
            scheduler: "gradient", "round_robin", or a function of `SchedulerInputs`.
            progress: how to show where it stands: by default a table where somebody looks on; False shows nothing, a
                function is called with a `NetworkProgress` after each measurement.
            seed, rules, allow, knowledge, runner, strategy, model: as of `tune`.
        """
        from metasched.graph.tuning.networks import tune_networks

        return tune_networks(
            [self],
            trials,
            db,
            budget=budget,
            patience=patience,
            objective=objective,
            scheduler=scheduler,
            seed=seed,
            progress=progress,
            rules=rules,
            allow=allow,
            knowledge=knowledge,
            runner=runner,
            strategy=strategy,
            model=model,
        )

    def tasks(self, db: DatabaseLike | None = None) -> TaskTable:
        """The distinct programs that run, and how often each does in a call; with their best times in a database if
        there is one. Raises NoRecord for a database that is not there.
        """
        return join_tables([member.own_tasks(db) for member in self.members])

    def compile(self) -> Self:
        """Compile every distinct program now, of all sizes and lengths. Returns this network."""
        for member in self.members:
            member.compiled()
        return self

    def prepare(self) -> Future[Self]:
        """Compile in the background, so that no call waits for what is compiled by then.

            ready = net.prepare()  # calls may go on meanwhile
            ready.result()         # waits until all is compiled; raises what `compile` would

        What is under way when the program ends is finished first.
        """
        made: Future[Self] = Future()
        made.set_running_or_notify_cancel()

        def run() -> None:
            try:
                for member in self.members:
                    if not threading.main_thread().is_alive():
                        break
                    member.compiled()
            except BaseException as error:  # noqa: BLE001 -- raised where the result is asked for
                made.set_exception(error)
            else:
                made.set_result(self)

        threading.Thread(target=run, name="metasched-prepare").start()
        return made

    @abstractmethod
    def exported(self) -> NetworkExport:
        """What an export of it has; it is compiled where it is not yet."""

    def export(self, folder: str | Path) -> Path:
        """Write the compiled network into a folder that runs with NumPy alone, and return its path.

            net.export("fast")
            from fast.network import run  # in any process: it takes and gives what this network does

        It has `network.py`, its machine code, and the weights as kernels read them, once, which processes share. All
        buckets of sizes and lengths are in it; what is held between calls is `run.state`, zeros at first, and
        `run.session()` is `run` with a state of its own. It is for Linux on x86-64 and CPUs with this target's
        instruction sets. Raises NetworkError on other machines, for a folder that has other files in it, and where
        what calls of some sizes take cannot be said without reading the model.
        """
        # It imports the compiler.
        from metasched.graph.saved.export import export_network

        return export_network(self.exported(), self.target, folder)

    def __copy__(self) -> Self:
        """A network of the same members, from which a session begins."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> Any:
        raise NetworkError(
            f"a {type(self).__name__} is code and weights in the memory of its process: it is neither pickled nor "
            "copied deeply",
            hint="other processes run the folder that net.export(folder) writes, or load the model again, "
            "which takes what is compiled from the cache; net.session() is the network with a state of its own",
        )

    def memory(self) -> NetworkMemory:
        """What the network holds in memory now: print it, or read its figures."""
        named: Mapping[str, Executable | None] = {
            name: member.executable for name, member in self._named_members().items()
        }
        made = [
            MemberMemory(name, one.weights.nbytes, sum(len(code.data) for code in one.plan.codes), one.arena)
            for name, one in named.items()
            if one is not None
        ]
        return NetworkMemory(made, self.state_bytes, len(named) - len(made))
