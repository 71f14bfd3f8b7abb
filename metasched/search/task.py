"""What is tuned: a program for a target, in a space; and what makes two spaces the same."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.schedule.trace import Trace
from metasched.search.arms import MAX_ARMS, SpaceArms
from metasched.space.conditions import SpaceLike, source_of, space_of
from metasched.space.space import Space
from metasched.support.fingerprint import fingerprint
from metasched.target import Target

_FORMAT = 1  # of a fingerprint


class Task:
    """A program to be tuned for a target, in a space.

    The space is made when it is first wanted: nothing is enumerated to make a task, or to know its fingerprint.

    Args:
        program: what to compute.
        space: what to search: rules, as a specification such as "cpu,-inline" or a list (by default "cpu"), a module
            `f(sch)` for this program, a trace, whose holes are searched, a `Space`, or what `condition` returns.
        target: the CPU to compile for and measure on; by default this one.
        threads: how many threads a kernel uses; by default as many as the target says.
        allow: what results may differ by besides reassociation, by name. Nothing can be allowed yet.
        max_sketches: beyond so many, sketches are sampled.
        seed: of that sample.

    Raises RuleError for a rule that is not there, ScheduleError where one random variable is decided twice.
    """

    def __init__(
        self,
        program: Program,
        space: SpaceLike = None,
        target: Target | None = None,
        *,
        threads: int | None = None,
        allow: Iterable[str] = (),
        max_sketches: int = MAX_ARMS,
        seed: int = 0,
    ) -> None:
        if not isinstance(program, Program):
            raise MetaschedError(
                f"a task is about a Program, not a {type(program).__name__}\n"
                "  hint: make one by parse_program(text) or load_program(path)"
            )
        if max_sketches < 1:
            raise MetaschedError(f"max_sketches is {max_sketches}; a space has at least one sketch")
        where = Target.detect() if target is None else target
        self.program = program
        self.target = where if threads is None else where.with_threads(threads)
        self.allow = _allowed(allow)
        self.described_by = space
        self.seed = seed
        self.source = source_of(space)
        self._max_sketches = min(max_sketches, space.max_sketches) if isinstance(space, Space) else max_sketches

    def __repr__(self) -> str:
        return f"<task of {self.program.key} for {self.target.name} with {self.target.threads} threads>"

    @cached_property
    def space(self) -> Space:
        """What is searched, made now. Raises ScheduleError for a condition that no random variable meets."""
        return space_of(self.program, self.described_by, max_sketches=self._max_sketches, seed=self.seed)

    @cached_property
    def arms(self) -> SpaceArms:
        """The space as a search sees it."""
        return SpaceArms(self.space, self.target)

    @cached_property
    def fingerprint(self) -> str:
        """A text by which equal spaces are known, the same in every process.

        What enters it: of each rule in order its name, configuration, the blocks that it is kept to, and its source
        (`metasched.support.fingerprint` says what of it) or, in text, its canonical text with that of the modules it
        calls; of a module the same; the text of a trace, up to the names of its handles; the decisions that are given,
        by address; how many sketches there may be; and what is allowed. The program and the target do not, nor does
        the seed by which sketches beyond the most are sampled: records have these beside it.
        """
        return fingerprint((_FORMAT, self.source, self._max_sketches, self.allow))

    def holds(self, trace: str) -> bool:
        """Whether a trace, as text, contradicts nothing that is given. Raises LanguageError where it does not parse."""
        return self.space.holds(Trace.parse(trace))


def _allowed(names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise MetaschedError(f'`allow` is a set of names, such as {{"{names}"}}, not a text')
    allowed = frozenset(names)
    if allowed:
        raise MetaschedError(f"`allow`: nothing of the name {min(allowed)!r} can be allowed; leave it out")
    return allowed
