"""Tuning from scratch, in a database that nobody keeps."""

from __future__ import annotations

import tempfile

import metasched as ms
from benchmarks.workloads import WORKLOADS
from metasched.search.arms.space_arms import SpaceArms


def program(workload: str) -> ms.Program:
    spec = WORKLOADS[workload]
    return ms.load_program(spec.file, **spec.params)


def tuned_kernel(workload: str, trials: int, seed: int, threads: int) -> ms.Kernel[ms.TuningReport]:
    """The best kernel of a fresh run on a workload."""
    return tune_program(program(workload), trials, seed, threads)


def tune_program(
    program: ms.Program, trials: int, seed: int, threads: int, rules: str | None = None
) -> ms.Kernel[ms.TuningReport]:
    """The best kernel of a fresh run, by the rules that are named, or the default ones."""
    with tempfile.TemporaryDirectory() as folder:
        return ms.tune(
            program,
            trials=trials,
            db=f"sqlite:///{folder}/records.db",
            seed=seed,
            rules=rules,
            target=ms.Target.detect(threads=threads),
        )


def tuned_trace(workload: str, trials: int, seed: int, threads: int) -> str:
    return str(tuned_kernel(workload, trials, seed, threads).trace)


def open_space(workload: str, threads: int) -> SpaceArms:
    """Its space as a search sees it."""
    return SpaceArms(ms.space(program(workload)), ms.Target.detect(threads=threads))
