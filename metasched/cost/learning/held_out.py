"""How well models rank kinds of tasks that they were not trained on: each kind is left out in turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan

import numpy as np

from metasched.cost.learning.figures import figures
from metasched.cost.learning.ranking import Judgement, judge
from metasched.cost.learning.task_times import Flags, TaskTimes
from metasched.cost.learning.trained import TaughtTask, TrainedModel, TrainingFacts
from metasched.cost.learning.training import residual, train
from metasched.cost.model import CostModel, leaves_after_others
from metasched.support.data_classes import dataclass

# On so few candidates nobody is judged: a task whose space holds little else than one code is decided by few pairs.
LEAST_JUDGED_CANDIDATES = 16
# What of the figures a model's text keeps.
KEPT_FIGURES = ("pair_accuracy", "fastest_quarter", "top1_score", "regret_1", "regret_8", "regret_16")
# Measurements that move the leaves of a model that is kept: two seconds of it.
MOST_ADAPTING_MEASUREMENTS = 4096

Train = Callable[[Sequence[TaskTimes]], TrainedModel]


@dataclass(frozen=True)
class KindOfTask:
    """The measurements of a task, and of which `kind` it is: tasks of a kind are never on both sides."""

    task: TaughtTask
    kind: str
    target: str
    times: TaskTimes


def judge_held_out(tasks: Sequence[KindOfTask], make: Train = train) -> list[Judgement]:
    """The judgement of every task that has enough candidates, by a model trained on the tasks of other kinds."""
    found = []
    for kind in dict.fromkeys(task.kind for task in tasks):
        judged = [task for task in tasks if task.kind == kind and can_judge(task.times)]
        if judged:
            model = make([task.times for task in tasks if task.kind != kind])
            found += [judge_task(task, model) for task in judged]
    return found


def can_judge(times: TaskTimes) -> bool:
    """Whether a task has enough candidates with a time."""
    return int(has_time(times).sum()) >= LEAST_JUDGED_CANDIDATES


def has_time(times: TaskTimes) -> Flags:
    """Whether each of a task's measurements is a time: neither a failure nor a lower bound."""
    found: Flags = np.isfinite(times.seconds) & ~times.bounds
    return found


def judge_task(task: KindOfTask, model: TrainedModel) -> Judgement:
    """How well a trained model ranks a task's candidates that have a time."""
    times = task.times.select(np.flatnonzero(has_time(task.times)))
    score = CostModel(0, model).predict(times.features)
    return judge(task.task.name, score, np.exp2(-score), times.seconds)


def train_on_all(tasks: Sequence[KindOfTask], date: str, versions: str, make: Train = train) -> TrainedModel:
    """A model of all tasks, whose text says what they were, and how well others were ranked without their own kind."""
    judged = judge_held_out(tasks, make)
    found = figures(judged) if judged else {}
    known = tuple(
        (name, float(f"{found[name]:.5g}")) for name in KEPT_FIGURES if not isnan(found.get(name, float("nan")))
    )
    made = make([task.times for task in tasks])
    facts = TrainingFacts(
        tuple(task.task for task in tasks),
        tuple(dict.fromkeys(task.target for task in tasks)),
        date,
        versions,
        digest(tasks),
        known,
        made.facts.gains,
    )
    return replace(made, facts=facts)


def adapt_model(base: TrainedModel, tasks: Sequence[TaskTimes]) -> TrainedModel:
    """A model with the trees of another, whose leaves the measurements of some tasks have moved."""
    timed = [task for task in tasks if np.isfinite(task.seconds).any()]
    if not timed:
        return base
    made = base.with_values(leaves_after_others(base, timed, MOST_ADAPTING_MEASUREMENTS))
    left = [task.common_part(residual(task, made)) for task in timed]
    return replace(made, offset=made.offset + float(np.median(left)))


def digest(tasks: Sequence[KindOfTask]) -> str:
    """A hash of what was measured, which does not depend on features."""
    found = hashlib.sha256()
    for task in tasks:
        found.update(f"{task.task.program_hash} {task.kind} {task.times.seconds.tolist()}\n".encode())
    return found.hexdigest()[:16]
