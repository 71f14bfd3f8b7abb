"""The benchmarks compare like with like: programs, peers and inputs agree, and the registry is whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasched as ms
from benchmarks.__main__ import main
from benchmarks.arrays import load_aligned
from benchmarks.blocks import block, block_of_runs
from benchmarks.guess import Summary, layers_of
from benchmarks.kernel_cases import BY_NAME, CASES
from benchmarks.kernel_side import Alone
from benchmarks.kernels import argument_bytes, tvm_records, write_inputs
from benchmarks.network_shapes import LAYERS
from benchmarks.registry import BENCHMARKS, Options
from benchmarks.short_list import JUDGED, of_files
from benchmarks.sides import SideProcess, compare
from benchmarks.workloads import WORKLOADS
from metasched.lang import load_program
from metasched.operators import TWELVE, expert, load
from metasched.operators.experts import expert_names
from metasched.reference.execution import reference
from tests.support.kept_workers import brief_searches

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_program_computes_what_numpy_does(name: str) -> None:
    workload = WORKLOADS[name]
    program = load_program(workload.file, **workload.params)
    inputs = workload.inputs()
    expected = workload.peers["numpy"](*inputs)
    actual = reference(program)(*inputs)
    assert isinstance(actual, np.ndarray)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, atol=workload.tolerance * np.abs(expected).max())


@pytest.mark.slow
def test_peers_are_timed_in_processes_of_their_own() -> None:
    peers = ("numpy", "naive Numba")
    times = compare("relu_pad_matmul", {}, peers, threads=1, rounds=2)
    assert set(times) == set(peers)
    assert all(len(side.blocks) == 2 and side.median > 0 for side in times.values())


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_there(name: str) -> None:
    assert callable(BENCHMARKS[name].run)


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said of arguments that are wrong."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    return capsys.readouterr().err


def forget_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("METASCHED_TORCH", "METASCHED_TVM"))]:
        monkeypatch.delenv(name)


# Runs a benchmark in its short form, with these arguments, and returns what it printed.
Quickly = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Quickly]:
    """Without peers, and in this process, so that its searches look at few candidates."""
    forget_peers(monkeypatch)

    def run(*arguments: str) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments, "--quick", "--json"])
        assert main() == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    with brief_searches():
        yield run


def test_without_a_name_all_are_listed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert all(name in done.stdout for name in BENCHMARKS)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_expert_trace_of_every_kernel_fits_its_shape(name: str) -> None:
    case = BY_NAME[name]
    trace = case.trace()
    assert trace.data.program == case.operator
    trace.apply_to(case.program())


def test_kernels_are_compared_with_kernels_that_come_before() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert all(names.index(case.against) < names.index(case.name) for case in CASES if case.against is not None)


def test_operations_are_counted_as_those_of_floats() -> None:
    floats, integers = BY_NAME["matmul 1024^3"], BY_NAME["matmul 1024^3, u8 x s8 -> s32"]
    assert floats.operations == integers.operations == 2 * 1024**3


def test_every_side_reads_the_same_inputs(tmp_path: Path) -> None:
    program = load("layer_norm", M=3, N=5)
    x, _, _, eps = [load_aligned(file) for file in write_inputs(program, tmp_path)]
    assert isinstance(x, np.ndarray)
    assert x.shape == (3, 5)
    assert x.dtype == np.float32
    assert x.ctypes.data % 64 == 0
    assert isinstance(eps, float)
    assert argument_bytes(program) == 4 * (3 * 5 + 5 + 5 + 3 * 5)
    program = load("matmul_nn", M=4, N=5, K=6, T="u8", U="i8", ACC="i32")
    whole = [load_aligned(file) for file in write_inputs(program, tmp_path)]
    assert [a.dtype for a in whole if isinstance(a, np.ndarray)] == [np.uint8, np.int8]


def test_a_block_has_samples_of_every_length() -> None:
    calls: list[int] = []
    samples = block(lambda: calls.append(1))
    assert len(samples) >= 3
    assert all(sample > 0 for sample in samples)


def test_runs_are_as_long_as_a_sample() -> None:
    asked: list[int] = []

    def run(calls: int) -> float:
        asked.append(calls)
        time.sleep(0.02)
        return calls * 2e-6

    assert all(sample == pytest.approx(2e-6) for sample in block_of_runs(run))
    assert asked[0] == 1
    assert asked[-1] == 500  # a millisecond


def test_a_kernel_alone_runs_on_the_arguments_of_the_call() -> None:
    kernel = ms.compile(load("layer_norm", M=3, N=5))
    rng = np.random.default_rng(0)
    x, gamma, beta = (rng.standard_normal(shape, np.float32) for shape in ((3, 5), 5, 5))
    out = np.zeros((3, 5), np.float32)
    assert Alone(kernel.compiled, [x, gamma, beta, 1e-5, out]).run(2) > 0
    np.testing.assert_array_equal(out, kernel(x, gamma, beta, 1e-5))


def test_each_of_the_twelve_is_held_to_tvm() -> None:
    assert {case.suite: case.goal_tvm for case in CASES if case.suite is not None} == dict.fromkeys(TWELVE, 1.0)
    assert all(case.goal_tvm is None for case in CASES if case.suite is None)


def test_records_of_tvm_are_found_by_the_operator(tmp_path: Path) -> None:
    (tmp_path / "NRM").mkdir()
    options = Options(tvm_python="python", tvm_records=tmp_path)
    assert tvm_records(options, "NRM") == tmp_path / "NRM"
    assert tvm_records(options, "SFM") is None
    assert tvm_records(options, None) is None
    assert tvm_records(Options(), "NRM") is None


def test_tvm_needs_both_a_python_and_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_peers(monkeypatch)
    said = refused(monkeypatch, capsys, "kernels", "--tvm-python", "python")
    assert "--tvm-python and --tvm-records go together" in said


@pytest.mark.skipif("METASCHED_TVM_RECORDS" not in os.environ, reason="needs an environment with TVM, and its records")
def test_tvm_replays_a_record(tmp_path: Path) -> None:
    program = load("norm", M=256, N=256)
    files = write_inputs(program, tmp_path)
    records = str(Path(os.environ["METASCHED_TVM_RECORDS"], "NRM"))
    result = tmp_path / "result.npy"
    spec = {"suite": "NRM", "threads": 1, "records": records, "inputs": files, "result": str(result)}
    with SideProcess("TVM", [os.environ["METASCHED_TVM_PYTHON"], "-m", "benchmarks.tvm_side"], threads=1) as side:
        assert "version" in side.ask(json.dumps(spec))
        assert all(seconds > 0 for seconds in side.measure())
    np.testing.assert_allclose(np.load(result)[0], np.linalg.norm(np.load(files[0])), rtol=1e-5)


def test_each_of_the_twelve_is_guessed_at_a_dozen_layers() -> None:
    assert {suite: sum(layer.suite == suite for layer in LAYERS) for suite in TWELVE} == dict.fromkeys(TWELVE, 12)
    programs = [layer.program() for layer in LAYERS]
    assert len({program.key for program in programs}) == len(LAYERS)
    assert all(program.flops > 0 for program in programs)
    tuned_for = {TWELVE[suite].program().key for suite in TWELVE} | {expert(n).program().key for n in expert_names()}
    assert tuned_for.isdisjoint(program.key for program in programs)


def test_a_part_of_the_layers_can_be_asked_for() -> None:
    assert [layer.suite for layer in layers_of(Options(only=("SFM", "GMM"), shapes=2))] == ["GMM", "GMM", "SFM", "SFM"]
    assert layers_of(Options()) == list(LAYERS)
    first, *rest = layers_of(Options(only=("GMM",)))
    assert layers_of(Options(only=("GMM",), skip=1)) == rest
    assert layers_of(Options(only=("GMM",), shapes=1)) == [first]
    assert layers_of(Options(only=("GMM", "SFM"), skip=11, shapes=2))[0] == rest[-1]
    assert {layer.suite for layer in layers_of(Options(quick=True, only=("C1D",)))} == {"C1D"}


def test_means_are_geometric_and_over_what_there_is() -> None:
    summary = Summary()
    summary.add("C2D", {"ours_ms": 1.0, "ratio": 0.5, "tuned_ratio": 2.0, "tuned_over_guess": 4.0})
    summary.add("C2D", {"ours_ms": 1.0, "ratio": 8.0, "tuned_ratio": 8.0, "tuned_over_guess": 1.0})
    summary.add("SFM", {"ours_ms": None, "ratio": None, "tuned_ratio": None, "tuned_over_guess": None})
    convolution, softmax, whole = summary.lines()
    assert convolution["guess_to_pytorch"] == pytest.approx(2.0)
    assert convolution["guess_to_pytorch_below_1"] == 1
    assert softmax["tuned_to_guess"] is None
    assert softmax["results_differ"] == 1
    assert whole["tuned_to_pytorch"] == pytest.approx(4.0)
    assert whole["shapes"] == 3


def test_regrets_of_several_parts_are_summarised(tmp_path: Path) -> None:
    """Of a shape that was measured twice the last line counts; lines of summaries are passed over."""

    def line(case: str, operator: str, regret: float) -> dict[str, object]:
        return {"case": case, "operator": operator, "best_ms": 1.0, "short_list_regret": regret, "short_list_s": 3.0}

    parts = [
        [line("C2D a", "conv2d_nhwc", 9.0), line("SFM b", "softmax", 1.5), {"case": "all, median"}],
        [line("C2D a", "conv2d_nhwc", 1.1), line("C2D c", "conv2d_nhwc", 1.3)],
    ]
    for n, lines in enumerate(parts):
        (tmp_path / f"{n}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    convolution, softmax, whole = of_files([tmp_path / "0.jsonl", tmp_path / "1.jsonl"])
    assert (convolution["shapes"], convolution["short_list"], convolution["short_list_worst"]) == (
        2,
        1.2000000000000002,
        1.3,
    )
    assert softmax["short_list"] == 1.5
    assert (whole["shapes"], whole["short_list"], whole["short_list_worst"]) == (3, 1.3, 1.5)
    assert whole["top_8"] is None
    (tmp_path / "2.jsonl").write_text("{}\n")
    with pytest.raises(ms.MetaschedError, match="no line of a shape"):
        of_files([tmp_path / "2.jsonl"])


@pytest.mark.slow
def test_the_short_list_is_compared_with_the_best_known(quickly: Quickly) -> None:
    shape, softmax = quickly("short_list", "--only", "SFM")
    regrets = [value for name, value in shape.items() if name.endswith("_regret")]
    assert len(regrets) >= len(JUDGED)
    assert min(regrets) == 1
    assert sum(shape["roles"].values()) == 4
    assert shape["roles"].get("expert", 0) + shape["roles"].get("neighbour", 0) > 0
    assert softmax["short_list"] == softmax["short_list_worst"] == shape["short_list_regret"]


def test_operators_of_the_sweep_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(monkeypatch, capsys, "guess", "--only", "C2D,CONV")
    assert "no operator `CONV`: there are C1D, C2D" in said


@pytest.mark.slow
def test_guesses_are_compared_with_a_search(quickly: Quickly) -> None:
    notes, *lines = quickly("guess", "--only", "NRM")
    assert any("PyTorch left out" in note for note in notes["notes"])
    assert [line["case"].split()[0] for line in lines] == ["NRM", "NRM,", "all,"]
    assert lines[0]["ours_ms"] > 0
    assert lines[0]["peer_ms"] is lines[0]["ratio"] is None
    assert lines[0]["tuned_over_guess"] == pytest.approx(lines[0]["ours_ms"] / lines[0]["tuned_ms"])
    assert lines[-1]["tuned_to_guess"] > 0


@pytest.mark.slow
def test_kernels_are_timed_and_their_rates_shown(quickly: Quickly) -> None:
    notes, small, odd = quickly("kernels")
    assert any("PyTorch left out" in note for note in notes["notes"])
    assert any("TVM left out" in note for note in notes["notes"])
    assert small["case"] == "matmul 128^3"
    assert small["ours_ms"] > 0
    assert small["peer_ms"] is small["ratio"] is None
    assert odd["ratio"] == pytest.approx(odd["gflops"] / small["gflops"])
