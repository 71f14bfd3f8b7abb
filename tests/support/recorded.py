"""Records of real candidates with times that were made up, as a search would have written them."""

from __future__ import annotations

import numpy as np

import metasched as ms
from metasched.database.base import Database
from metasched.database.record import Record, TaskKey, Visit, code_version
from metasched.ir.program import Program
from metasched.target import Target
from tests.support.targets import AVX512

TEXT = """\
program dense[N=32, M=64, K=16](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
"""


def dense(**sizes: int) -> Program:
    return ms.parse_program(TEXT, **sizes)


def records_of(program: Program, count: int, batch: int = 0, seed: int = 0, target: Target = AVX512) -> list[Record]:
    """Candidates of the default space, the rows of a few sketches; wide ones are fast."""
    rng = np.random.default_rng(seed)
    space = ms.space(program, target=target, max_sketches=3, seed=seed)
    traces: list[str] = []
    while len(traces) < count:
        sketch = space[len(traces) % len(space)]
        rows = sketch.repair(sketch.sample(rng, 8))
        legal = rows[sketch.mask(rows)]
        traces += [text for text in (str(sketch.trace_of(tuple(row))) for row in legal[:2]) if text not in traces]
    key = TaskKey.of(program, target)
    visits = [(Visit((1e-4 * (1 + n % 7),) * 3), Visit((1e-4 * (1 + n % 7),) * 3)) for n in range(count)]
    text, params = str(program), program.params
    return [
        Record(
            key,
            text,
            params,
            trace,
            visits[n],
            None,
            False,
            (),
            1e9 + n,
            seed,
            n,
            batch,
            n,
            f"c{n}",
            space="s",
            code_version=code_version(),
        )
        for n, trace in enumerate(traces[:count])
    ]


def add(database: Database, records: list[Record]) -> list[int]:
    return database.add_all(records)
