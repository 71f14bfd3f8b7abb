"""The benchmarks there are: a file each, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """What every benchmark is told: the threads of each side, whether a small version will do, and the peers that some
    compare with: a Python that has PyTorch; one that has TVM, and the folder of its records (both or neither), and a
    file with what TVM's tuning came to. What a sweep over shapes takes: operators (all, where none is named), how many
    shapes of each after how many that are skipped, trials of a search, seeds (the benchmark's own, where none is
    named), and what guesses may know, by its name. What the yardstick of cost models takes: a file of measurements, the
    models to judge (all, where none is named), and a folder in which features are kept for the next time. What the
    comparison of networks takes: names of networks, models by their files, the sizes that these leave open, and seconds
    to tune each (None for no tuning). Whether strategies and ablations are compared live, by tuning, and not on the
    frozen table; after how many seconds nothing new is begun then, and whether searches begin with what is known. A
    Python that has Halide, which pipelines are run on both (all, where none is named), after how many seconds an
    autoscheduler is given up, and whether only what is kept is made. A folder with another commit of the project, to be
    compared with."""

    threads: int = 2
    quick: bool = False
    torch_python: str | None = None
    tvm_python: str | None = None
    tvm_records: Path | None = None
    tvm_figures: Path | None = None
    only: tuple[str, ...] = ()
    shapes: int | None = None
    skip: int = 0
    trials: int = 64
    seeds: tuple[int, ...] = ()
    known: str = "all"
    data: Path | None = None
    models: tuple[str, ...] = ()
    kept: Path | None = None
    networks: tuple[str, ...] = ()
    model: Sequence[Path] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    budget: float | None = None
    live: bool = False
    seconds: float | None = None
    from_nothing: bool = False
    halide_python: str | None = None
    pipelines: tuple[str, ...] = ()
    limit: int = 120
    prepare: bool = False
    checkout: Path | None = None


# A line of output. Every comparison has at least `case`, `ours_ms`, `peer`, `peer_ms` and `ratio` (peer over ours).
Result = dict[str, object]


class OptionError(ValueError):
    """An option that a benchmark cannot use; the message says what it can."""


@dataclass(frozen=True)
class Benchmark:
    name: str
    summary: str

    @property
    def run(self) -> Callable[[Options], Iterator[Result]]:
        """The benchmark's function; its module is imported when it is asked for."""
        function: Callable[[Options], Iterator[Result]] = import_module(f"benchmarks.{self.name}").run
        return function


_ALL = (
    Benchmark("peak", "what this machine can do at most: multiply-adds a second, and bytes a second by kind of access"),
    Benchmark("dense_relu_quality", "dense + ReLU 512^3 against NumPy and two naive Numba loops, median of five seeds"),
    Benchmark(
        "kernels", "the expert traces of the operators against PyTorch and TVM, and as a fraction of those peaks"
    ),
    Benchmark(
        "twelve", "the twelve operators tuned by the search alone, against TVM's best, PyTorch and expert traces"
    ),
    Benchmark("guess", "guesses for layers of real networks against 64 trials and PyTorch, a dozen shapes an operator"),
    Benchmark(
        "short_list", "how far the guess, eight favourites, 16 trials and a search are from the best known there"
    ),
    Benchmark("composition", "what each group of rules adds: a dense layer of BERT-large in f32, bf16 and u8 x s8"),
    Benchmark("tensor_cores", "tuned products of bf16 and of bytes, by AMX and VNNI, against f32 and PyTorch's bf16"),
    Benchmark(
        "mobilenet_blocks", "MobileNet-v2's blocks tuned as one task, against their three convolutions tuned apart"
    ),
    Benchmark("compile_time", "seconds of one core to compile a candidate of that space, emission included"),
    Benchmark("structures", "milliseconds to make a structure of a space, and to analyse its features"),
    Benchmark(
        "scoring", "candidates a second on one core through a generation of the search; a batch with every strategy"
    ),
    Benchmark("first_compile", "seconds of `ms.compile` in a fresh process, of programs that nobody tuned"),
    Benchmark("cluster", "tuning many tasks on 1, 2 and 4 machines of a dask cluster that take a fixed time"),
    Benchmark("tune_time", "64 trials of it from start to end, and where the time went"),
    Benchmark("resume", "seconds to the next proposals of a search that has 10,000 or 100,000 records"),
    Benchmark("session_start", "seconds to the first measurement of a session's first task, and of those after it"),
    Benchmark(
        "search_noise", "searches of the twelve operators: noise of a time, distinct code, tuned against the guess"
    ),
    Benchmark(
        "wrong_constants", "searches by constants that are 2 to 4 times too large or too small, against the right ones"
    ),
    Benchmark("neighbours", "small parallel regions beside busy processes, against one thread and against OpenMP's"),
    Benchmark("region_start", "what it costs to start a parallel region, and a barrier in one, against OpenMP's"),
    Benchmark("regions", "six small nests that depend on one another: in one parallel region, in six, on one thread"),
    Benchmark("tiles", "cycles of 130 small nests on one core beside what the hand-made estimate says of them"),
    Benchmark("model_quality", "how well the cost models rank measured candidates of operators that they never saw"),
    Benchmark("tensor_quality", "the same of candidates with tensor instructions, that were timed on a CPU with AMX"),
    Benchmark("strategies", "every strategy on a frozen table of measured codes; `--live`: the best of them by tuning"),
    Benchmark(
        "ablations", "what models, crossing, diversity, evolution and the rules add: on the table, and by tuning"
    ),
    Benchmark("against", "searches of this checkout against another commit's: on the frozen table, `--live` by tuning"),
    Benchmark("pretraining", "what a model trained on another CPU, made up or (`--live`) not, is worth in 16 codes"),
    Benchmark("networks", "whole networks against ONNX Runtime and PyTorch: untuned, tuned, in bf16; start, memory"),
    Benchmark("few_bits", "products with weights of a few bits against ONNX Runtime, on one thread, untuned"),
    Benchmark("trees", "ensembles of decision trees against ONNX Runtime, on one thread, untuned"),
    Benchmark(
        "pipelines", "pipelines of images: guess and search against Halide's autoschedulers and schedules by hand"
    ),
    Benchmark("onnx_nodes", "ONNX's own node tests: how many pass, are refused and why, and are wrong"),
    Benchmark("task_schedulers", "trials until a network's kernels are as fast: the gradient against round robin"),
    Benchmark("memory", "growth of the parent and of the workers over 1,000 candidates"),
)
BENCHMARKS: Mapping[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}
