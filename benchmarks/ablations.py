"""Ablations: what each part of a search is worth, on the frozen table and, for limited spaces, by tuning.

On the table (`benchmarks.contest`), where the best time after 16 to 128 codes and the seconds of search are told:

- *steps*: the default strategy, without its steps, and with nothing else
- *models*: the strategy `evolutionary` (as in all that follow) with no model, the roofline, a model from nothing, one
  of other families, the installed
- *crossing*: none of numbers, none of structures, none at all
- *diversity*: batches that are the best by score, whatever they are like
- *evolution*: against random rows that the model picks from (Ansor's "no fine-tuning", Zheng et al. 2020, figure 7),
  and against random search
- *templates*: one structure alone, as a template has it: the first of the space, and the best in hindsight

`--live` tunes in limited spaces instead: by the rules that TVM has too, in one structure of those, and in ours; all of
them without a guess, and with nothing known beforehand. Options are those of `strategies`; `--models` takes parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import metasched as ms
from benchmarks.contest.described import Table
from benchmarks.contest.figures import table
from benchmarks.contest.frozen import TableArms
from benchmarks.contest.live import Way, live
from benchmarks.contest.models import MODELS, TRANSFERRED
from benchmarks.contest.tournament import Contestant
from benchmarks.registry import OptionError, Options, Result
from benchmarks.strategies import looks_of, play_tournament
from metasched.search.rounds.round import Round
from metasched.search.rounds.structure_breeding import StructureConfig
from metasched.search.space_protocol import Candidate, Strategy
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategy_registry import STRATEGIES, StrategyInputs
from metasched.space.conditions import SpaceLike

WHOLE = "evolutionary"
# The rules of ours that TVM's default list for CPUs has, too (MetaSchedule's AutoInline, AddRFactor, MultiLevelTiling,
# RandomComputeLocation and ParallelizeVectorizeUnroll).
TVM_RULES = "inline,rfactor,multi_level_tiling,compute_location,parallelize,vectorize,unroll"
OURS = "our rules"
_NO_NEW = replace(StructureConfig(), bred=0)


def whole_search(given: StrategyInputs) -> Strategy:
    """The evolutionary search as it is."""
    return _evolution(given, EvolutionConfig())


def no_crossing(given: StrategyInputs) -> Strategy:
    """Children have one parent."""
    return _evolution(given, EvolutionConfig(cross=0.0, structures=replace(StructureConfig(), cross=0.0)))


def no_crossing_of_numbers(given: StrategyInputs) -> Strategy:
    """Children of rows have one parent."""
    return _evolution(given, EvolutionConfig(cross=0.0))


def no_crossing_of_structures(given: StrategyInputs) -> Strategy:
    """New structures have one parent."""
    return _evolution(given, EvolutionConfig(structures=replace(StructureConfig(), cross=0.0)))


def no_fine_tuning(given: StrategyInputs) -> Strategy:
    """The model picks from random rows of random structures; nothing is bred."""
    return _evolution(given, EvolutionConfig(generations=0, elite=0, structures=_NO_NEW))


def no_diversity(given: StrategyInputs) -> Strategy:
    """A batch is what has the highest scores, whatever it is like; nothing is picked at random or for being new."""
    return Greedy(given.arms, given.model, given.seed, EvolutionConfig(explore=0.0), phases=given.phases)


class Greedy(Evolution):
    """An evolution whose batches are the rows with the highest scores."""

    def look(self, now: Round, count: int) -> list[Candidate]:
        super().look(now, 0)
        found, _ = now.pool.shortlist(count)
        return found


def _evolution(given: StrategyInputs, config: EvolutionConfig) -> Strategy:
    return Evolution(given.arms, given.model, given.seed, config, phases=given.phases)


def first_structure(table_: Table) -> Table:
    """The structure alone that searches begin with."""
    first = TableArms(table_).first()
    assert first is not None
    return replace(table_, structures=(table_.structures[first],))


def best_structure(table_: Table) -> Table:
    """The structure alone that the fastest code has: what nobody knows beforehand."""
    best = min(table_.structures, key=lambda one: float(one.seconds.min()))
    return replace(table_, structures=(best,))


def parts() -> Mapping[str, tuple[Contestant, ...]]:
    """The ablations on the table: who plays in each, the first as it is by default."""
    as_it_is = Contestant(WHOLE, whole_search)
    return {
        "steps": tuple(
            Contestant(name, STRATEGIES.get(name))
            for name in ("evolutionary_with_steps", "evolutionary_no_crossover", "droplet")
        ),
        "models": tuple(Contestant(name, whole_search, name) for name in reversed(MODELS)),
        "crossing": (
            as_it_is,
            Contestant("no crossing of numbers", no_crossing_of_numbers),
            Contestant("no crossing of structures", no_crossing_of_structures),
            Contestant("no crossing", no_crossing),
        ),
        "diversity": (as_it_is, Contestant("batches of the highest scores", no_diversity)),
        "evolution": (
            as_it_is,
            Contestant("no fine-tuning: the model picks among draws", no_fine_tuning),
            Contestant("random", STRATEGIES.get("random")),
        ),
        "templates": (
            as_it_is,
            Contestant("the best structure alone, in hindsight", whole_search, TRANSFERRED, best_structure),
            Contestant("the first structure alone", whole_search, TRANSFERRED, first_structure),
        ),
    }


def run(options: Options) -> Iterator[Result]:
    """A line for each way of each part, the best first, and a table of each; live, as `strategies --live`."""
    if options.live:
        yield from live(limited_spaces(), OURS, options)
        return
    known = parts()
    unknown = sorted(set(options.models) - known.keys())
    if unknown:
        raise OptionError(f"no part `{unknown[0]}` of the ablations: there are {', '.join(known)}")
    for part, contestants in known.items():
        if not options.models or part in options.models:
            yield from _of_part(part, contestants, options)


def _of_part(part: str, contestants: Sequence[Contestant], options: Options) -> Iterator[Result]:
    title = f"{part}: best time over the best known, geometric mean of the tasks, by codes measured"
    lines = play_tournament(contestants, options, contestants[0].name, title, f"ablation-{part}.svg")
    for line in lines:
        yield {**line, "case": f"{part}: {line['case']}"}
    yield {"case": f"{part}, table", "table": table(lines, looks_of(options))}


def limited_spaces() -> Mapping[str, Way]:
    """The spaces that are compared by tuning."""
    return {
        OURS: Way(guess=False),
        "TVM's rules": Way(space_of=lambda program, target: TVM_RULES, guess=False),
        "a template": Way(space_of=_template, guess=False),
    }


def _template(program: ms.Program, target: ms.Target) -> SpaceLike:
    """The first structure that TVM's rules make: only its numbers are searched."""
    return ms.space(program, rules=TVM_RULES, target=target)[0].trace
