"""Knowledge for a CPU that is not at hand: `python -m benchmarks.knowledge.expected --only OPERATOR,...`.

Of each size, what long searches by the cost model alone and what is known of other sizes give is compared by that
model. Few structures, so that each size has one within 6 % of its best, go into the file with the times that are
expected. Sizes that it has for such a CPU are passed over. By default the CPU is that of the times of tensor
instructions.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.knowledge.from_networks import SHIPPED
from benchmarks.knowledge.sizes import AnySize, sizes
from benchmarks.yardstick.data import TENSOR_DATA, read_tasks
from metasched.cost.core import default_core
from metasched.cost.learning.trained import read_shipped_model
from metasched.cost.model import CostModel
from metasched.errors import ScheduleError
from metasched.ir.program import Program
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.distill import describe_trace, merge_entries
from metasched.knowledge.entries import Decisions, Entry, print_entries
from metasched.knowledge.library import Knowledge, cpu_of, read_file
from metasched.schedule.trace import Trace
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.guesses.expert_guess import obstacle_to
from metasched.search.rounds.structure_breeding import StructureConfig
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.space.conditions import space_of
from metasched.space.space import DEFAULT_MAX_SKETCHES
from metasched.target import Target

# Twice of what a guess looks at.
_LONG_EVOLUTION = EvolutionConfig(population=3072, structures=StructureConfig(structures=16, bred=8))
# Of each search: the best of several structures are among them.
_PROPOSED = 48
# How many times the time of the best a structure may take that is known of more sizes.
_NEAR_BEST = 1.06


@dataclass(frozen=True)
class Found:
    """What is expected of a size: an entry of each structure, and why others were refused, how often."""

    entries: Sequence[Entry]
    refused: Mapping[str, int]


def expected_entries(size: AnySize, target: Target, known: Knowledge, seeds: int) -> Found:
    """The best of each structure that is found for a size, with the time that is expected."""
    program = size.program()
    found: dict[Decisions, Entry] = {}
    refused: Counter[str] = Counter()
    for trace, seconds in _scored_traces(program, target, known, seeds):
        entry = describe_trace(program, trace, target, seconds)
        if entry is None or (entry.structure in found and found[entry.structure].microseconds <= entry.microseconds):
            continue
        obstacle = _obstacle(program, trace, target)
        if obstacle is None:
            found[entry.structure] = entry
        else:
            refused[obstacle] += 1
    return Found(list(found.values()), refused)


def _scored_traces(program: Program, target: Target, known: Knowledge, seeds: int) -> Iterator[tuple[Trace, float]]:
    """Traces of a program's space, with the seconds that the shipped model expects."""
    core = default_core(target)
    for seed in range(seeds):
        space = space_of(program, None, target=target, max_sketches=DEFAULT_MAX_SKETCHES, seed=seed)
        arms, model = SpaceArms(space, target, core, known), CostModel(seed, read_shipped_model())
        yield from ((one.trace, 2.0**-one.score) for one in arms.transfer_result if seed == 0)
        evolution = Evolution(arms, model, seed, _LONG_EVOLUTION)
        for one in evolution.propose(_PROPOSED):
            (score,) = model.predict(arms[one.arm].features(np.array([one.row], np.int64).reshape(1, -1)))
            yield arms.trace_of(one), 2.0 ** -float(score)


def _obstacle(program: Program, trace: Trace, target: Target) -> str | None:
    """Why a trace's program does not run on the target, if it does not."""
    try:
        return obstacle_to(trace.apply_to(program).func, target)
    except ScheduleError as error:
        return error.reason


def with_few_structures(found: Sequence[Sequence[Entry]]) -> Iterator[Entry]:
    """An entry of each size, which is near its best, of as few structures as possible."""
    near: list[Mapping[Decisions, Entry]] = []
    for entries in found:
        least = min((entry.microseconds for entry in entries), default=0.0)
        near.append({e.structure: e for e in entries if e.microseconds <= _NEAR_BEST * least})
    left = [of_size for of_size in near if of_size]
    while left:
        (structure, _), *_ = Counter(key for of_size in left for key in of_size).most_common(1)
        yield from (of_size[structure] for of_size in left if structure in of_size)
        left = [of_size for of_size in left if structure not in of_size]


def _is_known(size: AnySize, target: Target, known: Knowledge) -> bool:
    """Whether there is something for this very size and kind of CPU."""
    anchor = anchor_of(size.program().func)
    wanted = anchor.kind, cpu_of(target), anchor.extents, anchor.steps
    return any((e.kind, e.cpu, e.extents, e.steps) == wanted for e in known.entries)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.knowledge.expected", description=__doc__)
    timed = next(iter(read_tasks(TENSOR_DATA))).target
    parser.add_argument("--only", required=True, metavar="NAME,...", help="sizes of these operators")
    parser.add_argument("--target", default=timed, metavar="TARGET", help="a target's text (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="searches of a size (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=SHIPPED, metavar="FILE", help="default: %(default)s")
    args = parser.parse_args()
    wanted = args.only.split(",")
    known = Knowledge(tuple(read_file(args.out)) if args.out.exists() else ())
    target, entries = Target.parse(args.target), list[Entry]()
    with ProcessPoolExecutor(args.processes, multiprocessing.get_context("spawn")) as pool:
        find = partial(expected_entries, target=target, known=known, seeds=args.seeds)
        for operator in wanted:
            chosen = [s for s in sizes() if s.operator == operator and not _is_known(s, target, known)]
            found = list(pool.map(find, chosen))
            entries += (made := list(with_few_structures([of_size.entries for of_size in found])))
            print(f"{operator}: {len(made)} sizes, {len({entry.structure for entry in made})} structures", flush=True)
            for reason, times in sum((Counter(of_size.refused) for of_size in found), Counter[str]()).most_common():
                print(f"  refused {times} times: {reason}", flush=True)
    merged = merge_entries(known.entries, entries)
    args.out.write_text(print_entries(merged), encoding="utf-8")
    print(f"{len(merged)} entries in {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
