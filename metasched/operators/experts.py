"""Expert traces: schedules that people wrote for operators of the library, to learn from and to start from.

`traces/OPERATOR.VARIANT.trace` is one. Its first comment says what it shows; the trace's first line, at which shape.
"""

from __future__ import annotations

from functools import cache

from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.operators.files import library_trace_names, names, trace_file, trace_names
from metasched.operators.library import load
from metasched.schedule.trace import Trace
from metasched.support.data_classes import dataclass
from metasched.support.messages import did_you_mean


@dataclass(frozen=True)
class Expert:
    """An expert's trace: `name` is `OPERATOR.VARIANT`, `about` the comment that its file begins with."""

    name: str
    about: str
    trace: Trace

    @property
    def operator(self) -> str:
        return self.name.partition(".")[0]

    @property
    def variant(self) -> str:
        return self.name.partition(".")[2]

    def program(self) -> Program:
        """The operator at the shape that the trace was written for."""
        return load(self.operator, **dict(self.trace.data.params))


def expert_names() -> tuple[str, ...]:
    """The expert traces of the library, as `OPERATOR.VARIANT`, sorted."""
    return library_trace_names()


@cache
def expert(name: str) -> Expert:
    """The expert trace `OPERATOR.VARIANT`.

    Raises:
        MetaschedError: when there is none of this name.
        LanguageError: when its file is wrong.
    """
    operator = name.partition(".")[0]
    own = trace_names(operator) if operator in names() else ()
    if name not in own:
        known = {*expert_names(), *own}
        hint = (name != operator and did_you_mean(name, known)) or f"there are {', '.join(own or expert_names())}"
        raise MetaschedError(f"there is no expert trace `{name}`", hint=hint)
    text = trace_file(name).read_text(encoding="utf-8")
    return Expert(name, _comment(text), Trace.parse(text))


def expert_traces(operator: str) -> dict[str, Trace]:
    """The expert traces of an operator, by variant.

        trace = expert_traces("matmul_nn")["blocked"]
        schedule = trace.apply_to(load("matmul_nn", M=1024, N=1024, K=1024), Policy.REPAIR)

    Each was written for one shape, which its first line names, and replays on others with `Policy.REPAIR`. Operators
    that nobody wrote one for have none. Raises MetaschedError for one that the library lacks.
    """
    found = (expert(name) for name in trace_names(operator))
    return {one.variant: one.trace for one in found}


def _comment(text: str) -> str:
    """The comment lines before the trace, as one paragraph."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)
