"""Tuning networks together: one session over the kernels of all, each of which is timed in its own call at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from metasched.cost.model_registry import DEFAULT_MODEL, MakeModel
from metasched.database.database_registry import DatabaseLike
from metasched.graph.code.choices import Choice, Choices
from metasched.graph.tuning.graphs import (
    DEFAULT_BUDGET_S,
    NetworkReport,
    NetworkSettings,
    budget_of,
    budget_without,
    tune_graphs,
)
from metasched.graph.tuning.member import TunedMember
from metasched.graph.tuning.settling import Settlement
from metasched.graph.tuning.strip_turns import most_groups
from metasched.graph.tuning.view import NetworkShown
from metasched.knowledge.library import KnowledgeLike
from metasched.measure.executor_registry import DEFAULT_EXECUTOR
from metasched.measure.runner import Runner
from metasched.permissions import Allow
from metasched.search.scheduler_registry import NETWORK_SCHEDULER, MakeScheduler
from metasched.search.several_tasks.objectives import Objective
from metasched.search.strategy_registry import DEFAULT_STRATEGY, MakeStrategy
from metasched.settings import DEFAULT_DATABASE
from metasched.space.registry import RuleSpec


class Tunable(Protocol):
    """What can be tuned: it has the networks that its calls run on."""

    @property
    def members(self) -> Sequence[TunedMember]: ...


def tune_networks(
    networks: Sequence[Tunable],
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
    """Tune several networks in one session, in which a program that two of them run is one task.

        ms.tune_networks([encoder, decoder], budget=600, objective="geomean")

    Args:
        networks: each runs its best kernels afterwards, at all lengths where it grows, and at all sizes where these are
            ranges.
        trials: measurements of all tasks together to have in the database in the end.
        db: where they are kept: a URL, or a database that is open.
        budget: seconds; by default 600, where nothing else says when to end.
        patience: of each task, trials without one that is faster by more than noise.
        objective: "sum" is the time of all of them one after another, "geomean" the geometric mean of their speed-ups,
            `LatencyRequirement((0.003, 0.02))` what each has to meet.
        scheduler, seed, progress, rules, allow, knowledge, runner, strategy, model: as of `Network.tune`.
    """
    how = NetworkSettings(
        db=db,
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
    budget = budget_of(trials, budget, patience)
    started = time.perf_counter()
    most = most_groups(DEFAULT_BUDGET_S if budget is None else budget)
    members = [member for network in networks for member in network.members]
    strips_found = tuple(net.settle_strips(how.db, most) for net in members)
    if budget is not None and any(one.is_timed for one in strips_found):
        budget = budget_without(budget, time.perf_counter() - started)

    def settling_s() -> float:
        return sum(net.settling_s() for net in members)

    tuned = [(net.optimised, net.target) for net in members]
    report = tune_graphs(tuned, how, trials, budget, patience, settling_s)
    settlements = settle_networks(members, report.choices, how.db)
    choices_now = tuple(net.choices for net in members)
    elapsed = time.perf_counter() - started
    return replace(report, settlements=settlements, strips=strips_found, choices=choices_now, elapsed_s=elapsed)


def settle_networks(
    members: Sequence[TunedMember], choices: Sequence[Choices], db: DatabaseLike
) -> tuple[Settlement, ...]:
    """Time tuned kernels in each network's own call, and return what came of it.

    Networks that share weights run the same kernel for a task, so that its weights have one layout: that which the
    first of them decides for.
    """
    found: list[Settlement] = []
    decided: dict[tuple[int, str], Choice | None] = {}
    for number, (network, tuned) in enumerate(zip(members, choices, strict=True)):
        store = number if network.weights is None else id(network.weights)
        known = {key: decided[store, key] for key in tuned if (store, key) in decided}
        network.schedule_by({key: choice for key, choice in known.items() if choice is not None})
        found.append(network.settle({key: choice for key, choice in tuned.items() if key not in known}, db))
        decided |= {(store, key): network.choices.get(key) for key in tuned}
    return tuple(found)
