"""`metasched net run`: run a model on arrays, time it, and compare its results with those of a file."""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from metasched.cli.arguments import UsageError, positive
from metasched.cli.command import Console
from metasched.cli.net_arguments import (
    Array,
    add_database,
    add_inputs,
    add_model,
    inputs_of,
    load_arrays,
    network_of,
)
from metasched.cli.render import table
from metasched.dtypes import is_float
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.precision.error import PrecisionError
from metasched.report.progress_text import duration
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted
from metasched.support.stopwatch import seconds_of

DIFFERS = 1
_TOLERANCE = 1e-3
_TIMED_S = 0.5
_LEAST_CALLS = 3
_SHOWN_VALUES = 4


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    add_database(parser)
    add_inputs(parser)
    parser.add_argument("--calls", type=positive, metavar="N", help="time so many calls (default: for half a second)")
    parser.add_argument("--save", metavar="FILE.npz", help="write the outputs there, by name")
    parser.add_argument(
        "--expect",
        metavar="FILE.npz",
        help="compare with the outputs there, by name, or in order if they have none; exit status 1 where one differs",
    )
    parser.add_argument(
        "--error",
        action=BooleanOptionalAction,
        help="run it in float32 as well, and say how far results are from that (default: at another precision)",
    )
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="T",
        help="how far outputs may be from those that --expect has, over the largest of them (default: "
        f"{_TOLERANCE:g} for floats, and 0 for integers and truth values)",
    )


@dataclass(frozen=True)
class RunResult:
    """What running a network gave; times in seconds. `gaps` are None where nothing is expected, `tolerance` where that
    of each output's type holds, and `error` where it was not asked for."""

    network: str
    precision: ProductPrecision
    outputs: Mapping[str, Array]
    compile_s: float
    seconds: Sequence[float]
    gaps: Mapping[str, float] | None
    tolerance: float | None
    error: PrecisionError | None

    @property
    def differs(self) -> bool:
        """Whether an output is too far from what is expected."""
        return not all(gap <= self.allowed(name) for name, gap in (self.gaps or {}).items())

    def allowed(self, name: str) -> float:
        """How far an output may be from what is expected."""
        if self.tolerance is not None:
            return self.tolerance
        return _TOLERANCE if is_float(self.outputs[name].dtype) else 0.0


def run(args: Namespace, console: Console) -> int:
    result = _run_network(args, console)
    if args.json:
        console.print_json(_as_json(result))
    else:
        console.print(_as_text(result))
    return DIFFERS if result.differs else 0


def _run_network(args: Namespace, console: Console) -> RunResult:
    if args.tolerance is not None and not args.expect:
        raise UsageError(
            "--tolerance says how far outputs may be from those that are expected",
            hint="add --expect FILE.npz, which has them, or leave it out",
        )
    expected = load_arrays(args.expect) if args.expect else None
    network = network_of(args, console, args.db)
    inputs = inputs_of(args, network)
    start = time.perf_counter()
    results = network(**inputs)
    compile_s = time.perf_counter() - start
    outputs = dict(zip(network.outputs, results if isinstance(results, tuple) else (results,), strict=True))
    if args.save:
        np.savez(args.save, **outputs)
    gaps = None if expected is None else compare(outputs, expected)
    asked = network.precision is not ProductPrecision.F32 if args.error is None else args.error
    error = network.precision_error(**inputs) if asked else None
    seconds = seconds_of_calls(lambda: network(**inputs), args.calls)
    return RunResult(network.graph.name, network.precision, outputs, compile_s, seconds, gaps, args.tolerance, error)


def _as_json(result: RunResult) -> dict[str, object]:
    gaps, error = result.gaps, result.error
    return {
        "network": result.network,
        "ms": statistics.median(result.seconds) * 1e3,
        "calls": len(result.seconds),
        "compile_s": result.compile_s,
        "outputs": {name: _facts(array) for name, array in result.outputs.items()},
        "differences": None if gaps is None else {name: _number(gap) for name, gap in gaps.items()},
        "precision": result.precision.value,
        "error": None if error is None else [_finite(asdict(each)) for each in error.outputs],
    }


def _as_text(result: RunResult) -> str:
    seconds = result.seconds
    spread = f" ({duration(min(seconds))} to {duration(max(seconds))})" if len(seconds) > 1 else ""
    times = f"{duration(statistics.median(seconds))} a call, median of {counted(len(seconds), 'call')}{spread}"
    lines = [
        table([["output", "type", "least", "mean", "most", "begins with"], *map(_row, result.outputs.items())]),
        "",
        f"{times}; loaded and compiled in {result.compile_s:.1f} s",
    ]
    if result.error is not None:
        lines.append(str(result.error))
    for name, gap in (result.gaps or {}).items():
        most = result.allowed(name)
        verdict = "within" if gap <= most else "beyond"
        lines.append(f"{name}: {gap:.2g} of the largest element from what is expected, {verdict} {most:g}")
    return "\n".join(lines)


def compare(outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> dict[str, float]:
    """How far each output is from what is expected at most, over the largest element of that; infinite where one of
    them is infinite or NaN and the other is not the same.

    Arrays are matched by name, or in order where they have the names that NumPy gives those without. Raises UsageError
    for what cannot be matched.
    """
    if list(expected) == [f"arr_{number}" for number in range(len(outputs))]:
        expected = dict(zip(outputs, expected.values(), strict=True))
    if not expected or expected.keys() - outputs.keys():
        raise UsageError(
            f"--expect has {', '.join(expected) or 'nothing'}, and the outputs are {', '.join(outputs)}: give them the "
            "same names, or none (np.savez(FILE, *arrays)) for all in order"
        )
    gaps = {}
    for name in outputs.keys() & expected.keys():
        got, want = outputs[name], expected[name]
        if got.shape != want.shape:
            raise UsageError(f"--expect: `{name}` has the shape {want.shape}, and the output has {got.shape}")
        gaps[name] = _gap(got, want)
    return {name: gaps[name] for name in outputs if name in gaps}


def _gap(got: Array, want: Array) -> float:
    first, second = got.astype(np.float64), want.astype(np.float64)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    finite = np.isfinite(second)
    if not (same | (np.isfinite(first) & finite)).all():
        return float("inf")
    off = np.abs(np.subtract(first, second, where=~same, out=np.zeros_like(first)))
    if not is_float(got.dtype):
        off = np.maximum(off, got != want)  # f64 has not all digits of large integers
    gap = float(off.max(initial=0.0))
    largest = float(np.abs(second, where=finite, out=np.zeros_like(second)).max(initial=0.0))
    return gap / largest if largest else gap


def seconds_of_calls(call: Callable[[], object], calls: int | None) -> list[float]:
    """The seconds of so many calls; where that is not said, of calls for about half a second, and three at least."""
    seconds: list[float] = []
    start = time.perf_counter()

    def is_enough() -> bool:
        if calls is not None:
            return len(seconds) >= calls
        return len(seconds) >= _LEAST_CALLS and time.perf_counter() - start >= _TIMED_S

    while not is_enough():
        seconds.append(seconds_of(call))
    return seconds


def _finite(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) if isinstance(value, float) else value for name, value in facts.items()}


def _number(value: float) -> float | None:
    """A number for JSON, which has no infinity."""
    return float(value) if np.isfinite(value) else None


def _facts(array: Array) -> dict[str, object]:
    numbers = array.astype(np.float64).ravel()
    some = numbers[np.isfinite(numbers)]
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "least": float(some.min()) if some.size else None,
        "mean": float(some.mean()) if some.size else None,
        "most": float(some.max()) if some.size else None,
        "not_finite": int(numbers.size - some.size),
    }


def _row(item: tuple[str, Array]) -> list[str]:
    name, array = item
    facts = _facts(array)
    first = ", ".join(f"{x:.4g}" for x in array.astype(np.float64).ravel()[:_SHOWN_VALUES])
    shown = [f"{facts[key]:.4g}" if facts[key] is not None else "-" for key in ("least", "mean", "most")]
    strange = f", {facts['not_finite']} not finite" if facts["not_finite"] else ""
    more = ", ..." if array.size > _SHOWN_VALUES else ""
    return [name, f"{array.dtype}{list(array.shape)}", *shown, first + more + strange]


def _tolerance(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not number >= 0:
        raise ArgumentTypeError(f"a number that is not negative is needed, such as 1e-3, not `{text}`")
    return number
