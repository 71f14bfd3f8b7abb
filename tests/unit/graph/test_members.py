"""Networks of one size, of lengths that grow and of ranges of sizes have the same face."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.graph.growing_network import GrowingNetwork
from metasched.graph.tuning.networks import tune_networks
from tests.support.decoders import Decoder
from tests.support.fake_runner import FakeRunner
from tests.unit.graph.test_network_of_sizes import MODEL, WIDE, inputs

DECODER = Decoder(layers=1)
IDS = np.random.default_rng(3).integers(0, DECODER.words, DECODER.room)

# Run where nothing of this package, nor of what it needs besides NumPy, can be imported.
ALONE = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"metasched", "numba", "llvmlite", "onnx", "scipy"}:
            raise ImportError(f"{name} is not to be imported")

sys.meta_path.insert(0, Refused())
import numpy as np
from grown.network import run as grown
from ranged.network import run as ranged

said = np.load("said.npz")
ids, room = said["ids"], len(said["ids"])
for network in (grown, grown.session()):
    found = np.concatenate([network(ids[n : n + 1], past=n) for n in range(room)])
    np.testing.assert_array_equal(found, said["logits"])
    for name, array in network.state.items():
        np.testing.assert_array_equal(array, said[name])
for seq in range(1, 7):
    np.testing.assert_array_equal(ranged(said[f"x{seq}"], bias=said[f"bias{seq}"]), said[f"y{seq}"])
np.testing.assert_array_equal(ranged.state["kept"], said["kept"])
assert ranged.inputs[0][2] == (1, "seq", 4) and ranged.outputs[0][2] == (1, "seq", 4)
x = np.zeros((1, 7, 4), np.float32)
for wrong in (
    lambda: grown(ids[:1], past=room),
    lambda: ranged(x, np.zeros((1, 7), np.float32)),
    lambda: ranged(x[:, :5], np.zeros((1, 4), np.float32)),
    lambda: ranged(x[:, :5].astype("f8"), np.zeros((1, 5), np.float32)),
):
    try:
        wrong()
    except ValueError as error:
        print(error)
    else:
        raise AssertionError("it was taken")
"""


@pytest.fixture(scope="module")
def ranged() -> ms.NetworkOfSizes:
    net = ms.load_onnx(MODEL, batch=1, seq=(1, 6), states={"kept": "next"})
    assert isinstance(net, ms.NetworkOfSizes)
    return net


@pytest.fixture(scope="module")
def grown() -> GrowingNetwork:
    net = ms.load_onnx(DECODER.growing_model(), seq=1, past=ms.GrowingSize(DECODER.room, buckets=(4, 8)))
    assert isinstance(net, GrowingNetwork)
    return net


def test_what_a_network_has_those_of_several_sizes_have_or_say_who_has_it(
    ranged: ms.NetworkOfSizes, grown: GrowingNetwork
) -> None:
    public = {name for name in {*dir(ms.Network), *vars(ranged.at(seq=1))} if not name.startswith("_")}
    assert all(hasattr(grown, name) for name in public)
    for name in public - {*dir(type(ranged)), *vars(ranged)}:
        with pytest.raises(AttributeError, match=r"each of `net.members` has"):
            getattr(ranged, name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ranged.nothing


def test_all_is_compiled_ahead_in_the_background(ranged: ms.NetworkOfSizes) -> None:
    assert not ranged.is_compiled
    assert ranged.prepare().result() is ranged
    assert ranged.is_compiled
    assert ranged.names == ("seq up to 6", "seq up to 3", "seq 1")
    assert str(ranged.memory()).count("arena of") == len(ranged.members)
    assert len(ranged.tasks()) >= len(ranged.members[0].tasks())
    assert "3 networks; a call runs one" in str(ranged.tasks())


def test_types_say_which_sizes_are_open(ranged: ms.NetworkOfSizes) -> None:
    assert {name: str(type_) for name, type_ in ranged.inputs.items()} == {"x": "f32[1, seq, 4]", "bias": "f32[1, seq]"}
    assert str(ranged.outputs["y"]) == "f32[1, seq, 4]"
    assert ranged.inputs["x"].at({"seq": 5}).shape == (1, 5, 4)


def test_a_session_has_a_state_of_its_own(ranged: ms.NetworkOfSizes) -> None:
    other = ranged.session()
    before = ranged.state["kept"].copy()
    other(*inputs(3))
    assert other.state["kept"].any()
    np.testing.assert_array_equal(ranged.state["kept"], before)


def test_profiles_and_errors_are_of_the_sizes_of_a_call(ranged: ms.NetworkOfSizes) -> None:
    state = ranged.state["kept"].copy()
    assert ranged.profile(*inputs(5), runs=2).kernels
    assert ranged.precision_error(*inputs(5)).outputs
    np.testing.assert_array_equal(ranged.state["kept"], state)


def test_exported_they_take_and_give_the_same_bits(
    ranged: ms.NetworkOfSizes, grown: GrowingNetwork, tmp_path: Path
) -> None:
    grown.state.reset()
    said = {"ids": IDS, "logits": np.concatenate([grown(IDS[n : n + 1], past=n) for n in range(DECODER.room)])}
    ranged.state.reset()
    for seq in range(1, 7):
        said[f"x{seq}"], said[f"bias{seq}"] = inputs(seq)
        said[f"y{seq}"] = ranged(*inputs(seq))
    np.savez(tmp_path / "said.npz", kept=ranged.state["kept"], **said, **grown.state)
    grown.export(tmp_path / "grown")
    ranged.export(tmp_path / "ranged")
    weights = sum(network.compiled().weights.nbytes for network in grown.members)
    assert (tmp_path / "grown" / "weights.bin").stat().st_size <= weights
    ran = subprocess.run([sys.executable, "-c", ALONE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "`past` is 12, and there is room for a call at 0 to 11" in ran.stdout
    assert "was not exported for these sizes: {'seq': 7}; it takes `seq` from 1 to 6\n" in ran.stdout


def test_buckets_are_tuned_in_one_session_that_goes_on(tmp_path: Path) -> None:
    wide = ms.load_onnx(WIDE, n=(20, 40))
    runner, db = FakeRunner(), f"sqlite:///{tmp_path}/t.db"
    report = wide.tune(2, db, runner=runner, strategy="random", progress=False)
    assert len(report.tables) == len(wide.members) == 2
    assert report.measured == 2
    assert tune_networks([wide], 2, db=db, runner=runner, strategy="random", progress=False).measured == 0
    found = ms.load_onnx(WIDE, n=(20, 40), db=db).members[0].choices.keys()
    # A network that was just tuned leaves out what is slower in its place.
    assert found >= wide.members[0].choices.keys()
    assert found
