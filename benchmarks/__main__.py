"""`python -m benchmarks NAME [--json]`; without a name, what there is."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import fields
from pathlib import Path

from benchmarks.registry import BENCHMARKS, OptionError, Options
from metasched.operators import TWELVE


def _resolve_path(text: str) -> Path:
    return Path(text).resolve()


# Options that name what is compared with, each also a variable of the environment.
PEERS = (
    ("torch-python", str, "PATH", "a Python that has PyTorch"),
    ("halide-python", str, "PATH", "a Python that has Halide 21"),
    ("tvm-python", str, "PATH", "a Python that has TVM"),
    (
        "tvm-records",
        _resolve_path,
        "DIR",
        "a folder with a MetaSchedule JSON database of each of the twelve operators: DIR/C1D, ...",
    ),
    ("tvm-figures", Path, "FILE", "TVM's best times and the seconds of its tuning, for `twelve`"),
)


def main() -> int:
    parser = _parser()
    args = parser.parse_args()
    # Both sides start processes, whose start is a figure: a user's Python has kept its compiled modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if (args.tvm_python is None) != (args.tvm_records is None):
        parser.error("--tvm-python and --tvm-records go together: TVM replays records")
    if args.names:
        print("\n".join(BENCHMARKS))
        return 0
    if args.name is None:
        for benchmark in BENCHMARKS.values():
            print(f"{benchmark.name:20}  {benchmark.summary}")
        return 0
    options = Options(**{field.name: getattr(args, field.name) for field in fields(Options)})
    try:
        for result in BENCHMARKS[args.name].run(options):
            print(json.dumps(result) if args.json else render(result), flush=True)
    except OptionError as error:
        parser.error(str(error))
    return 0


def _parser() -> argparse.ArgumentParser:
    """What it parses has an attribute for each field of `Options`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure a figure, and print it.")
    parser.add_argument("name", nargs="?", choices=sorted(BENCHMARKS), metavar="NAME", help="without it, lists all")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--names", action="store_true", help="only the names, one a line")
    parser.add_argument("--quick", action="store_true", help="a small version, to see that it works")
    parser.add_argument("--threads", type=int, default=2, help="threads each side may use (default: %(default)s)")
    for option, type_, metavar, what in PEERS:
        name = f"METASCHED_{option.upper().replace('-', '_')}"
        default = os.environ.get(name) or None
        parser.add_argument(f"--{option}", type=type_, default=default, metavar=metavar, help=f"{what} (or {name})")
    for add in (_add_sweeps, _add_yardsticks, _add_networks, _add_contests, _add_pipelines):
        add(parser)
    return parser


def _add_sweeps(parser: argparse.ArgumentParser) -> None:
    sweep = parser.add_argument_group(
        "of the sweeps `guess` and `short_list`, of `wrong_constants`, `model_quality`, of contests"
    )
    sweep.add_argument("--only", type=_operators, default=(), metavar="C2D,...", help=f"of {', '.join(TWELVE)}")
    sweep.add_argument("--shapes", type=_positive, metavar="N", help="of each operator, at most N (default: all)")
    sweep.add_argument("--skip", type=_positive, default=0, metavar="N", help="of each operator, the first N")
    sweep.add_argument(
        "--trials", type=_natural, default=Options.trials, metavar="N", help="of a search (default: %(default)s)"
    )
    sweep.add_argument("--seeds", type=_seeds, default=(), metavar="0,...", help="of what has chance (default: 0 to 4)")
    sweep.add_argument(
        "--known",
        default=Options.known,
        metavar="NAME",
        help="what guesses know, of `guess`: all, traces (of experts), sizes (what was found for others), rules alone",
    )


def _add_yardsticks(parser: argparse.ArgumentParser) -> None:
    judging = parser.add_argument_group("of the yardsticks `model_quality` and `tensor_quality`")
    judging.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="measurements, of contests a folder (default: those of the repository)",
    )
    judging.add_argument("--models", type=_names, default=(), metavar="trees,...", help="who is judged (default: all)")
    judging.add_argument("--kept", type=Path, metavar="DIR", help="keep what was made there, for the next run")


def _add_networks(parser: argparse.ArgumentParser) -> None:
    whole = parser.add_argument_group("of `networks`")
    whole.add_argument("--networks", type=_names, default=(), metavar="resnet50,...", help="which (default: all)")
    whole.add_argument("--model", type=Path, action="append", default=[], metavar="FILE.onnx", help="a model of yours")
    whole.add_argument("--sizes", type=_sizes, default={}, metavar="batch=1,...", help="sizes that it leaves open")
    whole.add_argument("--budget", type=_positive, metavar="SECONDS", help="tune each for so long (default: no tuning)")


def _add_contests(parser: argparse.ArgumentParser) -> None:
    contest = parser.add_argument_group("of the contests `strategies`, `ablations` and `against`")
    contest.add_argument("--live", action="store_true", help="tune on this machine, not on the frozen table")
    contest.add_argument(
        "--seconds", type=_positive, metavar="S", help="live, begin nothing new after so long: --kept goes on next time"
    )
    contest.add_argument("--from-nothing", action="store_true", help="live, without a guess and what is known")
    contest.add_argument("--checkout", type=Path, metavar="DIR", help="a folder with another commit, of `against`")


def _add_pipelines(parser: argparse.ArgumentParser) -> None:
    images = parser.add_argument_group("of `pipelines`")
    images.add_argument("--pipelines", type=_names, default=(), metavar="blur,...", help="which (default: all)")
    images.add_argument(
        "--limit",
        type=_positive,
        default=Options.limit,
        metavar="S",
        help="of each of Halide's schedules, compilation included (default: %(default)s)",
    )
    images.add_argument("--prepare", action="store_true", help="only make what --kept keeps, and time nothing")


def _operators(text: str) -> tuple[str, ...]:
    """Names of the twelve operators, between commas. Raises ArgumentTypeError, which names those there are."""
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in TWELVE]
    if unknown:
        raise argparse.ArgumentTypeError(f"no operator `{unknown[0]}`: there are {', '.join(TWELVE)}")
    return names


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _seeds(text: str) -> tuple[int, ...]:
    """Numbers between commas. Raises ArgumentTypeError for what is no natural number."""
    seeds = text.split(",")
    wrong = [seed for seed in seeds if not seed.isdecimal()]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is no seed, which are 0, 1, 2, ...")
    return tuple(map(int, seeds))


def _sizes(text: str) -> dict[str, int]:
    """`batch=1,seq=128` as a mapping. Raises ArgumentTypeError for what is none."""
    pairs = [item.partition("=") for item in text.split(",")]
    wrong = [name for name, _, value in pairs if not name.strip() or not value.strip().isdecimal()]
    if wrong:
        raise argparse.ArgumentTypeError(f"{text!r} does not say sizes, such as batch=1,seq=128")
    return {name.strip(): int(value) for name, _, value in pairs}


def _positive(text: str) -> int:
    """Raises ArgumentTypeError for what is no positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive integer")
    return int(text)


def _natural(text: str) -> int:
    """Raises ArgumentTypeError for what is no natural number."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no natural number")
    return int(text)


def render(result: dict[str, object]) -> str:
    return "\n".join(f"{key:>24}  {_text(value)}" for key, value in result.items()) + "\n"


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
