"""Exported networks: folders that run with NumPy alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.graph.code.choices import Choice, ScheduleOrigin
from tests.support.loops import GOES_ON_BY, counted_by_numpy, counting, decoder, decoder_inputs
from tests.support.onnx_models import model, node, random, value

X, W = random(64, 128), random(128, 256, seed=1)

# Texts that begin so run where nothing of this package, nor of what it needs besides NumPy, can be imported.
NUMPY_ALONE = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"metasched", "numba", "llvmlite", "onnx", "scipy"}:
            raise ImportError(f"{name} is not to be imported")

sys.meta_path.insert(0, Refused())
import numpy as np
"""

ALONE = (
    NUMPY_ALONE
    + """
import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from fast.network import run

x = np.load("x.npy")
first = run(x)
with ThreadPoolExecutor(4) as pool:
    for found in pool.map(lambda _: run(X=x), range(16)):
        for a, b in zip(found, first, strict=True):
            np.testing.assert_array_equal(a, b)
np.savez("results.npz", *first)
for wrong, error in (((), TypeError), ((x, x), TypeError), ((x.T,), ValueError), ((x.astype("f8"),), ValueError)):
    try:
        run(*wrong)
    except error:
        continue
    raise AssertionError(f"{wrong} was taken")
for copied in (pickle.dumps, copy.deepcopy):
    try:
        copied(run)
    except TypeError as error:
        assert "import `run` from its folder" in str(error)
        continue
    raise AssertionError("it was copied")
"""
)


def network() -> ms.Network:
    nodes = [
        node("MatMul", "X W", "H"),
        node("Softmax", "H", "S"),
        node("Transpose", "S", "T", perm=[1, 0]),
        node("Identity", "X", "Same"),
    ]
    made = ms.load_onnx(model(nodes, [value("X", X)], ("T", "S", "Same"), {"W": W}), target=ms.Target.detect(threads=2))
    made.choices = {
        key: Choice(_parallel(first.program) if first.op == "MatMul" else None, ScheduleOrigin.GIVEN)
        for key, (first, *_) in made.optimised.tasks.items()
    }
    return made


def _parallel(program: ms.Program) -> ms.Trace:
    sch = ms.Schedule(program)
    sch.parallel(sch.get_loops(sch.get_block("Y"))[0])
    return sch.trace


def test_an_exported_network_gives_what_the_network_gives_and_imports_only_numpy(tmp_path: Path) -> None:
    net = network()
    assert net.export(tmp_path / "fast") == tmp_path / "fast"
    np.save(tmp_path / "x.npy", X)
    subprocess.run([sys.executable, "-c", ALONE], cwd=tmp_path, check=True)
    with np.load(tmp_path / "results.npz") as results:
        for found, wanted in zip(results.values(), net(X), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_what_is_in_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ms.NetworkError, match=r"has other files, such as notes.txt"):
        network().export(tmp_path)
    with pytest.raises(ms.NetworkError, match="cannot be written"):
        network().export(tmp_path / "notes.txt")


def test_a_folder_is_written_again(tmp_path: Path) -> None:
    folder = network().export(tmp_path / "fast")
    before = (folder / "network.json").read_text()
    assert network().export(folder) == folder
    assert (folder / "network.json").read_text() == before
    assert json.loads(before)["inputs"] == [["X", "float32", [64, 128]]]


LOOP_ALONE = (
    NUMPY_ALONE
    + """
from concurrent.futures import ThreadPoolExecutor
from fast.network import run

given = np.load("given.npz")
calls = [[given[f"{name}{n}"] for name in ("x", "pos", "cache", "last")] for n in range(3)]
with ThreadPoolExecutor(3) as pool:
    found = list(pool.map(lambda call: run(*call), calls * 4))
np.savez("results.npz", **{f"{label}{n}": a for n, one in enumerate(found[:3]) for label, a in zip("abc", one)})
for n, one in enumerate(found):
    for again, first in zip(one, found[n % 3], strict=True):
        np.testing.assert_array_equal(again, first)
"""
)


def test_loops_that_data_end_run_with_numpy_alone(tmp_path: Path) -> None:
    net = decoder()
    net.export(tmp_path / "fast")
    calls = [decoder_inputs(at, last) for at, last in ((2, 1), (9, 99), (0, 3))]
    names = ("x", "pos", "cache", "last")
    given = {f"{name}{n}": array for n, call in enumerate(calls) for name, array in zip(names, call, strict=True)}
    np.savez(tmp_path / "given.npz", **given)
    subprocess.run([sys.executable, "-c", LOOP_ALONE], check=True, cwd=tmp_path)
    results = np.load(tmp_path / "results.npz")
    lengths = []
    for n, call in enumerate(calls):
        for label, wanted in zip("abc", net(*call), strict=True):
            np.testing.assert_array_equal(results[f"{label}{n}"], wanted)
        lengths.append(len(results[f"a{n}"]))
    assert len(set(lengths)) > 1


# Parent and children call at once, with inputs of their own; `run` has a state, which each changes for itself.
FORKED = """
import multiprocessing, os, signal, threading
import numpy as np
from fast.network import run

def given(n):
    return np.random.default_rng(n).standard_normal((64, 128)).astype("f4")

def called(n):
    run.reset()
    first = run(given(n))
    return b"".join(found.tobytes() for found in (first, run(given(n + 1)), run.state["held"]))

def wrong(ns):
    return sum(called(n) != right[n] for n in ns)

signal.alarm(50)
numbers = range(8)
right = [called(n) for n in numbers]
assert len(set(right)) == 8
child = os.fork()
if not child:
    os._exit(wrong([0, 1, 2, 3] * 25))
assert not wrong([4, 5, 6, 7] * 25)
assert os.waitpid(child, 0)[1] == 0
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert not any(pool.imap_unordered(wrong, [[n] * 10 for n in numbers]))
held = run.state["held"].copy()
child = os.fork()
if not child:
    run.state["held"][:] = 7
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert (run.state["held"] == held).all()
done = threading.Event()

def running():
    while not done.is_set():
        run(given(0))

thread = threading.Thread(target=running)
thread.start()
for _ in range(10):
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(wrong([3]))
    assert os.waitpid(child, 0)[1] == 0
done.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_has_memory_threads_and_a_state_of_its_own(threads: int, tmp_path: Path) -> None:
    held = np.zeros((64, 128), np.float32)
    nodes = [
        node("Tanh", "X", "T"),
        node("Add", "T held", "held2"),
        node("MatMul", "held2 W", "H"),
        node("Softmax", "H", "S"),
        node("Transpose", "S", "R", perm=[1, 0]),
    ]
    given = model(nodes, [value("X", X), value("held", held)], ("R", "held2"), {"W": W})
    target = ms.Target.detect(threads=threads)
    net = ms.load_onnx(given, target=target, states={"held": "held2"})
    net.choices = {
        key: Choice(_parallel(first.program) if first.op == "MatMul" else None, ScheduleOrigin.GIVEN)
        for key, (first, *_) in net.optimised.tasks.items()
    }
    net.export(tmp_path / "fast")
    done = subprocess.run(
        [sys.executable, "-c", FORKED], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


COUNTING_ALONE = (
    NUMPY_ALONE
    + """
from fast.network import run

for x in (0, 7):
    y, seen = run(np.float32(x))
    print(float(y), *seen)
"""
)


@pytest.mark.parametrize("goes_on", GOES_ON_BY)
def test_what_is_in_a_step_says_in_an_export_too_whether_there_is_another(tmp_path: Path, goes_on: str) -> None:
    counting(goes_on, given_out=True).export(tmp_path / "fast")
    command = [sys.executable, "-c", COUNTING_ALONE]
    run = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    wanted = [(float(y), *seen) for y, seen in map(counted_by_numpy, (0, 7))]
    assert run.stdout.splitlines() == [" ".join(map(str, one)) for one in wanted]
