"""On which programs each rule that ships fires, and what it writes there: nothing is measured.

The programs are the operators of the library, and those of `examples/pipelines/` and `examples/layers/`. The rules run
as the preset `cpu` has them, for a CPU that has what any rule asks for, and everything is allowed. Each program's rules
run twice, with other choices: what takes more of these to fire is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from metasched.ir.program import Program
from metasched.lang.instructions import Decision, Instruction
from metasched.lang.load import load_program
from metasched.operators.files import library_names
from metasched.operators.suites import Case
from metasched.permissions import Permission
from metasched.schedule.handlers import FREE, Free, Site
from metasched.schedule.primitive import registry
from metasched.schedule.step_memo import StepMemo
from metasched.schedule.trace import Schedule
from metasched.space.registry import DEFAULT_PRESET, RULES, resolve
from metasched.space.rule import Outcome, Rule
from metasched.space.source import FromRules, SourceStage
from metasched.support.registry import origin
from metasched.target import Target

ROOT = Path(__file__).parents[2]
# How many programs a rule fires on, unless its documentation says why there are few.
ENOUGH = 3
_FEW = re.compile(r"^Few operators: (.+?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
# Named and not detected: the page is the same wherever it is made.
TARGET = Target.parse(
    "name=sapphirerapids threads=2 l1=49152 l2=2097152 l3=33554432 cacheline=64 "
    "features=avx,avx2,fma,avx512f,avx512bw,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16"
)
# Allowed by themselves, with the rule of that name alone: its steps come first, and make programs many times as long.
_APART = frozenset({Permission.WINOGRAD})
_FOLDERS = ("examples/pipelines", "examples/layers")
# Other sizes and types of operators, for rules that depend on these. Each takes time in the tests.
_BF16 = {"T": "bf16", "ACC": "f32"}
_BYTES = {"T": "u8", "U": "i8", "ACC": "i32"}
_DILATED = {"H": 33, "W": 33, "CI": 64, "CO": 64, "R": 3, "P": 18, "D": 18}
OTHER_SIZES = (
    *(Case(operator, _DILATED) for operator in ("conv2d_nhwc", "conv2d_nchw")),
    Case("conv2d_bn_relu_nhwc", {**_DILATED, "S": 1}),
    *(Case(operator, _BF16) for operator in ("matmul_nn", "matmul_nt", "batch_matmul_nn")),
    *(Case(operator, _BYTES) for operator in ("matmul_nn", "matmul_nt", "batch_matmul_nn")),
    Case("attention", {"L": 2048, "M": 2048}),
    *(Case(operator, {"M": 1, "N": 1 << 20}) for operator in ("bias_gelu", "softmax", "scale_shift_add_relu")),
    *(Case(operator, {"M": 4096, "N": 4096}) for operator in ("softmax", "layer_norm", "transpose", "swiglu")),
)


@dataclass(frozen=True)
class Tried:
    """A program that rules were tried on: its name, and the words by which commands take it."""

    name: str
    words: str
    program: Program


@dataclass(frozen=True)
class Firing:
    """A rule that applied to a block of a program, and the instructions that it wrote, that for the block first."""

    on: Tried
    block: str
    steps: tuple[Instruction, ...]

    @property
    def transforms(self) -> bool:
        """Whether the program is another after it: a rule may also decide to leave a block as it is."""
        return any(not registry()[step.op].pure for step in self.steps)


# The firings of each rule: one a program, by the rule's name.
Firings = Mapping[str, tuple[Firing, ...]]


def shipped() -> dict[str, object]:
    """Rules and presets of metasched by the names that are installed, in their order."""
    return {name: RULES.get(name) for name, point in RULES.points().items() if origin(point).startswith("metasched ")}


def shipped_rules() -> dict[str, Rule]:
    """The rules of metasched by the names that are installed, in their order."""
    return {name: value for name, value in shipped().items() if isinstance(value, Rule)}


def why_few(rule: Rule) -> str | None:
    """Why the rule fires on few operators, where its documentation says so: `Few operators: ...`."""
    found = _FEW.search(rule.doc)
    return None if found is None else " ".join(found[1].split())


def programs() -> list[Tried]:
    """All programs that rules are tried on, some of them at several sizes."""
    cases = [*map(Case, library_names()), *OTHER_SIZES]
    tried = [Tried(case.operator, _words(case), case.program()) for case in cases]
    for folder in _FOLDERS:
        paths = sorted((ROOT / folder).glob("*.ms"))
        tried += [Tried(path.name, str(path.relative_to(ROOT)), load_program(path)) for path in paths]
    return tried


def _words(case: Case) -> str:
    return " ".join([f"op:{case.operator}", *(f"-D {name}={value}" for name, value in case.params.items())])


def firings(tried: Iterable[Tried]) -> Firings:
    """Where every rule that ships fires, among these programs.

    A rule that is in no preset comes last, or counts as firing where the preset has it in another configuration.
    """
    ours = shipped_rules()
    preset = resolve(DEFAULT_PRESET)
    functions = {rule.fn for rule in preset}
    rules = (*preset, *(rule for rule in ours.values() if rule.fn not in functions))
    together = frozenset(Permission) - _APART
    found: dict[str, dict[str, Firing]] = {rule.name: {} for rule in rules}
    for program in tried:
        first, steps = _Options(), StepMemo()
        _add(found, program, _run(program, rules, together, first, steps))
        _add(found, program, _run(program, rules, together, _Options(frozenset(first.met)), steps))
        for permission in _APART:
            apart = frozenset({permission})
            _add(found, program, _run(program, resolve(permission.value), apart, _Options(), steps))
    by_rule: dict[str, tuple[Firing, ...]] = {}
    for name, rule in ours.items():
        named = [name] if name in found else [other.name for other in rules if other.fn is rule.fn]
        by_rule[name] = tuple({k: v for other in named for k, v in found[other].items()}.values())
    return by_rule


def _add(found: dict[str, dict[str, Firing]], on: Tried, fired: Iterable[tuple[str, Firing]]) -> None:
    """Add where rules fired on a program; of several blocks and sizes, the first that a rule transforms counts."""
    for name, firing in fired:
        before = found[name].get(on.name)
        if before is None or (firing.transforms and not before.transforms):
            found[name][on.name] = firing


def _run(
    on: Tried, rules: tuple[Rule, ...], allow: frozenset[Permission], options: _Options, steps: StepMemo
) -> Iterator[tuple[str, Firing]]:
    """What rules did in a run of all of them, by their names; `steps` are those of other runs of the program."""
    source = FromRules(rules)
    schedule = Schedule(on.program, TARGET, handler=options, allow=allow, memo=steps)
    stage: SourceStage | None = SourceStage()
    while stage is not None:
        told: list[Outcome] = []
        before = len(schedule.instructions)
        stage = source.run_stage(schedule, stage, told.append)
        if told and told[0].reason is None:
            yield told[0].rule, Firing(on, told[0].block, schedule.instructions[before:])


@dataclass(frozen=True)
class _Options:
    """Decides structure, and leaves numbers open: what is met for the first time takes its first option, and what an
    earlier run met its last one. That is mostly to do something, and to leave it to rules that come later.
    """

    met_before: frozenset[str] = frozenset()
    met: set[str] = field(default_factory=set)

    def decide(self, site: Site) -> Decision | Free:
        if not site.dist.structural:
            return FREE
        self.met.add(site.address)
        return site.dist.options()[-1 if site.address in self.met_before else 0]
