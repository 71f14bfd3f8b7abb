"""What was found for the nearest programs of the same kind, carried over to a space before anything is measured.

A neighbour's decisions go to the random variables of the same address, once the names in both are told by what they are
to the anchor. Structure that is not possible here becomes the first option, numbers are repaired in the order of their
variables (a tile keeps its inner factors as far as they fit), numbers that the neighbour lacks are drawn, and all of it
is varied a little. What came of each neighbour is ranked by the cost model.

A neighbour's program may have ended with the anchor: it could not decide where what follows is computed. So options
that no such program had are tried for the best, with its numbers. So are those of a rule that left its block alone, and
that the neighbour's space did not have; and where much of the time is expected beside the main statement, the best is
tried without what each choice added, such as a copy that pays only where it is read often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from math import inf, log2
from typing import overload

import numpy as np

from metasched.cost.baseline import analytic_score, share_beside
from metasched.cost.core import Core
from metasched.cost.expectation import least_cycles, least_vector_cycles
from metasched.cost.features import Features
from metasched.cost.learning.trained import read_shipped_model
from metasched.cost.model import CostModel
from metasched.cost.program.nest import Analyses
from metasched.errors import ScheduleError
from metasched.knowledge.anchor import Anchor, anchor_of
from metasched.knowledge.library import Knowledge, Neighbour, cpu_of
from metasched.knowledge.roles import Roles
from metasched.lang.decisions import decision_text
from metasched.lang.instructions import Decision, Ref
from metasched.schedule.kinds import ROOT
from metasched.schedule.tensor import intrinsics
from metasched.schedule.trace import Trace
from metasched.search.arms.reduction_parts import ReductionPart, further_parts
from metasched.search.arms.sketch_arm import SketchArm
from metasched.search.arms.transferred_numbers import LEAST_GAIN, ScoredRow, WantedNumbers, best_rows
from metasched.space.rule import LEFT_ALONE, NONE
from metasched.space.sketch import Sketch
from metasched.space.space import Space
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.target import Target

# The neighbours that are looked at, and the structures made of theirs. What is analysed is a structure: further numbers
# for it cost little (guesses for 144 layers take as long with 16 neighbours as with 8).
MOST_NEIGHBOURS = 16
MOST_STRUCTURES = 3
# In factors of two of a size: what was measured so near is taken as it is, without a look at what it might do without.
NEAR_DISTANCE = 1.5
# How many times as fast as what was measured near what was measured further away has to be expected. Other numbers are
# not taken for it, but where none of its own are legal: of eight programs of a layer of 12544 pixels of 16 bytes to 96
# channels, four with larger tiles were expected to take .95 of the time of what was measured near, and took 1.2 to 1.6;
# of depthwise convolutions, such with twice the sums in registers .9, and took 1.4 to 1.7.
GAIN_OVER_NEAR = 1.1
# What each factor of two counts that something near was measured away, in factors of two of the time expected: what is
# expected of such differs by more than what they take.
COST_OF_DISTANCE = 0.15
# How often rows around the best so far are drawn: more than one number has to change where the sizes of this program
# leave the neighbour's tiles in part. At 17 sizes of 3 x 3 convolutions, 4 rounds took .96 of the time of one (.72 to
# 1.03), and 12 no less. At 12 depthwise convolutions, which are short, estimates are too far off: 4 took 1.04 of
# the time of one. For a neighbour of a CPU with other vectors, register tiles have another shape.
_VARYING_ROUNDS = 4
_LONG_CYCLES = 2e5  # cycles at the peak of arithmetic
_ROUNDS_OF_OTHER_VECTORS = 8
# How many options are tried that no neighbour could have: for what follows the anchor, and of newer rules.
_MOST_UNSEEN = 4
# Numbers of a structure that are tried with another option of a choice.
_MOST_ALIKE = 4
# Rows that are drawn for another option of a choice, which may bring many numbers, and rounds of rows around the best:
# few have good sizes of strips and of the tiles in them together. With 32 and 4 rounds, of which the first without a
# gain was the last, four blocks of MobileNet-v2 with a batch of 16 were expected to be faster apart, and took 1.4 to
# 2.2 of the time that they take in strips. Guesses for 260 tasks take 1.07 of the time to make.
_DRAWN_FOR_OPTION = 256
_CLIMBS_FOR_OPTION = 16
# The share of the time expected beside the heaviest statement, from which on a structure is tried with less.
_MUCH_BESIDE = 0.25
# Why a neighbour is left out, where no step of it is illegal.
ENOUGH_STRUCTURES = f"nearer ones had {MOST_STRUCTURES} other structures"
_NO_NUMBERS = "no numbers near its own are legal"


@dataclass(frozen=True)
class TransferredDecisions:
    """A neighbour's decisions as a candidate of another space.

    `score` is -log2 of the seconds that the model expects. `dropped` are the addresses, as in the neighbour, of
    decisions that have no place here, each with the reason; `decided` are those of its structural ones and of those
    that are given, as here. `forced` are the structural choices that have one option here.
    """

    neighbour: Neighbour
    sketch: Sketch
    row: tuple[int, ...]
    score: float
    dropped: tuple[tuple[str, str], ...]
    decided: frozenset[str]
    forced: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether the neighbour decided all of the structure: else its space was another, and so may its time be.

        A block that stays where it is, at the root, or that a rule leaves alone, is as in a space without this
        decision, and a choice of one option leaves nothing open.
        """
        left = self.sketch.structure.keys() - self.decided - self.forced
        return all(self.sketch.structure[address] in (Ref(ROOT), LEFT_ALONE) for address in left)

    @property
    def is_near(self) -> bool:
        """Whether all of the structure was measured, at a size and on a CPU near these."""
        return self.is_whole and self.neighbour.distance <= NEAR_DISTANCE

    @property
    def name(self) -> str:
        """The size that it was found for."""
        return self.neighbour.name

    @cached_property
    def trace(self) -> Trace:
        return self.sketch.trace_of(self.row)

    def __str__(self) -> str:
        lines = [f"found for {self.name} of {self.neighbour.entry.kind}"]
        return "\n".join([*lines, *(f"dropped {address}: {reason}" for address, reason in self.dropped)])


@dataclass(frozen=True)
class TransferResult(Sequence[TransferredDecisions]):
    """What was carried over, the most promising first, and the neighbours left out, each with the reason."""

    found: tuple[TransferredDecisions, ...] = ()
    left_out: tuple[tuple[Neighbour, str], ...] = ()

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, place: int) -> TransferredDecisions: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[TransferredDecisions, ...]: ...
    def __getitem__(self, place: int | slice) -> TransferredDecisions | tuple[TransferredDecisions, ...]:
        return self.found[place]

    @property
    def reasons(self) -> Counter[str]:
        """How many neighbours were left out for each reason."""
        return Counter(reason for _, reason in self.left_out)


def transferred_into(
    space: Space, knowledge: Knowledge, target: Target, core: Core, analyses: Analyses | None = None
) -> TransferResult:
    """What the nearest neighbours' decisions become in a space, each candidate once.

    `analyses` are of statements of other structures of the space; those made here are added.
    """
    if not knowledge.entries:
        return TransferResult()
    anchor = anchor_of(space.program.func)
    parts = further_parts(space.program, anchor) if space.source.rules else ()
    others = _known_of_others((p, transferred_into(space.of_part(p.program), knowledge, target, core)) for p in parts)
    made = _Transferring(space, anchor, others, target, core, analyses)
    tried = made.transfer_all(made.alike(knowledge.by_distance(anchor, target), knowledge)[:MOST_NEIGHBOURS])
    found = [one for _, one in tried if isinstance(one, TransferredDecisions)]
    if found:
        ordered = sorted(found, key=_sort_key)
        found += [*made.with_what_follows(ordered[0], knowledge), *made.with_what_is_new(ordered)]
        found += made.with_less(sorted(found, key=_sort_key))
    ranked = sorted(found, key=_sort_key)
    once: dict[str, TransferredDecisions] = {}
    for one in ranked:
        once.setdefault(str(one.trace), one)
    return TransferResult(tuple(once.values()), tuple((near, one) for near, one in tried if isinstance(one, str)))


@dataclass(frozen=True)
class _KnownOfOthers:
    """What is known of the reductions besides the anchor: decisions by a program's own addresses."""

    structure: Mapping[str, Decision]
    numbers: Mapping[str, Decision]


def _known_of_others(known: Iterable[tuple[ReductionPart, TransferResult]]) -> _KnownOfOthers:
    """The most promising of what is known of each part alone, together."""
    structure: dict[str, Decision] = {}
    numbers: dict[str, Decision] = {}
    for part, transferred in known:
        for best in transferred[:1]:
            structure |= part.decisions({a: said for a, said in best.sketch.structure.items() if a in best.decided})
            numbers |= part.decisions(best.sketch.decisions(best.row))
    return _KnownOfOthers(structure, numbers)


def _sort_key(one: TransferredDecisions) -> tuple[float, float]:
    """The most promising is least."""
    further = 0.0 if one.is_near else log2(GAIN_OVER_NEAR)
    return further + COST_OF_DISTANCE * min(one.neighbour.distance, NEAR_DISTANCE) - one.score, one.neighbour.distance


@dataclass(frozen=True)
class _Placed:
    """A neighbour with a structure of the space, and its decisions here; `dropped` have no place."""

    neighbour: Neighbour
    arm: SketchArm
    structure: Mapping[str, Decision]
    numbers: Mapping[str, Decision]
    dropped: tuple[tuple[str, str], ...]


class _Transferring:
    """Carries neighbours over to one space; a structure is made once."""

    def __init__(
        self,
        space: Space,
        anchor: Anchor,
        others: _KnownOfOthers,
        target: Target,
        core: Core,
        analyses: Analyses | None,
    ) -> None:
        self._space = space
        self._others = others
        self._roles = Roles.of(space.program.func, anchor)
        self._target = target
        self._core = core
        self._analyses = analyses
        self._model = CostModel(0, read_shipped_model())
        self._sketches: dict[frozenset[tuple[str, Decision]], Sketch | str] = {}
        self._arms: dict[Trace, SketchArm] = {}
        self._rounds = _VARYING_ROUNDS if least_cycles(space.program.func, target, core) >= _LONG_CYCLES else 1

    def alike(self, neighbours: Sequence[Neighbour], knowledge: Knowledge) -> Sequence[Neighbour]:
        """Of neighbours that the target can run, with the tensor intrinsics that it has, those that had the same choice
        of one first as there is here; all, if none had.

        What was found without tiles, say, knows no numbers of them, nor how they compare, and with tiles not of dots.
        """
        neighbours = [own for own in map(self._with_own_intrinsics, neighbours) if own is not None]
        by_choice: dict[str | None, list[Neighbour]] = {}
        for near in neighbours:
            decided = (address for address, _ in near.entry.structure)
            by_choice.setdefault(knowledge.first_intrinsic_choice(decided), []).append(near)
        if len(by_choice) <= 1:
            return neighbours
        wanted = (self._translate_decisions(near.entry.structure)[0] for near in neighbours)
        sketches = (self._sketch_as_there({**self._others.structure, **structure}) for structure in wanted)
        legal = next((sketch for sketch in sketches if isinstance(sketch, Sketch)), None)
        if legal is None:
            return neighbours
        offered = knowledge.first_intrinsic_choice(map(self._roles.general_address, legal.structure))
        return by_choice.get(offered, neighbours)

    def _with_own_intrinsics(self, near: Neighbour) -> Neighbour | None:
        """A neighbour with what the target has of the form of each of its tensor intrinsics; None where it lacks one.

        What was found for vectors of another size is no more than a beginning, but of the same instruction.
        """
        structure = [(address, self._own_intrinsic(decision)) for address, decision in near.entry.structure]
        decided = tuple((address, decision) for address, decision in structure if decision is not None)
        if len(decided) < len(structure):
            return None
        return near if decided == near.entry.structure else replace(near, entry=replace(near.entry, structure=decided))

    def _own_intrinsic(self, decision: Decision) -> Decision | None:
        """A decision, or the target's intrinsic of the form of one that is decided; None where it has none."""
        taken = intrinsics().get(decision) if isinstance(decision, str) else None
        if taken is None:
            return decision
        forms = [one for one in (taken, *intrinsics().values()) if one.form == taken.form]
        return next((one.name for one in forms if all(map(self._target.has, one.features))), None)

    def transfer_all(self, neighbours: Sequence[Neighbour]) -> list[tuple[Neighbour, TransferredDecisions | str]]:
        """The candidate of each, or the reason where there is none: what of it is not legal, or that there are enough
        others.
        """
        placed = [(near, self._place_neighbour(near)) for near in neighbours]
        found: dict[int, TransferredDecisions | str] = {
            n: one for n, (_, one) in enumerate(placed) if isinstance(one, str)
        }
        by_arm: dict[SketchArm, list[tuple[int, _Placed]]] = {}
        for n, (_, one) in enumerate(placed):
            if isinstance(one, _Placed):
                by_arm.setdefault(one.arm, []).append((n, one))
        for arm, of_arm in by_arm.items():
            best = best_rows(arm, self._model, [self._wanted_numbers(one) for _, one in of_arm])
            for (n, one), row in zip(of_arm, best, strict=True):
                found[n] = _NO_NUMBERS if row is None else self._candidate(one, row)
        return [(near, found[n]) for n, (near, _) in enumerate(placed)]

    def with_what_follows(self, best: TransferredDecisions, knowledge: Knowledge) -> list[TransferredDecisions]:
        """A candidate with each option that no program has had which ended with the anchor, as its neighbour's did."""
        if not self._roles.follows or best.neighbour.entry.is_followed:
            return []
        unseen = islice(self._unseen_options(best, knowledge), _MOST_UNSEEN)
        why = "its program ended with the anchor"
        return [one for option in unseen for _, one in self._with_option([best], option, 0, why)]

    def with_what_is_new(self, ranked: Sequence[TransferredDecisions]) -> list[TransferredDecisions]:
        """What was found with the structure of the best whose neighbour did not know of a choice where a rule left its
        block alone, or decided one as it is not offered here, with other options of that: of several choices each with
        what is best of those before.
        """
        best, new = next(((one, new) for one in ranked if (new := self._new_to(one))), (None, {}))
        if best is None:
            return []
        found: list[TransferredDecisions] = []
        alike = [one for one in ranked if one.sketch is best.sketch][:_MOST_ALIKE]
        for address, why in new.items():
            taken = alike[0].sketch.structure
            options = self._space.options_near(taken).get(address, ())
            others = [option for option in options if option != taken.get(address, option)]
            for option in others[: max(_MOST_UNSEEN // len(new), 1)]:
                pairs = self._with_option(alike, (address, option), self._rounds, why)
                found += (tried := [self._by_estimate(*pair) for pair in pairs])
                if tried and min(map(_sort_key, tried)) < _sort_key(alike[0]):
                    alike = sorted(tried, key=_sort_key)
        return found

    def with_less(self, ranked: Sequence[TransferredDecisions]) -> list[TransferredDecisions]:
        """The best without what each of its choices added, where much time is expected beside its main statement."""
        alike = [one for one in ranked if one.sketch is ranked[0].sketch][:_MOST_ALIKE]
        if any(one.is_near and one.neighbour.entry.is_followed for one in ranked):
            return []  # What is beside the main statement was measured there.
        if share_beside(self._features(alike[:1]))[0] < _MUCH_BESIDE:
            return []
        taken = alike[0].sketch.structure
        offered = self._space.options_near(taken)
        needed = self._needed_intrinsics(alike[0])
        less = (
            (a, o)
            for a, own in taken.items()
            for o in offered.get(a, ())
            if o in (NONE, LEFT_ALONE) and o != own and own not in needed
        )
        why = "much of the time is beside the main statement"
        pairs = chain.from_iterable(self._with_option(alike, option, self._rounds, why) for option in less)
        return [self._by_estimate(before, after) for before, after in pairs]

    def _needed_intrinsics(self, one: TransferredDecisions) -> frozenset[Decision]:
        """The tensor intrinsics, all or none: whether vectors alone would take longer than all of a candidate."""
        in_vectors = least_vector_cycles(self._space.program.func, self._target, self._core)
        expected = np.exp2(-analytic_score(self._features([one]))[0])
        return frozenset(intrinsics()) if in_vectors > expected else frozenset()

    def _new_to(self, one: TransferredDecisions) -> dict[str, str]:
        """The choices where a rule left its block alone that a candidate's neighbour did not have, and those that it
        decided in another way, and why each is one of them."""
        known = {address for address, _ in one.neighbour.entry.structure}
        wanted, _ = self._translate_decisions(one.neighbour.entry.structure)
        found = {}
        for address, taken in one.sketch.structure.items():
            if taken == LEFT_ALONE and self._roles.general_address(address) not in known:
                found[address] = "the neighbour is older than this choice"
            elif wanted.get(address, taken) != taken:
                found[address] = "what the neighbour decided is not offered here"
        return found

    def _with_option(
        self, alike: Sequence[TransferredDecisions], option: tuple[str, Decision], rounds: int, why: str
    ) -> Iterator[tuple[TransferredDecisions, TransferredDecisions]]:
        """Candidates of one structure, each with what it is with another option of a structural choice: its numbers, or
        some near them.
        """
        address, taken = option
        sketch = self._sketch({**alike[0].sketch.structure, address: taken})
        if isinstance(sketch, str):
            return
        more = {"drawn": _DRAWN_FOR_OPTION, "climbs": _CLIMBS_FOR_OPTION}
        wanted = [WantedNumbers(self._numbers_of(one), rounds, **more) for one in alike]
        for one, best in zip(alike, best_rows(self._arm_of(sketch), self._model, wanted), strict=True):
            if best is not None:
                dropped = (*one.dropped, (address, f"{why}; {decision_text(taken)} is tried here"))
                row, decided = tuple(map(int, best.row)), one.decided | {address}
                forced = self._forced_choices(sketch)
                made = replace(one, sketch=sketch, row=row, score=best.score, dropped=dropped, decided=decided)
                yield one, replace(made, forced=forced)

    def _numbers_of(self, one: TransferredDecisions) -> dict[str, Decision]:
        """The numbers of a candidate, also by the addresses that they have where another structure has the same loops
        under other names."""
        own = one.sketch.decisions(one.row)
        general = {self._roles.general_address(address): number for address, number in own.items()}
        return {name: number for said, number in general.items() for name in self._roles.own_texts(said)} | own

    def _by_estimate(self, before: TransferredDecisions, after: TransferredDecisions) -> TransferredDecisions:
        """What a choice makes of a candidate, scored by what it gains by the estimate: the model has learned from no
        program, or from few, in which it was taken.
        """
        without, with_it = analytic_score(self._features((before, after))).tolist()
        return replace(after, score=before.score + with_it - without)

    def _features(self, several: Sequence[TransferredDecisions]) -> Features:
        return np.concatenate([self._arm_of(one.sketch).features(np.array([one.row], np.int64)) for one in several])

    def _unseen_options(self, best: TransferredDecisions, knowledge: Knowledge) -> Iterator[tuple[str, Decision]]:
        """The options of choices that a neighbour decided, and that only programs have in which something follows."""
        options = self._space.options_near(best.sketch.structure)
        for address, _ in best.neighbour.entry.structure:
            seen = knowledge.of_last_anchors.get(address, frozenset())
            for own in self._roles.own_texts(address):
                said = {self._roles.own_decision(decision) for decision in seen}
                said.add(best.sketch.structure.get(own))
                yield from ((own, o) for o in options.get(own, ()) if isinstance(o, str) and o not in said)

    def _place_neighbour(self, neighbour: Neighbour) -> _Placed | str:
        structure, elsewhere = self._translate_decisions(neighbour.entry.structure)
        numbers, without = self._translate_decisions(neighbour.entry.numbers)
        structure = {**self._others.structure, **structure}
        numbers = {**self._others.numbers, **numbers}
        if len(self._arms) == MOST_STRUCTURES and frozenset(structure.items()) not in self._sketches:
            return ENOUGH_STRUCTURES
        sketch = self._sketch_as_there(structure)
        if isinstance(sketch, str):
            return sketch
        arm = self._arm(sketch)
        return ENOUGH_STRUCTURES if arm is None else _Placed(neighbour, arm, structure, numbers, (*elsewhere, *without))

    def _wanted_numbers(self, placed: _Placed) -> WantedNumbers:
        other_vectors = placed.neighbour.entry.cpu.lanes != cpu_of(self._target).lanes
        rounds = _ROUNDS_OF_OTHER_VECTORS if other_vectors else self._rounds
        gain = inf if placed.neighbour.distance <= NEAR_DISTANCE else LEAST_GAIN
        return WantedNumbers(placed.numbers, rounds, gain)

    def _candidate(self, placed: _Placed, best: ScoredRow) -> TransferredDecisions:
        neighbour, sketch, structure = placed.neighbour, placed.arm.sketch, placed.structure
        dropped = (*placed.dropped, *self._unmet_decisions(neighbour, sketch, {**structure, **placed.numbers}))
        decided = structure.keys() | self._space.given.keys()
        row, forced = tuple(map(int, best.row)), self._forced_choices(sketch)
        return TransferredDecisions(neighbour, sketch, row, best.score, dropped, frozenset(decided), forced)

    def _forced_choices(self, sketch: Sketch) -> frozenset[str]:
        """The structural choices of a sketch that have one option."""
        options = self._space.options_near(sketch.structure)
        return frozenset(address for address, offered in options.items() if len(offered) == 1)

    def _translate_decisions(
        self, decisions: Sequence[tuple[str, Decision]]
    ) -> tuple[dict[str, Decision], list[tuple[str, str]]]:
        """Decisions by this program's addresses, and those that it has no names for."""
        own: dict[str, Decision] = {}
        dropped: list[tuple[str, str]] = []
        for address, decision in decisions:
            names = list(self._roles.own_texts(address))
            said = self._roles.own_decision(decision)
            if names and said is not None:
                own |= dict.fromkeys(names, said)
            else:
                dropped.append((address, "the program has nothing in this place"))
        return own, dropped

    def _sketch_as_there(self, structure: Mapping[str, Decision]) -> Sketch | str:
        """The sketch nearest to a structure; rules that it does not know of leave their blocks alone."""
        sketch = self._sketch(structure)
        if isinstance(sketch, str):
            return sketch
        unknown = sketch.structure.keys() - structure.keys() - self._space.given.keys()
        options = self._space.options_near(structure) if unknown else {}
        left = {address: LEFT_ALONE for address in unknown if LEFT_ALONE in options.get(address, ())}
        found = self._sketch({**structure, **left}) if left else sketch
        return sketch if isinstance(found, str) else found

    def _sketch(self, structure: Mapping[str, Decision]) -> Sketch | str:
        """The sketch nearest to a structure, or the reason why a step of it is not legal."""
        key = frozenset(structure.items())
        if key not in self._sketches:
            try:
                self._sketches[key] = self._space.sketch_near(structure)
            except ScheduleError as error:  # a place that is not legal with these others
                self._sketches[key] = error.reason
        return self._sketches[key]

    def _arm(self, sketch: Sketch) -> SketchArm | None:
        """The arm of a sketch; None where there are enough others, as each takes a while to analyse."""
        if sketch.trace not in self._arms and len(self._arms) == MOST_STRUCTURES:
            return None
        return self._arm_of(sketch)

    def _arm_of(self, sketch: Sketch) -> SketchArm:
        return self._arms.setdefault(sketch.trace, SketchArm(sketch, self._target, self._core, self._analyses))

    def _unmet_decisions(
        self, neighbour: Neighbour, sketch: Sketch, own: Mapping[str, Decision]
    ) -> list[tuple[str, str]]:
        """The decisions that the space has no place for, or not this option."""
        there: dict[str, Decision | None] = {**sketch.structure, **{v.address: None for v in sketch.variables}}
        found = []
        for address, _ in neighbour.entry.decisions:
            names = [name for name in self._roles.own_texts(address) if name in own]
            met = [name for name in names if name in there]
            if names and not met:
                found.append((address, "the space has no random variable there"))
            elif (other := _substituted_decision([(there[name], own[name]) for name in met])) is not None:
                found.append((address, f"{decision_text(other)} is the nearest there is"))
        return found


def _substituted_decision(decided: Sequence[tuple[Decision | None, Decision]]) -> Decision | None:
    """The decision taken in place of the one wanted, if any was."""
    return next((taken for taken, wanted in decided if taken is not None and taken != wanted), None)
