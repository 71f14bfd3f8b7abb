"""What is tuned: a program for a target, in a space; and the fingerprint by which spaces are compared."""

from __future__ import annotations

from collections.abc import Sequence

from metasched.calibration.store import core_of
from metasched.cost.core import Core, default_core
from metasched.errors import NoRecord
from metasched.ir.program import Program, require_program
from metasched.knowledge.library import KNOWLEDGE, Knowledge, KnowledgeLike, shipped
from metasched.measure.checking.inputs import Inputs, require_inputs
from metasched.measure.timing import Surroundings
from metasched.permissions import BY_DEFAULT, Allow, Allowed
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.arms.transferred import TransferredDecisions
from metasched.search.proposal import Guesses
from metasched.space.conditions import SpaceLike, source_of, space_of
from metasched.space.registry import RuleSpec
from metasched.space.space import DEFAULT_MAX_SKETCHES, Space
from metasched.support.cached import cached_property
from metasched.support.fingerprint import fingerprint
from metasched.support.messages import counted
from metasched.target import Target

_FORMAT = 2  # of the fingerprint
# What is measured first besides the guess: neighbours', and in all with expert traces.
MOST_NEIGHBOURS = 3
MOST_KNOWN = 5


class Task:
    """A program to be tuned for a target, in a space.

        >>> ms.Task(prog, space="vectorize", threads=2)
        <task of bias_gelu[M=4, N=8, T=f32, ACC=f32] for ... with 2 threads>

    The space is made at first use: making a task, or its fingerprint, enumerates nothing.

    Args:
        program: what to compute.
        space: what to search: rules, as a specification such as "cpu,-inline" or a list (by default "cpu"), a module
            `f(sch)` for this program, a trace, whose holes are searched, a `Space`, or what `condition` returns.
        target: the CPU to compile for and measure on; by default this one.
        threads: how many threads a kernel uses; by default as many as the target says.
        allow: what results may differ by besides the order of sums, by name (see `metasched.permissions`). By default
            products of bf16 or f16 that are summed in f32 may take denormal operands for zero, and nothing else
            differs; a set allows what it names, and nothing else. A `Space` has its own, unless one is given.
        knowledge: what was found for other sizes: the path of a file, "none", or by default all that is installed.
        inputs: what data an argument takes, by name: an array, a range (low, high), or a function of
            (generator, shape, dtype); by default signed random numbers.
        core: what operations of one of the CPU's cores cost, for the estimates that a search begins with; by default
            what `metasched calibrate` has measured, or else the usual constants.
        surroundings: what kernels are timed in: alone, by default, or as a network runs them, with constants that other
            kernels have driven from the caches. Times of one kind are not compared with those of another.

    Raises RuleError for a rule that is not there, ScheduleError where one random variable is decided twice,
    KernelError for `inputs` of what is no argument or does not fit it.
    """

    def __init__(
        self,
        program: Program,
        space: SpaceLike = None,
        target: Target | None = None,
        *,
        threads: int | None = None,
        allow: Allow = None,
        knowledge: KnowledgeLike = None,
        inputs: Inputs | None = None,
        core: Core | None = None,
        surroundings: Surroundings = Surroundings.ALONE,
    ) -> None:
        require_program(program)
        where = Target.detect() if target is None else target
        self.program = program
        self.target = where if threads is None else where.with_threads(threads)
        self.allowed = space.allowed if allow is None and isinstance(space, Space) else Allowed.of(allow)
        self.knowledge = knowledge
        require_inputs(program.func, inputs)
        self.inputs = inputs
        self.described_by = space
        self.core = core_of(self.target) if core is None else core
        self.source = source_of(space)
        self.surroundings = Surroundings(surroundings)
        self._like: Task | None = None

    def of_program(
        self, program: Program, inputs: Inputs | None = None, surroundings: Surroundings = Surroundings.ALONE
    ) -> Task:
        """The task of another program, in the space of the same rules: whose fingerprint is worked out once."""
        described, core = self.described_by, self.core
        more = {"knowledge": self.knowledge, "inputs": inputs, "core": core, "surroundings": surroundings}
        made = Task(program, described, self.target, allow=self.allowed, **more)  # type: ignore[arg-type]
        made._like = self
        return made

    def __repr__(self) -> str:
        threads = counted(self.target.threads, "thread")
        return f"<task of {self.program.key} for {self.target.name} with {threads}>"

    @cached_property
    def space(self) -> Space:
        """The space, made now. Raises ScheduleError for a condition on a variable that no sketch has."""
        return self._space_of(self.described_by)

    @cached_property
    def arms(self) -> SpaceArms:
        """The space in the form that searches use."""
        return SpaceArms(self.space, self.target, self.core, Knowledge.of(self.knowledge))

    @cached_property
    def fingerprint(self) -> str:
        """A text that is equal for equal spaces, in every process.

        It is computed from the name, configuration, block patterns and source of each rule in order (for the source see
        `metasched.support.fingerprint`; for a rule in text, its canonical text with that of the modules it calls); the
        same of a module; the text of a trace, up to the names of its handles; the given decisions, by address;
        what is allowed; what is known beforehand, where it is not what is shipped; and the constants
        of the core, where they are not the usual ones: what a search proposes depends on them, so one that began with
        others is another search. The program and the target are not part of it: records store them separately.
        """
        if self._like is not None:
            return self._like.fingerprint
        calibrated = () if self.core == default_core(self.target) else (self.core,)
        names = frozenset(permission.value for permission in self.allowed.names)
        said: tuple[str, ...] = () if self.allowed == BY_DEFAULT else ("allow",)
        if self.knowledge is not None or KNOWLEDGE.names():
            known = Knowledge.of(self.knowledge)
            said += () if known is shipped() else ("knowledge", known.digest)
        return fingerprint((_FORMAT, self.source, names, *said, *calibrated))

    def check(self) -> None:
        """Make the first sketch, which shows mistakes in rules and modules. Raises whatever these raise."""
        next(iter(self.space), None)

    def guesses(self) -> Guesses:
        """The guesses: one from this space, and that of a call of `compile` that names no space.

        With the default space, the expert traces that the guess did not take are worth measuring, too.
        """
        own, experts, neighbours = self._default_guess()
        # What a caller gets without a word, `default`, has nothing but what is allowed by default.
        default = own if self.allowed == BY_DEFAULT else None
        if self.source.by_default:
            return Guesses(own, default, experts, neighbours)
        from metasched.search.guesses.guess import guess_in

        try:
            inside = guess_in(self.arms, self.program, self.target, self.core, 0, "the space was given")
        except NoRecord:  # the space is empty
            return Guesses(None, default)
        return Guesses(str(inside.trace), default, (), _traces(inside.others))

    def _default_guess(self) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
        """The guess of a call of `compile`, and what else was known: expert traces, what was found for neighbours."""
        # These import the compiler, which a task alone does not need.
        from metasched.search.guesses.expert_guess import traces_worth_measuring
        from metasched.search.guesses.guess import guess

        try:
            found = guess(
                self.program,
                self.target,
                make_arms=self._default_arms,
                core=self.core,
                allowed=self.allowed,
            )
        except NoRecord:  # `compile` does not find one, either
            return None, (), ()
        if not self.source.by_default or found.expected is None:
            return str(found.trace), (), ()
        rivals = traces_worth_measuring(self.program, self.target, self.core, found.rivals, found.expected.cycles)
        neighbours = _traces(found.others)
        return str(found.trace), tuple(map(str, rivals))[: MOST_KNOWN - len(neighbours)], neighbours

    def _default_arms(self, rules: RuleSpec, _: int) -> SpaceArms:
        if self.source.ingredients() == source_of(rules).ingredients():
            return self.arms
        return SpaceArms(self._space_of(rules), self.target, self.core, Knowledge.of(self.knowledge))

    def _space_of(self, described: SpaceLike) -> Space:
        limit = DEFAULT_MAX_SKETCHES
        return space_of(self.program, described, target=self.target, allow=self.allowed, max_sketches=limit, seed=0)


def _traces(transferred: Sequence[TransferredDecisions]) -> tuple[str, ...]:
    return tuple(str(one.trace) for one in transferred[:MOST_NEIGHBOURS])
