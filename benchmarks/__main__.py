"""`python -m benchmarks NAME [--json]`; without a name, what there is."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from benchmarks.registry import BENCHMARKS, Options

# Options that name what is compared with, each also a variable of the environment.
PEERS = (
    ("torch-python", "PATH", "a Python that has PyTorch"),
    ("tvm-python", "PATH", "a Python that has TVM"),
    ("tvm-records", "DIR", "a folder with a MetaSchedule JSON database of each of the twelve operators: DIR/C1D, ..."),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure a figure, and print it.")
    parser.add_argument("name", nargs="?", choices=sorted(BENCHMARKS), metavar="NAME", help="without it, lists all")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--names", action="store_true", help="only the names, one a line")
    parser.add_argument("--quick", action="store_true", help="a small version, to see that it works")
    parser.add_argument("--threads", type=int, default=2, help="threads each side may use (default: %(default)s)")
    for option, metavar, what in PEERS:
        name = f"METASCHED_{option.upper().replace('-', '_')}"
        parser.add_argument(
            f"--{option}", default=os.environ.get(name) or None, metavar=metavar, help=f"{what} (or {name})"
        )
    args = parser.parse_args()
    if (args.tvm_python is None) != (args.tvm_records is None):
        parser.error("--tvm-python and --tvm-records go together: TVM replays records")
    if args.names:
        print("\n".join(BENCHMARKS))
        return 0
    if args.name is None:
        for benchmark in BENCHMARKS.values():
            print(f"{benchmark.name:20}  {benchmark.summary}")
        return 0
    records = None if args.tvm_records is None else Path(args.tvm_records).resolve()
    options = Options(
        threads=args.threads,
        quick=args.quick,
        torch_python=args.torch_python,
        tvm_python=args.tvm_python,
        tvm_records=records,
    )
    for result in BENCHMARKS[args.name].run(options):
        print(json.dumps(result) if args.json else render(result), flush=True)
    return 0


def render(result: dict[str, object]) -> str:
    return "\n".join(f"{key:>24}  {_text(value)}" for key, value in result.items()) + "\n"


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
