"""How well cost models rank candidates with tensor instructions: on operators of families that they never saw, and with
32 records of the task.

It is `model_quality` of other tasks: products and convolutions of halves and bytes, that were timed on a CPU with AMX.
Models learn from tasks of other families, those of `model_quality` among them. The two files of measurements are of two
CPUs, as what is installed is trained. A task has some 80 candidates, so that its own records are 32, and not 64.

Options are those of `model_quality`; `--data FILE` has the tasks that are judged. The table of several runs' lines is
`python -m benchmarks.model_quality FILE ...`.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.model_quality import chosen_contestants, described_samples, lines, seeds_of
from benchmarks.registry import Options, Result
from benchmarks.yardstick.data import DATA, TENSOR_DATA
from benchmarks.yardstick.evaluation import Protocol

_PROTOCOLS = (Protocol.UNSEEN, Protocol.FEW_OWN)


def run(options: Options) -> Iterator[Result]:
    """A line for each verdict, the ceiling first, and the table of all. Raises ValueError for an unknown model, and for
    a file without measurements."""
    chosen = chosen_contestants(options.models)
    judged, beside = described_samples(options, options.data or TENSOR_DATA), described_samples(options, DATA)
    yield from lines(judged, chosen, seeds_of(options), _PROTOCOLS, beside)
