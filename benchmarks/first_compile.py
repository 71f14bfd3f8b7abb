"""How long the first kernel of a process takes: `ms.compile` of programs that nobody tuned, each in a fresh process.

`compile_s` does not count the import of metasched's interface, of Numba and of LLVM, which are `import_s`. The rules,
the cost model and what is known are read in it. `another_s` is a further compile in the same process, of the same
program at another size. Medians of a few processes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import metasched as ms
from benchmarks.registry import Options, Result
from metasched.compiler.cpu.first_use import import_code_generator

_TEXTS: Mapping[str, tuple[str, str]] = {
    "dense + tanh, own names": (
        "N",
        """
program mine[N=90](W: f32[60, N], V: f32[50, 60], bias: f32[N]) -> Z: f32[50, N]:
    mul: T[row, col] = sum[inner](V[row, inner] * W[inner, col])
    act: Z[row, col] = tanh(T[row, col] + bias[col])
""",
    ),
    "attention's scores, own names": (
        "L",
        """
program scores[L=197](Q: f32[L, 6, 64], K: f32[L, 6, 64]) -> S: f32[6, L, L]:
    S[h, i, j] = sum[d](Q[i, h, d] * K[j, h, d])
""",
    ),
    "convolution 14 x 14, own names": (
        "CO",
        """
program layer[CO=96](image: f32[16, 16, 64], filter: f32[3, 3, 64, CO]) -> out: f32[14, 14, CO]:
    out[h, w, o] = sum[r, s, c](image[h + r, w + s, c] * filter[r, s, c, o])
""",
    ),
}
_LIBRARY: Mapping[str, tuple[str, dict[str, int]]] = {
    "conv2d_nhwc of the library": ("CO", {"H": 14, "W": 14, "CI": 64, "CO": 96}),
    "softmax of the library": ("N", {"M": 100, "N": 300}),
}
CASES = (*_TEXTS, *_LIBRARY)
_PROCESSES = 5


def run(options: Options) -> Iterator[Result]:
    """A line for each program."""
    for case in CASES[:1] if options.quick else CASES:
        took = [_in_fresh_process(case, options.threads) for _ in range(1 if options.quick else _PROCESSES)]
        yield {
            "case": case,
            "compile_s": statistics.median(one["compile_s"] for one in took),
            "slowest_s": max(one["compile_s"] for one in took),
            "import_s": statistics.median(one["import_s"] for one in took),
            "another_s": statistics.median(one["another_s"] for one in took),
            "guess": took[0]["guess"],
            "processes": len(took),
            "threads": options.threads,
        }


def _in_fresh_process(case: str, threads: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_compile", case, str(threads)],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def program_of(case: str, more: int = 0) -> ms.Program:
    """A program, with one of its sizes so much larger."""
    if case in _TEXTS:
        name, text = _TEXTS[case]
        usual = ms.parse_program(text)
        return ms.parse_program(text, **{name: int(dict(usual.params)[name]) + more}) if more else usual
    name, params = _LIBRARY[case]
    operator = case.partition(" ")[0]
    return ms.operator(operator, **{**params, name: params[name] + more})


def _measure(case: str, threads: int) -> dict[str, object]:
    program, other = program_of(case), program_of(case, 32)
    start = time.perf_counter()
    compile_it, target = ms.compile, ms.Target.detect(threads=threads)
    import_code_generator()
    imported = time.perf_counter()
    kernel = compile_it(program, target=target)
    first = time.perf_counter()
    compile_it(other, target=target)
    another = time.perf_counter()
    return {
        "import_s": imported - start,
        "compile_s": first - imported,
        "another_s": another - first,
        "guess": str(kernel.report).splitlines()[0],
    }


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
