"""The commands of `metasched net`: what they print, take, and say of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

from metasched.cli.main import build_parser
from metasched.cli.net_arguments import bound_again
from metasched.cli.net_run import compare
from tests.support import command_line
from tests.support.fake_runner import LevelRunner
from tests.support.onnx_models import model, node, random, value

W = random(4, 3, seed=1)


def run(*arguments: str) -> tuple[int, str, str]:
    return command_line.run("net", *arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`m.onnx`, softmax(x w), with a size left open; `bad.onnx`, which is refused."""
    path = tmp_path_factory.mktemp("net")
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 4])
    nodes = [node("MatMul", "x w", "z"), node("Softmax", "z", "y")]
    onnx.save(model(nodes, [x], ["y"], {"w": W}), path / "m.onnx")
    onnx.save(model([node("ImageDecoder", "x", "y")], [value("x", random(3))], ["y"]), path / "bad.onnx")
    return path


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x @ W - (x @ W).max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def test_without_an_action_all_are_listed() -> None:
    status, out, _ = run()
    assert status == 0
    assert "metasched net run MODEL.onnx" in out


def test_a_model_is_shown(folder: Path) -> None:
    status, out, _ = run("show", str(folder / "m.onnx"), "-D", "batch=2")
    assert status == 0
    assert "input   x: f32[2, 4]" in out
    assert "as imported: 2 nodes, 2 of them run programs, 2 distinct" in out
    _, whole, _ = run("show", str(folder / "m.onnx"), "-D", "batch=2", "--graph")
    assert "program " in whole
    for view, text in (("optimised", "network small(x: f32[2, 4])"), ("passes", "dead_code: "), ("tasks", "# task 0")):
        _, out, _ = run("show", str(folder / "m.onnx"), "--shape", "x=2,4", f"--{view}")
        assert text in out
    _, out, _ = run("show", str(folder / "m.onnx"), "-D", "batch=2", "--pass", "fusion")
    before, after = out.partition("# after")[::2]
    assert before.startswith("fusion: ")
    assert ["# before\nnetwork small" in before, "network small" in after] == [True, True]
    status, _, err = run("show", str(folder / "m.onnx"), "-D", "batch=2", "--pass", "fusoin")
    assert (status, "no pass `fusoin`: there are dead_code, " in err) == (2, True)
    for options in (["--graph"], ["--optimised"], ["--pass", "fusion"]):
        status, _, err = run("show", str(folder / "m.onnx"), "-D", "batch=2", *options, "--json")
        assert (status, f"{options[0]} is text, and --json has the summary" in err) == (2, True)
    status, out, _ = run("show", str(folder / "m.onnx"), "-D", "batch=2", "--json")
    data = json.loads(out)
    assert data["inputs"] == {"x": "f32[2, 4]"}
    assert {task["runs"] for task in data["tasks"]} == {1}
    assert "dead_code" in {one["name"] for one in data["passes"]}


def test_a_model_runs_on_given_arrays_and_is_compared(folder: Path) -> None:
    x = random(2, 4)
    np.save(folder / "x.npy", x)
    np.savez(folder / "y.npz", y=softmax(x))
    call = ("run", str(folder / "m.onnx"), "--calls", "2", "-D", "batch=2", "--input", f"x={folder / 'x.npy'}")
    status, out, _ = run(*call, "--expect", str(folder / "y.npz"), "--save", str(folder / "saved.npz"))
    assert status == 0
    assert "of the largest element from what is expected, within 0.001" in out
    with np.load(folder / "saved.npz") as saved:
        np.testing.assert_allclose(saved["y"], softmax(x), rtol=1e-5)
    np.savez(folder / "other.npz", softmax(x) * 1.1)
    status, out, _ = run(*call, "--expect", str(folder / "other.npz"), "--json")
    assert status == 1
    data = json.loads(out)
    assert data["ms"] > 0
    assert 0.05 < data["differences"]["y"] < 0.1
    assert data["outputs"]["y"]["shape"] == [2, 3]
    status, out, _ = run(*call, "--expect", str(folder / "other.npz"), "--tolerance", "0.2")
    assert (status, "from what is expected, within 0.2" in out) == (0, True)
    status, _, err = run(*call, "--tolerance", "0.2")
    assert (status, "hint: add --expect FILE.npz" in err) == (2, True)


INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("got", "want", "gap"),
    [
        ([1.0, INF, -INF, NAN], [1.5, INF, -INF, NAN], 1 / 3),
        ([1.0, INF], [1.0, -INF], INF),
        ([1.0, NAN], [1.0, INF], INF),
        ([1.0, 2.0], [1.0, INF], INF),
        ([True, False], [True, True], 1.0),
        ([2**62, 7], [2**62 + 1, 7], 2.0**-62),
        ([2**62, 7], [2**62, 7], 0.0),
    ],
)
def test_how_far_an_output_is_from_what_is_expected(got: list[float], want: list[float], gap: float) -> None:
    assert compare({"y": np.array(got)}, {"y": np.array(want)}) == {"y": pytest.approx(gap, abs=0)}


def test_integers_are_expected_as_they_are(tmp_path: Path) -> None:
    ids = np.array([49999, 7])
    onnx.save(model([node("Abs", "x", "y")], [value("x", ids)], ["y"]), tmp_path / "ids.onnx")
    np.savez(tmp_path / "x.npz", x=ids)
    call = ("run", str(tmp_path / "ids.onnx"), "--calls", "1", "--input", str(tmp_path / "x.npz"), "--expect")
    assert run(*call, str(_saved(tmp_path, ids)))[0] == 0
    status, out, _ = run(*call, str(_saved(tmp_path, ids + 1)))
    assert (status, "beyond 0\n" in out) == (1, True)
    assert run(*call, str(_saved(tmp_path, ids + 1)), "--tolerance", "1e-3")[0] == 0


def _saved(folder: Path, array: np.ndarray) -> Path:
    path = folder / "expected.npz"
    np.savez(path, y=array)
    return path


def test_the_error_against_float32_is_printed_where_it_is_asked_for(folder: Path) -> None:
    arguments = ("run", str(folder / "m.onnx"), "-D", "batch=2", "--calls", "1")
    status, out, _ = run(*arguments, "--precision", "bf16")
    assert status == 0
    assert "bf16 against float32:\n  `y` differs by " in out
    assert "against float32" not in run(*arguments)[1]
    (found,) = json.loads(run(*arguments, "--error", "--json")[1])["error"]
    assert (found["name"], found["absolute"]) == ("y", 0.0)


def test_a_model_is_tuned_and_runs_from_the_database(tmp_path: Path) -> None:
    file, db = str(tmp_path / "big.onnx"), f"sqlite:///{tmp_path}/t.db"
    onnx.save(model([node("MatMul", "x w", "y")], [value("x", random(32, 64))], ["y"], {"w": random(64, 48)}), file)
    status, out, err = run("tune", file, "--trials", "1", "--db", db, "--json")
    assert status == 0, err
    *progress, result = (json.loads(line) for line in out.splitlines())
    assert progress[-1]["event"] == "progress"
    assert (result["event"], result["trials"], len(result["tasks"])) == ("result", 1, 1)
    status, out, _ = run("tune", file, "--trials", "1", "--db", db)
    assert status == 0
    assert "0 of them new" in out
    assert f"metasched net run {file} --db {db}" in out
    assert "tuned" in run("profile", file, "--runs", "1", "--db", db)[1]
    assert json.loads(run("show", file, "--db", db, "--json")[1])["tasks"][0]["trials"] == 1
    status, _, err = run("run", file, "--db", f"sqlite:///{tmp_path}/none.db")
    assert status == 2
    assert "none.db" in err


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a product that is large enough to be tuned, of which nothing is run."""
    monkeypatch.setattr("metasched.measure.executors.local.LocalRunner", lambda _: LevelRunner())
    onnx.save(
        model([node("MatMul", "x w", "y")], [value("x", random(32, 64))], ["y"], {"w": random(64, 48)}),
        tmp_path / "big.onnx",
    )
    return str(tmp_path / "big.onnx")


def test_what_ends_tuning_and_what_its_order_goes_by(product: str) -> None:
    def tuned(*options: str) -> int:
        """How many trials there are in the end."""
        call = ("tune", product, "--db", "sqlite:///:memory:", "--strategy", "random", "--json")
        status, out, err = run(*call, *options)
        assert status == 0, err
        return int(json.loads(out.splitlines()[-1])["trials"])

    # A network that is as fast as it has to be is left alone by the scheduler that goes by that.
    fast = ("--objective", "latency=60", "--trials", "20")
    assert tuned(*fast, "--scheduler", "gradient") < tuned(*fast, "--scheduler", "round_robin") == 20
    assert tuned("--patience", "3") == 4


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--scheduler", "gradent"), "there is no task scheduler `gradent`\n  hint: did you mean `gradient`"),
        (("--objective", "latency"), "there is no objective `latency`; there are sum, "),
        (("--knowledge", "none.knowledge"), "none.knowledge"),
    ],
)
def test_what_tuning_cannot_go_by_is_said(product: str, option: tuple[str, ...], message: str) -> None:
    status, _, err = run("tune", product, "--trials", "1", "--db", "sqlite:///:memory:", *option)
    assert (status, message in err) == (2, True)


def test_a_model_is_profiled(folder: Path) -> None:
    call = ("profile", str(folder / "m.onnx"), "-D", "batch=1", "--runs", "2")
    status, out, _ = run(*call)
    assert status == 0
    assert "kernel, and where its schedule comes from" in out
    data = json.loads(run(*call, "--json")[1])
    assert data["runs"] == 2
    assert data["kernels"][-1]["seconds"] > 0


def test_a_model_is_exported(folder: Path) -> None:
    call = ("export", str(folder / "m.onnx"), str(folder / "out"), "-D", "batch=1")
    status, out, _ = run(*call)
    assert status == 0
    assert "from out.network import run\n  run(x)" in out
    assert (folder / "out/network.py").is_file()
    assert "network.py" in json.loads(run(*call, "--json")[1])["files"]
    (folder / "full").mkdir(exist_ok=True)
    (folder / "full/notes.txt").write_text("mine")
    status, _, err = run("export", str(folder / "m.onnx"), str(folder / "full"), "-D", "batch=1")
    assert status == 2
    assert "Traceback" not in err


def test_inputs_that_are_not_given_are_random(folder: Path) -> None:
    call = ("run", str(folder / "m.onnx"), "-D", "batch=1", "--calls", "1", "--seed")
    outs = [run(*call, seed)[1].splitlines()[1] for seed in "001"]
    assert outs[0] == outs[1] != outs[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "none.onnx"), "none.onnx cannot be read"),
        (("show", "m.onnx"), "leaves sizes open"),
        (("show", "m.onnx", "-D", "bach=1"), "no size is named `bach`\n  hint: those left open are `batch`"),
        (("show", "m.onnx", "-D", "batch=1", "-D", "batch=2"), "-D batch is given twice"),
        (("show", "m.onnx", "-D", "target=1"), "no size is named `target`\n  hint: those left open are `batch`"),
        (("show", "bad.onnx"), "ImageDecoder (opset 22)"),
        (("run", "m.onnx", "-D", "batch=1", "--input", "q=x1.npy"), "no input `q`; it has x"),
        (("run", "m.onnx", "-D", "batch=1", "--input", "x=none.npy"), "none.npy: No such file"),
        (("run", "m.onnx", "-D", "batch=3", "--input", "x1.npy"), "the input `x` is f32[3, 4]"),
        (("run", "m.onnx", "-D", "batch=1", "--input", "bad.onnx"), "bad.onnx is no .npy file"),
        (("run", "m.onnx", "-D", "batch=1", "--expect", "two.npz"), "--expect has a, b, and the outputs are y"),
        (("run", "m.onnx", "-D", "batch=1", "--expect", "other.npz"), "--expect has foo, and the outputs are y"),
        (("run", "m.onnx", "-D", "batch=1", "--expect", "more.npz"), "--expect has y, foo, and the outputs are y"),
        (("run", "m.onnx", "-D", "batch=1", "--expect", "x1.npy"), "x1.npy has one array, and arrays by name (.npz)"),
        (("run", "m.onnx", "-D", "batch=1", "--expect", "cut.npz"), "cut.npz is no .npz file of arrays"),
        (
            ("run", "m.onnx", "-D", "batch=1", "--expect", "wrong.npz"),
            "`y` has the shape (2,), and the output has (1, 3)",
        ),
    ],
)
def test_mistakes_are_sentences(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(folder)
    np.save("x1.npy", random(1, 4))
    np.savez("other.npz", foo=random(1, 3))
    np.savez("more.npz", y=random(1, 3), foo=random(2))
    Path("cut.npz").write_bytes(Path("other.npz").read_bytes()[:99])
    np.savez("two.npz", a=random(2), b=random(2))
    np.savez("wrong.npz", y=random(2))
    status, out, err = run(*arguments)
    assert status == 2
    assert message in err
    assert not out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-D", "batch=x"), "the size `batch` is a number"),
        (("-D", "batch"), "not of the form NAME=N"),
        (
            ("-D", "batch=2/2"),
            "a step is a number from 1 at the end of a range of `batch`, batch=32:512/32, not `batch=2/2`",
        ),
        (("-D", "batch=2:8/0"), "a step is a number from 1 at the end of a range of `batch`"),
        (("-D", "batch=2:8/"), "a step is a number from 1 at the end of a range of `batch`"),
        (("--shape", "x=1,b"), "the shape of `x` is numbers between commas"),
        (("--value", "x=abc"), "the value of `x` is numbers"),
        (("--state", "x"), "not of the form INPUT=OUTPUT"),
        (("--value", "x=none.npy"), "none.npy cannot be read"),
    ],
)
def test_options_are_checked(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(SystemExit):
        run("show", "m.onnx", *arguments)
    assert message in capsys.readouterr().err


def test_sizes_in_steps(folder: Path) -> None:
    path = str(folder / "m.onnx")
    status, out, err = run("run", path, "-D", "batch=2:4:8/2", "--at", "batch=4", "--calls", "1")
    assert status == 0, err
    assert "4, 3" in out
    status, _, err = run("run", path, "-D", "batch=2:8/2", "--at", "batch=5", "--calls", "1")
    assert status == 2
    assert "2 to 8 in steps of 2; the nearest are 4 and 6" in err
    status, _, err = run("run", path, "-D", "batch=2:7/2", "--calls", "1")
    assert "the sizes from 2 in steps of 2 have no 7" in err
    args = build_parser().parse_args(["net", "run", path, "-D", "batch=2:4:8/2", "-D", "a/b=3"])
    assert bound_again(args).startswith(" -D batch=2:4:8/2 -D a/b=3")


def test_states_are_held_by_the_network(tmp_path: Path) -> None:
    given = [value("x", random(3)), value("s", random(3))]
    onnx.save(model([node("Add", "s x", "n"), node("Relu", "n", "y")], given, ["y", "n"]), tmp_path / "sum.onnx")
    status, out, err = run("show", str(tmp_path / "sum.onnx"), "--state", "s=n", "--json")
    assert status == 0, err
    assert set(json.loads(out)["inputs"]) == {"x"}


def test_caches_that_grow_are_held_by_the_network(tmp_path: Path) -> None:
    text = "m (float[1] x, float[past] s) => (n) { n = Concat<axis=0>(s, x) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 22]>{text}'), tmp_path / "grown.onnx")
    path = str(tmp_path / "grown.onnx")
    status, out, err = run("show", path, "--grows", "past=8", "--json")
    assert status == 0, err
    assert set(json.loads(out)["inputs"]) == {"x", "past"}
    status, out, err = run("show", path, "--grows", "past=8", "-D", "past=3")
    assert status == 2
    assert "the size `past` is given by -D, and by --grows" in err


def test_values_are_settled_at_load(tmp_path: Path) -> None:
    shape = helper.make_tensor_value_info("s", onnx.TensorProto.INT64, [2])
    onnx.save(model([node("Reshape", "x s", "y")], [value("x", random(2, 3)), shape], ["y"]), tmp_path / "r.onnx")
    np.save(tmp_path / "s.npy", np.array([3, 2]))
    for given in ("s=3,-1", "s=[3, 2]", f"s={tmp_path / 's.npy'}"):
        status, out, err = run("show", str(tmp_path / "r.onnx"), "--value", given)
        assert status == 0, err
        assert "output  y: f32[3, 2]" in out
