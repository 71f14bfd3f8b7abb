"""Records of a made-up search, with real traces: what reports are made of."""

from __future__ import annotations

from metasched.database.record import Record, Role, TaskKey, Visit, VisitKind, code_version
from metasched.lang import parse_program
from metasched.target import Target

TEXT = "program add[N=64](A: f32[N]) -> B: f32[N]:\n    add: B[i] = A[i] + 1\n"
TARGET = Target("generic", frozenset({"sse2", "avx2", "fma"}), 2, 32768, 1 << 20, 1 << 25, 64)
KEY = TaskKey.of(parse_program(TEXT), TARGET)


def trace(lanes: int | None, how: str = "plain") -> str:
    """A trace of `add`, with a choice of structure, and lanes where it is vectorised."""
    lines = ["trace 1 of add[N=64]:", '    add = get_block("add")']
    lines.append(f'    how ~ choose("plain", "fast") @ "try(add)/how" := "{how}"')
    if lanes is not None:
        lines += ["    i = get_loops(add)", f'    t ~ sample_categorical([4, 8, 16]) @ "try(add)/lanes" := {lanes}']
        lines.append("    vectorize(i, lanes=t)")
    return "\n".join(lines) + "\n"


def record(
    trial: int,
    text: str,
    seconds: float | None,
    expected: float | None = None,
    *,
    failure: str | None = None,
    raced: bool = False,
    role: Role = Role.CANDIDATE,
    again: float | None = None,
    second_visit: float | None = None,
) -> Record:
    """A record of two visits, a repetition `again` besides."""
    visits: tuple[Visit, ...] = ()
    if seconds is not None:
        visits = (Visit((seconds,) * 3), Visit((second_visit or seconds,) * 3))
        visits += () if again is None else (Visit((again,) * 3, VisitKind.REPEAT, "r"),)
    return Record(
        task=KEY,
        program=TEXT,
        params=(("N", 64),),
        trace=text,
        visits=visits,
        failure=failure,
        raced=raced,
        phases=(("compile", 0.5), ("run", 0.25)),
        timestamp=1e9 + trial,
        seed=0,
        trial=trial,
        batch=trial // 2,
        place=trial % 2,
        code=f"{trial:04}",
        role=role,
        space="s",
        code_version=code_version(),
        expected_seconds=expected,
    )


def records() -> list[Record]:
    """Six candidates: the guess, two that are faster, one of which was timed again, a bound, a failure, a disturbed."""
    return [
        record(0, trace(4), 4e-6, 2e-6, role=Role.GUESS),
        record(1, trace(8), 2e-6, 2e-6, again=2.4e-6),
        record(2, trace(16), 1e-6, 2e-6),
        record(3, trace(8, "fast"), 8e-6, 1e-6, raced=True),
        record(4, trace(None), None, 3e-6, failure="run-timeout"),
        record(5, trace(None, "fast"), 3e-6, None, second_visit=6e-6),
    ]
