"""Compiled networks on disk: found by a second process without the model's graph, and never trusted where damaged."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.errors import BuildWarning
from metasched.graph import loading
from metasched.graph.code import kernels
from metasched.graph.code.building import BuilderProcesses
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.saved.network_archive import network_bytes, network_of
from metasched.graph.saved.network_cache import NetworkCache
from metasched.graph.saved.network_key import model_digest, network_key
from metasched.graph.signature import DeferredGraph
from metasched.target import Target
from tests.support.decoders import Decoder
from tests.support.graphs import parsed
from tests.support.loops import newton_text
from tests.support.onnx_models import model, node, random, value
from tests.unit.graph.test_network_of_sizes import MODEL, inputs

X = random(3, 4)
W = random(4, 5)
# What a start from the cache has no use for.
UNUSED = ("onnx", "lightgbm", "google.protobuf", "sqlite3")
SECOND = f"""
import sys
import numpy as np
import metasched as ms
net = ms.load_onnx(sys.argv[1])
found = net(np.load(sys.argv[2]))
assert not (wrong := [name for name in {UNUSED} if name in sys.modules]), wrong
np.save(sys.argv[3], found)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NetworkCache:
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path / "cache"))
    return NetworkCache.open()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = model([node("MatMul", "x w", "y"), node("Relu", "y", "z")], [value("x", X)], ["z"], {"w": W})
    written = tmp_path / "m.onnx"
    written.write_bytes(made.SerializeToString())
    return written


def file_of(cache: NetworkCache) -> Path:
    assert cache.folder is not None
    (found,) = cache.folder.iterdir()
    return found


def key_of(path: Path, **sizes: int) -> str:
    key = network_key(model_digest(path), sizes, {}, {}, {}, Target.detect(), ProductPrecision.F32)
    assert key is not None
    return key


def test_a_second_process_runs_it_without_the_model_s_graph(cache: NetworkCache, path: Path, tmp_path: Path) -> None:
    expected = ms.load_onnx(path)(X)
    np.save(tmp_path / "x.npy", X)
    given = [path, tmp_path / "x.npy", tmp_path / "z.npy"]
    subprocess.run([sys.executable, "-c", SECOND, *map(str, given)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), expected)
    np.testing.assert_allclose(expected, np.maximum(X @ W, 0), rtol=1e-5, atol=1e-6)


def test_a_network_from_disk_is_whole(cache: NetworkCache, path: Path) -> None:
    first = ms.load_onnx(path).compile()
    second = ms.load_onnx(path)
    assert (second.inputs, second.outputs, second.steps) == (first.inputs, first.outputs, first.steps)
    assert repr(second) == repr(first)  # the model is read for it
    assert str(second.graph) == str(first.graph)
    assert str(second.tasks()) == str(first.tasks())
    np.testing.assert_array_equal(second(x=X), first(X))


def test_a_network_of_stopgaps_is_not_kept(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where builders end over schedules, as under a lack of memory, a later process is to build them."""
    weights = {f"w{n}": random(64, 64 + 16 * n, seed=n) for n in range(4)}
    given = random(64, 64)
    nodes = [node("MatMul", f"x {name}", f"y{name}") for name in weights]
    path = tmp_path / "m.onnx"
    made = model(nodes, [value("x", given)], [f"y{name}" for name in weights], weights)
    path.write_bytes(made.SerializeToString())
    net = ms.load_onnx(path)
    with monkeypatch.context() as losing:
        losing.setattr(kernels, "BuilderProcesses", partial(BuilderProcesses, "tests.e2e.workers.ending_task_builder"))
        with pytest.warns(BuildWarning, match="runs as it is written"):
            net.compile()
    assert {step.origin for step in net.steps} == {"as written: crash exit 3"}
    assert cache.folder is not None
    assert not list(cache.folder.iterdir())
    found = ms.load_onnx(path).compile()
    assert all(step.schedule is not None for step in found.steps)
    assert file_of(cache)


def test_weights_without_elements_are_kept(cache: NetworkCache, tmp_path: Path) -> None:
    """They lie at an end of the memory of weights, which may have nothing at all."""
    none = np.zeros((0, 4), np.float32)
    nodes = [node("MatMul", "x none_", "y"), node("Concat", "x none", "z", axis=0), node("Add", "x w", "s")]
    path = tmp_path / "empty.onnx"
    for weights, outputs in (({}, ["y"]), ({"none": none}, ["y", "z"]), ({"none": none, "w": X}, ["y", "z", "s"])):
        made = model(nodes[: len(outputs)], [value("x", X)], outputs, {"none_": none.T, **weights})
        path.write_bytes(made.SerializeToString())
        for _ in range(2):
            got = ms.load_onnx(path)(X)
            whole = got if isinstance(got, tuple) else (got,)
            assert [one.shape for one in whole] == [(3, 0), (3, 4), (3, 4)][: len(outputs)]
    np.testing.assert_array_equal(whole[2], X + X)
    assert not cache.ignored


def test_states_and_positions_are_kept(cache: NetworkCache) -> None:
    decoder = Decoder()
    data = decoder.model(1).SerializeToString()
    nets = [ms.load_onnx(data, states=decoder.states).compile() for _ in range(2)]
    for position, token in enumerate(range(3)):
        given = np.array([token]), np.array([position], np.int64)
        first, second = (net(*given) for net in nets)
        np.testing.assert_array_equal(second, first)
    for name in decoder.states:
        np.testing.assert_array_equal(nets[1].state[name], nets[0].state[name])
    with pytest.raises(ms.KernelError, match="has room for"):
        nets[1](np.array([0]), np.array([decoder.room], np.int64))
    assert not cache.ignored


def test_a_model_that_changed_since_is_said(cache: NetworkCache, path: Path) -> None:
    ms.load_onnx(path).compile()
    net = ms.load_onnx(path)
    path.write_bytes(path.read_bytes() + b"\x12\x01x")
    with pytest.raises(ms.NetworkError, match="has changed since it was loaded"):
        _ = net.graph


@pytest.mark.parametrize(
    ("at", "reason"), [(0, "it is damaged"), (60, "it is damaged"), (-1, "its weights are damaged")]
)
def test_damaged_networks_are_counted_and_made_anew(cache: NetworkCache, path: Path, at: int, reason: str) -> None:
    expected = ms.load_onnx(path)(X)
    kept = file_of(cache)
    data = bytearray(kept.read_bytes())
    data[at] ^= 1
    kept.write_bytes(data)
    assert cache.executable(key_of(path), Target.detect()) is None
    assert dict(cache.ignored) == {reason: 1}
    np.testing.assert_array_equal(ms.load_onnx(path)(X), expected)
    assert cache.executable(key_of(path), Target.detect()) is not None


@pytest.mark.parametrize("length", [0, 20, 200, -1])
def test_cut_networks_are_not_used(cache: NetworkCache, path: Path, length: int) -> None:
    ms.load_onnx(path).compile()
    kept = file_of(cache)
    kept.write_bytes(kept.read_bytes()[:length])
    assert cache.get(key_of(path)) is None
    assert cache.ignored.total() == 1


def test_files_that_others_can_write_and_links_are_not_trusted(cache: NetworkCache, path: Path, tmp_path: Path) -> None:
    ms.load_onnx(path).compile()
    kept = file_of(cache)
    kept.chmod(0o666)
    assert cache.get(key_of(path)) is None
    kept.chmod(0o600)
    assert cache.get(key_of(path)) is not None
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert cache.get(key_of(path)) is None
    assert cache.ignored.total() == 2


def test_a_folder_that_others_can_write_is_not_used(cache: NetworkCache, path: Path) -> None:
    assert cache.folder is not None
    cache.folder.chmod(0o777)
    with pytest.warns(ms.CacheWarning, match="compiled networks are not kept: others can write"):
        assert NetworkCache.open().folder is None


def test_other_bytes_are_no_network(cache: NetworkCache, path: Path) -> None:
    ms.load_onnx(path).compile()
    stored = cache.get(key_of(path))
    assert stored is not None
    data = network_bytes(stored)
    assert network_of(data) == stored
    for wrong in (b"", data[:-1], data + b"x", b"\2" + b"\0" * 7 + b"[]", b"\2" + b"\0" * 7 + b"{}"):
        with pytest.raises(ValueError, match=r"no network|described|Expecting|Unterminated"):
            network_of(wrong)


def test_a_profile_and_a_session_of_a_network_from_disk(cache: NetworkCache, path: Path) -> None:
    expected = ms.load_onnx(path)(X)
    net = ms.load_onnx(path)
    np.testing.assert_array_equal(net.session()(X), expected)
    assert [kernel.node for kernel in net.profile(X, runs=2).kernels] == [step.node for step in net.steps]


def test_tuned_kernels_are_not_kept_as_untuned_ones(cache: NetworkCache, path: Path) -> None:
    net = ms.load_onnx(path)
    (task,) = (row.task for row in net.tasks().rows)
    net.schedule_by({task.key: Choice(None, ScheduleOrigin.GIVEN)})
    net.compile()
    assert cache.folder is not None
    assert not list(cache.folder.iterdir())


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(model: object) -> None:
        raise AssertionError(f"{model} was read")

    monkeypatch.setattr(loading, "read_model", refused)


@pytest.mark.usefixtures("cache")
def test_buckets_of_lengths_start_without_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, path = Decoder(layers=1), tmp_path / "m.onnx"
    path.write_bytes(decoder.growing_model().SerializeToString())
    ids = np.arange(decoder.room) % decoder.words

    def decoded() -> tuple[np.ndarray, int]:
        net = ms.load_onnx(path, seq=1, past=ms.GrowingSize(decoder.room, buckets=(8,)))
        made = np.concatenate([net(ids[n : n + 1], past=n) for n in range(decoder.room)])
        return made, net.memory().weight_bytes

    first = decoded()
    forbid_reading(monkeypatch)
    second = decoded()
    np.testing.assert_array_equal(second[0], first[0])
    assert second[1] == first[1]


@pytest.mark.usefixtures("cache")
def test_buckets_of_prompts_start_without_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, path = Decoder(layers=1), tmp_path / "m.onnx"
    path.write_bytes(decoder.growing_model().SerializeToString())
    ids = np.arange(5) % decoder.words

    def prompt(count: int) -> np.ndarray:
        net = ms.load_onnx(path, seq=(1, 4), past=ms.GrowingSize(decoder.room))
        return np.asarray(net(ids[:count], past=0))

    first = prompt(3)
    forbid_reading(monkeypatch)
    np.testing.assert_array_equal(prompt(3), first)
    np.testing.assert_allclose(prompt(4)[:3], first, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("cache")
def test_inputs_of_all_lengths_are_said_by_a_bucket_of_short_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    text = """m (float[seq, 2] x, float[past, 2] c, float[total] mask) => (y, next) <int64[1] one = {1}> {
        next = Concat<axis = 0>(c, x)  m = Unsqueeze(mask, one)  y = Mul(next, m) }"""
    path.write_bytes(parsed(text).SerializeToString())
    x, mask = np.ones((3, 2), np.float32), np.ones(24, np.float32)

    def load() -> ms.NetworkOfSizes:
        net = ms.load_onnx(path, seq=(3, 5), past=ms.GrowingSize(24, buckets=(6, 12)), total="past + seq")
        assert isinstance(net, ms.NetworkOfSizes)
        np.testing.assert_array_equal(net(x, mask, past=0), x)
        return net

    first = load()
    forbid_reading(monkeypatch)
    second = load()
    assert second.inputs == first.inputs
    assert second.signature.returned == first.signature.returned


def test_buckets_of_sizes_start_without_the_model(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(MODEL.SerializeToString())

    def computed(sizes: tuple[int, ...]) -> list[np.ndarray]:
        net = ms.load_onnx(path, batch=1, seq=(1, 4), states={"kept": "next"})
        return [net(*inputs(seq)) for seq in sizes]

    first = computed((4, 1, 3))
    assert cache.folder is not None
    assert len(list(cache.folder.iterdir())) == 2  # up to 4, and 1
    with monkeypatch.context() as patched:
        forbid_reading(patched)
        np.testing.assert_equal(computed((4, 1, 3)), first)
        with pytest.raises(AssertionError, match="was read"):
            computed((2,))
    assert np.isfinite(computed((2,))).all()
    for file in cache.folder.iterdir():
        file.write_bytes(b"damaged")
    np.testing.assert_equal(computed((4, 1, 3)), first)


ENDS_AT_ONCE = """
import sys
import metasched as ms
from metasched.graph.saved import large_writes
large_writes._LARGE_BYTES = 0  # any network is large
ms.load_onnx(sys.argv[1]).compile()
"""


def test_a_large_network_is_kept_by_a_process_that_ends_at_once(cache: NetworkCache, path: Path) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", ENDS_AT_ONCE, str(path)], check=True)
    assert cache.executable(key_of(path), Target.detect()) is not None


def test_loops_that_data_end_are_kept_and_found(cache: NetworkCache, tmp_path: Path) -> None:
    path = tmp_path / "loop.onnx"
    path.write_bytes(parsed(newton_text()).SerializeToString())
    a = np.float32([4, 9, 2, 100])
    first = ms.load_onnx(path)
    wanted = first(a)
    again = ms.load_onnx(path)
    assert isinstance(again._given, DeferredGraph)
    assert again.compiled().plan == first.compiled().plan
    for got, want in zip(again(a), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    assert len(wanted[1]) < 40
    assert not cache.ignored
