"""What is recorded of a task, as a search asks for it: by trace and by code, without reading whole records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import TypeVar

from metasched.database.base import Database
from metasched.database.best import FINALISTS, Noise, best_record, guess_of, noise_of
from metasched.database.record import Duplicate, Record, Role, SearchKey
from metasched.database.summary import Summary, summary_of
from metasched.ir.program import Program
from metasched.schedule.trace_outline import Outline, outline_of
from metasched.search.budget.stagnation import Stagnation, least_gain, stagnation_of
from metasched.search.records.other_names import OwnNames, applying_trace
from metasched.support import collection

K = TypeVar("K")

# The batch and the outline of a proposal, and what came of it.
Entry = tuple[int, Outline, Summary]


class TaskRecords:
    """The records of a task, from the side of one search.

    Its `trials` are those of its space and version of the code. What it measured beside them, such as the default guess
    where another space is searched, has a say in what is best only; what was recorded in `other` spaces is known,
    and is no trial; what was recorded with `older` versions, or newer ones, is not known before it is timed again.

    Counts and the least time are kept up to date as records come: nothing here but `entries_in_order` looks at all of
    them.
    """

    def __init__(self, database: Database, search: SearchKey, program: Program) -> None:
        self._database = database
        self._search = search
        self._program = program
        self._names = OwnNames(database, search.task, program)
        self._last = 0  # the largest number that was read
        self._numbers: dict[object, int] = {}  # by the identity of a record that was loaded or added
        self._trials: dict[int, Summary] = {}
        self._beside: dict[int, Summary] = {}
        self._others: dict[int, Summary] = {}
        self._older: dict[int, Summary] = {}
        self._by_outline: dict[Outline, Summary] = {}
        self._by_code: dict[str, Summary] = {}
        self._duplicates: dict[Outline, Duplicate] = {}
        self._guesses: dict[int, Summary] = {}
        self._failures: Counter[str] = Counter()
        self._fastest: Summary | None = None
        self._not_repeated: list[int] = []
        self._foreign: list[Summary] = []  # those that were not told in this program's names yet
        self.raced = 0
        self.repeats = 0  # how often trials were timed again for the noise
        self.repeated = 0  # of how many that have a time
        self._lows: list[tuple[int, float]] = []  # the trials that were faster than all before them
        self._noise: tuple[int, Noise | None] = (0, None)  # of so many repetitions
        with collection.pause_gc():
            self.pick_up()

    # --- taking note

    def pick_up(self) -> list[Summary]:
        """Take note of what was recorded since, by whomever; returns the trials of this search among it."""
        found = self._database.summaries(self._search.task, self._last)
        found.sort(key=lambda s: (s.batch, s.place, s.trial))
        new = [s for s in found if not self._is_known(s.number)]
        for summary in new:
            self._last = max(self._last, summary.number)
            self._note(summary)
            self._note_low(summary)
            if not self._names.are_of(summary):
                self._foreign.append(summary)
        for duplicate in sorted(self._database.duplicates(self._search), key=lambda d: (d.batch, d.place)):
            if duplicate.code in self._by_code:
                self._duplicates.setdefault(outline_of(duplicate.trace), duplicate)
        return [self._trials[s.number] for s in new if s.number in self._trials]

    def add(self, record: Record, number: int) -> None:
        """Take note of a record that is in the database under a number."""
        self._numbers[record.identity] = number
        summary = summary_of(record, number, self._names.own_number)
        self._note(summary)
        self._note_low(summary)

    def add_duplicates(self, duplicates: Sequence[Duplicate]) -> None:
        """Take note of duplicates that are in the database."""
        self._duplicates |= {outline_of(duplicate.trace): duplicate for duplicate in duplicates}

    def replace(self, records: Iterable[Record]) -> None:
        """Take note of records with other visits, all of which were loaded here."""
        for record in records:
            number = self._numbers[record.identity]
            before = self._group_of(number)[number]
            # What the record says in the names of another program is known in those of this one.
            now = summary_of(record, number, before.written)
            now = now._replace(structure=before.structure, decisions=before.decisions)
            self._forget(before)
            self._note(now)

    def _tell_foreign(self) -> None:
        """Have the records of other names in those of this program, which takes a replay for each structure of them."""
        foreign, self._foreign = self._foreign, []
        for summary in foreign:
            kept = self._group_of(summary.number)
            kept[summary.number] = told = self._names.in_own_names(kept[summary.number])
            if kept is not self._older:
                self._by_outline.setdefault(told.outline, told)
                if self._by_code.get(told.code) == summary:
                    self._by_code[told.code] = told

    def _group_of(self, number: int) -> dict[int, Summary]:
        """The records among which one is."""
        return next(kept for kept in (self._trials, self._beside, self._others, self._older) if number in kept)

    def _is_known(self, number: int) -> bool:
        return any(number in kept for kept in (self._trials, self._beside, self._others, self._older))

    def _note(self, summary: Summary) -> None:
        number, outline = summary.number, summary.outline
        if summary.code_version != self._search.code_version:
            self._older[number] = summary
            return
        if summary.is_guess:
            self._guesses[number] = summary
        if summary.space != self._search.space:
            self._others[number] = summary
            _prefer_own(self._by_outline, outline, summary)
            if summary.code:
                _prefer_own(self._by_code, summary.code, summary)
            return
        self._by_outline[outline] = summary
        if summary.code:
            self._by_code[summary.code] = summary
        if summary.is_trial:
            self._trials[number] = summary
            self._count(summary)
        else:
            self._beside[number] = summary

    def _count(self, trial: Summary) -> None:
        self.raced += bool(trial.raced)
        self.repeats += trial.repeats
        self.repeated += bool(trial.settled and trial.repeats)
        if trial.failure is not None:
            self._failures[trial.failure] += 1
        if trial.settled and not trial.repeats:
            self._not_repeated.append(trial.number)
        if trial.settled and (self._fastest is None or trial.seconds_or_inf < self._fastest.seconds_or_inf):
            self._fastest = trial

    def _note_low(self, new: Summary) -> None:
        """Note a new trial that was faster than all before it, as the search measured it."""
        if new.number in self._trials and new.settled:
            seconds = new.search_seconds_or_inf
            if not self._lows or seconds < self._lows[-1][1]:
                self._lows.append((len(self._trials), seconds))

    def _forget(self, summary: Summary) -> None:
        """Undo what `_note` counted: the record is timed again."""
        if self._trials.pop(summary.number, None) is None:
            return
        self.raced -= bool(summary.raced)
        self.repeats -= summary.repeats
        self.repeated -= bool(summary.settled and summary.repeats)
        if summary.failure is not None:
            self._failures[summary.failure] -= 1
        if summary.settled and not summary.repeats:
            self._not_repeated.remove(summary.number)
        if self._fastest is not None and self._fastest.number == summary.number:
            settled = (s for s in self._trials.values() if s.settled)
            self._fastest = min(settled, key=lambda s: s.seconds_or_inf, default=None)

    # --- counts

    @property
    def trial_count(self) -> int:
        """The number of trials."""
        return len(self._trials)

    @property
    def proposal_count(self) -> int:
        """The number of proposals that have come to something: trials and duplicates."""
        return len(self._trials) + len(self._duplicates)

    @property
    def duplicates(self) -> int:
        return len(self._duplicates)

    def failures(self) -> dict[str, int]:
        """How many trials failed for each reason, most first."""
        return dict((+self._failures).most_common())

    def roles(self) -> dict[str, int]:
        """How many trials were measured for each reason."""
        return dict(Counter(trial.role for trial in self._trials.values()))

    def fastest_s(self) -> float | None:
        """The least time of a trial, and no bound."""
        return None if self._fastest is None else self._fastest.seconds

    def stagnation(self) -> Stagnation:
        """How long ago a trial was faster than those before it by more than noise."""
        if self._noise[0] != self.repeats:
            self._noise = (self.repeats, self.noise())
        noise = self._noise[1]
        return stagnation_of(self._lows, self.trial_count, least_gain(None if noise is None else noise.deviation))

    def fastest_trial(self) -> Record | None:
        """The trial with the least time."""
        found = [] if self._fastest is None else self.load([self._fastest])
        return found[0] if found else None

    def is_begun(self, batch: int) -> bool:
        """Whether something of a batch was measured."""
        return any(trial.batch == batch for trial in self._trials.values())

    def has_drawn(self, batch: int) -> bool:
        """Whether some of a batch was drawn elsewhere, since the search had stagnated."""
        return any(t.batch == batch and t.role == Role.ELSEWHERE.value for t in self._trials.values())

    def course(self) -> tuple[tuple[int, float], ...]:
        """After each batch how many trials there were and the least time of a trial so far, as the search measured it;
        infinite where there was none.
        """
        found: list[tuple[int, float]] = []
        best, last = float("inf"), None
        for count, trial in enumerate(sorted(self._trials.values(), key=lambda s: (s.batch, s.place)), start=1):
            best = min(best, trial.search_seconds_or_inf if trial.settled else best)
            if trial.batch == last:
                found.pop()
            found.append((count, best))
            last = trial.batch
        return tuple(found)

    def last_before(self, batch: int) -> int:
        """The largest number of a trial of an earlier batch; 0 where there is none."""
        return max((s.number for s in self._trials.values() if s.batch < batch), default=0)

    def first_number(self) -> int | None:
        """The least number of a trial; None where there is none."""
        return min(self._trials, default=None)

    # --- asking

    def summary_of(self, trace: str) -> Summary | None:
        """The record of a trace, or that of its code where it is a duplicate."""
        self._tell_foreign()
        outline = outline_of(trace)
        duplicate = self._duplicates.get(outline)
        return self._by_outline.get(outline) or (None if duplicate is None else self._by_code[duplicate.code])

    def of_code(self, code: str) -> Summary | None:
        return self._by_code.get(code)

    def is_recorded(self, code: str) -> bool:
        """Whether this very search has a record of a code, whatever other spaces have."""
        found = self._by_code.get(code)
        return found is not None and found.space == self._search.space

    def is_duplicate(self, trace: str) -> bool:
        """Whether the trace is noted as a proposal whose code had been measured."""
        return outline_of(trace) in self._duplicates

    def has_trial(self, trace: str) -> bool:
        """Whether the trace, or what is the same, is a trial of this very search."""
        found = self.summary_of(trace)
        return found is not None and found.number in self._trials

    @property
    def has_default(self) -> bool:
        """Whether the guess of a caller who says nothing of the space was measured, in any space."""
        return any(s.role == Role.DEFAULT.value for s in self._guesses.values())

    @property
    def has_guess(self) -> bool:
        """Whether a guess was measured that a later call would take."""
        return self.has_default or any(number in self._trials for number in self._guesses)

    def entries_in_order(self) -> list[Entry]:
        """Every proposal with what came of it, in the order of proposal."""
        self._tell_foreign()
        own = [((s.batch, s.place), s.outline, s) for s in self._trials.values()]
        shared = [((d.batch, d.place), o, self._by_code[d.code]) for o, d in self._duplicates.items()]
        return [(at[0], outline, s) for at, outline, s in sorted([*own, *shared], key=lambda entry: entry[0])]

    def other_summaries(self) -> list[Summary]:
        """What other spaces have shown, and this one beside its trials, by number: it teaches, and is no trial."""
        self._tell_foreign()
        return sorted([*self._others.values(), *self._beside.values()])

    def older_summaries(self) -> list[Summary]:
        """The records of other versions of the code, by number."""
        self._tell_foreign()
        return sorted(self._older.values())

    # --- whole records

    def trace_of(self, outline: Outline, summary: Summary) -> str | None:
        """The trace with an outline, in this program's names; None if it cannot be read, or no longer applies.

        `summary` is what came of it: its record, or where it is a duplicate that of its code.
        """
        duplicate = self._duplicates.get(outline)
        if duplicate is not None:
            return duplicate.trace
        for record in self.load([summary]):
            trace = applying_trace(record, self._program)
            return None if trace is None else str(trace)
        return None

    def load(self, summaries: Iterable[Summary]) -> list[Record]:
        """The whole records of some summaries, in their order; in the names that they were made in."""
        wanted = [s.number for s in summaries]
        found = self.load_numbers(wanted)
        return [found[number] for number in wanted if number in found]

    def load_numbers(self, numbers: Sequence[int]) -> dict[int, Record]:
        """The whole records of some numbers, as far as they can be read."""
        found = self._database.load(self._search.task, numbers)
        self._numbers |= {record.identity: number for number, record in found.items()}
        return found

    @property
    def unrepeated_numbers(self) -> Sequence[int]:
        """The numbers of the trials that have a time and were not timed again for the noise, as they came."""
        return self._not_repeated

    def _entrants(self) -> list[Summary]:
        """What the search holds: trials, and what others measured that it proposed as well."""
        shared = (self._by_code[duplicate.code] for duplicate in self._duplicates.values())
        return sorted({s.number: s for s in (*self._trials.values(), *shared)}.values())

    def contenders(self) -> list[Record]:
        """The records that `finalists` may choose from: the guesses, and the fastest of the search."""
        entrants = [s for s in {*self._entrants(), *self._beside.values()} if s.settled]
        fastest = nsmallest(FINALISTS, (s for s in entrants if not s.is_guess), key=lambda s: s.search_seconds_or_inf)
        return self.load(sorted([*(s for s in entrants if s.is_guess), *fastest]))

    def best(self) -> Record | None:
        """The best record of the space searched."""
        return best_record(self._entrants(), self.load_numbers)

    def guess(self) -> Record | None:
        """The guess that the best has to beat; where it has no time of its own, because it lost the race, too."""
        own = self.load(sorted(s for number, s in self._guesses.items() if number in self._trials))
        latest = {record.role: record for record in own}
        return guess_of(own) or latest.get(Role.DEFAULT) or latest.get(Role.GUESS)

    def default(self) -> Record | None:
        """The guess for a caller who names no space, measured in any space; None where it has no time."""
        settled = [s for s in self._guesses.values() if s.role == Role.DEFAULT.value and s.settled]
        found = self.load(sorted(settled)[-1:])
        return found[0] if found else None

    def noise(self) -> Noise | None:
        """What the trials show that were timed again."""
        return noise_of(self.load(s for s in self._trials.values() if s.repeats))


def _prefer_own(known: dict[K, Summary], key: K, other: Summary) -> None:
    """Note a record of another space, unless there is another one of the same."""
    if key not in known or known[key].number == other.number:
        known[key] = other
