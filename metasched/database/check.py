"""Whether a record of unknown origin says what it claims: texts that parse and belong together, numbers that can be."""

from __future__ import annotations

from functools import lru_cache

from metasched.database.record import NO_TRIAL, Record
from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.ir.source_printer import print_params
from metasched.lang import parse_program
from metasched.schedule.trace import Trace
from metasched.support.conditions import require_or
from metasched.target import Target

# Far beyond what tuning writes: bounds on what a stranger's file can make us hold.
MOST_CHARACTERS = 1 << 20  # of one text
MOST_SAMPLES = 100_000
MOST_PHASES = 1000
# Of a call, and of anything else that is timed. Within them, quotients of times and their products are numbers, too.
LEAST_SECONDS, MOST_SECONDS = 1e-12, 1e7
_LATEST_TIMESTAMP = 253402300799.0  # the end of the year 9999, after which dates do not print
_INT64 = range(-(1 << 63), 1 << 63)


class RecordProblem(ValueError):
    """What a record claims and cannot be; the message is the end of a sentence about it."""


_require = require_or(RecordProblem)


def check_numbers(record: Record) -> None:
    """Raise RecordProblem for a number that does not fit, is not finite, or cannot be what it is called."""
    _require(record.task.threads in range(1, 1 << 31), f"`threads` is {record.task.threads}")
    _require(record.seed in _INT64, "`seed` does not fit 64 bits")
    _require(record.trial in _INT64 and record.trial >= NO_TRIAL, "`trial` is negative or does not fit 64 bits")
    _require(min(record.batch, record.place) >= 0, "`batch` or `place` is negative")
    _require(max(record.batch, record.place) in _INT64, "`batch` or `place` does not fit 64 bits")
    _require(
        0 <= record.timestamp <= _LATEST_TIMESTAMP, f"`timestamp` is {record.timestamp}, no date of seconds since 1970"
    )
    _require(len(record.times) <= MOST_SAMPLES, f"it has more than {MOST_SAMPLES} times")
    _require(len(record.phases) <= MOST_PHASES, f"it has more than {MOST_PHASES} phases")
    _require_times(record)
    for name, seconds in record.phases:
        _require(0 <= seconds <= MOST_SECONDS, f"the phase `{name}` took {seconds} seconds")
    for name, value in record.params:
        _require(isinstance(value, str) or value in _INT64, f"`{name}` does not fit 64 bits")


def _require_times(record: Record) -> None:
    expected = () if record.expected_seconds is None else (record.expected_seconds,)
    within = f"not within {LEAST_SECONDS:g} to {MOST_SECONDS:g}"
    for what, values in (("a time", record.times), ("`expected_seconds`", expected)):
        wrong = [seconds for seconds in values if not LEAST_SECONDS <= seconds <= MOST_SECONDS]
        _require(not wrong, f"{what} is {wrong[0] if wrong else 0} seconds, {within}")
    prologue = record.prologue_seconds or 0.0
    _require(prologue <= MOST_SECONDS, f"`prologue_seconds` is {prologue}, more than {MOST_SECONDS:g}")


def check_texts(record: Record) -> None:
    """Raise RecordProblem for a text that is too long or cannot be written."""
    names = (name for pair in (*record.params, *record.phases) for name in pair if isinstance(name, str))
    task = record.task
    own = (record.program, record.trace, record.failure or "", record.code, *(visit.group for visit in record.visits))
    made = (record.space, record.code_version)
    for text in (*own, *made, task.target, task.program_hash, *names):
        _require(len(text) <= MOST_CHARACTERS, f"a text of it has more than {MOST_CHARACTERS} characters")
        _require(_is_unicode(text), "a text of it is not Unicode")
    _require(record.failure != "", "`failure` names no reason")


def check_meaning(record: Record) -> None:
    """Raise RecordProblem unless program, trace and target parse and belong together, and to the key."""
    _require(record.code_version.strip() != "", "`code_version` is empty")
    program = program_of(record)
    _require(program.params == record.params, "`params` are not all that the program has")
    _require(program.structural_hash() == record.task.program_hash, "`program_hash` is that of another program")
    target = _target(record.task.target)
    _require(str(target) == record.task.target, f"`target` is not written as metasched writes it: {target}")
    _require(target.threads == record.task.threads, f"`threads` is {record.task.threads}, and `target` says otherwise")
    trace = parsed_trace(record)
    made_for = trace.data.program + print_params(trace.data.params)
    _require(made_for == program.key, f"the trace is one of {made_for}, and the program is {program.key}")
    problems = trace.problems()
    _require(not problems, f"the trace is wrong: {problems[0] if problems else ''}")
    _require(not trace.holes, f"the trace leaves {', '.join(trace.holes[:3])} open, so that nobody measured it")


def program_of(record: Record) -> Program:
    """The program of a record. Raises RecordProblem for a text that is none."""
    return _program(record.program, record.params)


def parsed_trace(record: Record) -> Trace:
    """The trace of a record. Raises RecordProblem for a text that is none."""
    try:
        return Trace.parse(record.trace)
    except (MetaschedError, RecursionError) as error:
        raise RecordProblem(f"the trace does not parse: {_first_line(error)}") from error


def _is_unicode(text: str) -> bool:
    """Whether it has no surrogates, which stand for half a character, or for bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(maxsize=64)
def _program(text: str, params: tuple[tuple[str, Setting], ...]) -> Program:
    try:
        return parse_program(text, **dict(params))
    except (MetaschedError, RecursionError) as error:
        raise RecordProblem(f"the program does not parse: {_first_line(error)}") from error


@lru_cache(maxsize=64)
def _target(text: str) -> Target:
    try:
        return Target.parse(text)
    except MetaschedError as error:
        raise RecordProblem(f"the target does not parse: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
