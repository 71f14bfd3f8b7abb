"""The result of tuning, for programs and for a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from metasched.database.best import Noise
from metasched.database.record import Record, Role
from metasched.errors import MetaschedError
from metasched.ir.notebook import TextReport, collapsible_html, table
from metasched.measure.comparison import Comparison
from metasched.measure.timing import or_inf
from metasched.report.analysis import NOTHING_FASTER, TuningAnalysis, analysis_of
from metasched.report.source import RecordSource
from metasched.search.budget.stagnation import Stagnation
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted


@dataclass(frozen=True, repr=False)
class TuningReport(TextReport):
    """The result of tuning.

    `print(report)` says all of it in words, `report.save("report.html")` with pictures. Times are in seconds.

    Attributes:
        best: the record of the fastest; None if no candidate was ever valid.
        records: how many records there are of the task, failures and earlier runs included.
        measured: how many of them this call added.
        failures: how many records failed, by reason.
        rejected: how many candidates turned out illegal before they were measured, by reason.
        phases: seconds of this call, by what they were spent on.
        elapsed_s: seconds of this call.
        exhausted: whether the space held nothing new.
        interrupted: whether Ctrl-C ended the run.
        raced: how many records lost a race, so that their time is a lower bound.
        duplicates: how many proposals had code that was measured for another.
        guess: the record of the guess.
        over_guess: the best compared with the guess, if both were timed in turns.
        noise: what repeated measurements of the same code differed by.
        roles: how many records there are by why they were measured (see `Role`).
        stagnation: how long ago a trial was faster than all before it by more than noise.
        out_of_patience: whether the run ended for that.
        task: the program with its parameters.
        source: where the records are.
        default: the guess for a caller who names no space, where it is faster for sure than the best and not in the
            space that was searched.
        out_of_time: whether the run's seconds were over before it had its trials.
    """

    SHORT = 3  # the number of records, the best time, and whether it is the guess's

    best: Record | None
    records: int
    measured: int
    failures: Mapping[str, int]
    rejected: Mapping[str, int]
    phases: Mapping[str, float]
    elapsed_s: float
    exhausted: bool = False
    interrupted: bool = False
    raced: int = 0
    duplicates: int = 0
    guess: Record | None = None
    over_guess: Comparison | None = None
    noise: Noise | None = None
    roles: Mapping[str, int] = field(default_factory=dict)
    stagnation: Stagnation | None = None
    out_of_patience: bool = False
    task: str = ""
    source: RecordSource | None = field(default=None, repr=False, compare=False)
    default: Record | None = None
    out_of_time: bool = False

    @property
    def seconds(self) -> float:
        """The median time of a call of the best; infinite where no candidate was valid."""
        return or_inf(None if self.best is None else self.best.seconds)

    @property
    def is_guess(self) -> bool:
        """Whether nothing was certainly faster than the guess."""
        return self.best is not None and self.best == self.guess

    @property
    def is_stagnant(self) -> bool:
        """Whether nothing better was found for so long that more trials are likely a waste."""
        return self.stagnation is not None and self.stagnation.is_reached

    @cached_property
    def analysis(self) -> TuningAnalysis:
        """Why it came to this: what the model believed and what was measured, the best time by every choice, noise, and
        where the time went. Raises NoRecord where the database is no longer there.
        """
        return analysis_of(
            self.task,
            () if self.source is None else self.source.records(),
            duplicates=self.duplicates,
            phases=self.phases,
            rejected=self.rejected,
            best=self.best,
        )

    def save(self, path: str | Path) -> Path:
        """Write the analysis as one HTML file with pictures, which needs no other file and no network; returns its
        path.

        The best kernel is compiled and run on random data for that, where this machine can. Raises ReportError where
        the extra `report` is not installed, and for a path of another suffix than `.html`.
        """
        from metasched.report.page import save_page  # it imports the compiler

        return save_page(self.analysis, path)

    def figures(self) -> dict[str, Any]:
        """The saved page's pictures as `plotly.graph_objects.Figure` by title, but for the best kernel's roofline.

        Raises ReportError where the extra `report` is not installed, NoRecord where the database is no longer there.
        """
        from metasched.report.figures import figures_of  # it imports the compiler

        return figures_of(self.analysis)

    def _ipython_display_(self) -> None:
        from metasched.report.figures import show_in_notebook  # it imports the compiler

        try:
            analysis = self.analysis
        except MetaschedError:  # the table says so
            analysis = None
        show_in_notebook(repr(self), self._repr_html_(), analysis)

    def _repr_html_(self) -> str:
        from metasched.report.page import in_notebook  # it imports the compiler

        try:
            why = in_notebook(self.analysis)
        except MetaschedError as error:  # the database is no longer there
            why = table("why", [(str(error),)])
        return super()._repr_html_() + collapsible_html("why", why)

    def __str__(self) -> str:
        """For a person: how much was measured, what failed and why, and where the time went."""
        made = f"{counted(self.records, 'record')}{self._by_role()}"
        lines = [f"{made}, {self.measured} of them new, in {self.elapsed_s:.1f} s"]
        lines.append(self._result())
        lines += self.verdict()
        for what, counts in (("failed", self.failures), ("rejected", self.rejected)):
            lines.extend(f"{what} {count} times: {reason}" for reason, count in counts.items())
        if self.phases:
            lines.append("time: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.phases.items()))
        if self.out_of_patience:
            lines.append(f"{self.stagnation}: patience is over")
        elif self.is_stagnant:
            lines.append(f"{self.stagnation}: more of them are likely a waste")
        if self.exhausted:
            lines.append("the search found nothing new in its space")
        if self.interrupted:
            lines.append("interrupted: the same call goes on from here")
        return "\n".join(lines)

    def _result(self) -> str:
        """The best time, or why there is none."""
        if self.best is not None:
            return f"best {self.seconds * 1e3:.4g} ms{self.best.once}"
        if self.records:
            return "no candidate was valid"
        return "nothing was measured" + (": the time was over before" if self.out_of_time else "")

    def _by_role(self) -> str:
        """`: the guess, 3 neighbours, 2 expert traces, 10 candidates`, if there are any besides the last."""
        guesses = sum(count for role, count in self.roles.items() if Role(role).is_guess)
        of_role = (Role.NEIGHBOUR, Role.EXPERT, Role.CANDIDATE, Role.ELSEWHERE)
        neighbours, experts, candidates, elsewhere = (self.roles.get(role.value, 0) for role in of_role)
        parts = ["the guess"] if guesses else []
        parts += [counted(neighbours, "neighbour")] if neighbours else []
        parts += [counted(experts, "expert trace")] if experts else []
        parts += [counted(candidates, "candidate")] if candidates and parts else []
        parts += [f"{elsewhere} drawn elsewhere"] if elsewhere else []
        return f" ({', '.join(parts)})" if parts else ""

    @property
    def _guess_ratio(self) -> float | None:
        """The guess's time over the best, if both have one: a clearly slower guess is not timed in turns."""
        best = None if self.best is None else self.best.seconds
        guess = None if self.guess is None else self.guess.seconds
        return None if best is None or guess is None else guess / best

    def verdict(self) -> list[str]:
        """How the best compares with the guess, and how far times can be trusted, in a line each."""
        lines = []
        if self.is_guess:
            lines.append(f"it is the guess: {NOTHING_FASTER}")
        elif self.over_guess is not None:
            low, high = self.over_guess.interval
            lines.append(
                f"{self.over_guess.gain:.2f} times as fast as the guess (95 % interval {low:.2f} to {high:.2f})"
            )
        elif self._guess_ratio is not None:
            lines.append(f"the guess takes {self._guess_ratio:.1f} times as long")
        default, best = (None if r is None else r.seconds for r in (self.default, self.best))
        if default is not None and best is not None:
            lines.append(
                f"the guess where no space is named takes {default * 1e3:.4g} ms, {best / default:.1f} times as fast: "
                "it is not in this space"
            )
        if self.raced or self.duplicates:
            lost = counted(self.raced, "record")
            known = counted(self.duplicates, "proposal of code already known", "proposals of code already known")
            lines.append(f"{lost} lost the race; {known}")
        if self.noise is not None:
            lines.append(f"noise of a time: {self.noise}")
        return lines
