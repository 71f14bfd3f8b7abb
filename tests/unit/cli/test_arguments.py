from __future__ import annotations

import io
import os
import subprocess
import sys
from argparse import ArgumentTypeError, Namespace
from pathlib import Path

import pytest

from metasched.cli.arguments import UsageError, input_range, inputs_of, params, positive, setting, timed_target
from metasched.cli.command import Command, Console, Implementation
from metasched.cli.main import COMMANDS, build_parser, main


@pytest.mark.parametrize(("text", "pair"), [("N=256", ("N", 256)), ("pad = -1", ("pad", -1))])
def test_setting(text: str, pair: tuple[str, int]) -> None:
    assert setting(text) == pair


@pytest.mark.parametrize(
    ("text", "message"), [("N", "NAME=VALUE"), ("N=big", "an integer or an element type"), ("1=2", "NAME=")]
)
def test_wrong_settings_say_what_is_expected(text: str, message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=message):
        setting(text)


def test_a_parameter_given_twice_is_a_mistake() -> None:
    assert params([("N", 1), ("M", 2)]) == {"N": 1, "M": 2}
    with pytest.raises(UsageError, match="-D N is given twice, as 1 and as 2"):
        params([("N", 1), ("N", 2)])


@pytest.mark.parametrize("text", ["0", "-3", "many"])
def test_counts_are_positive(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="a positive integer is needed"):
        positive(text)


def test_ranges_of_inputs() -> None:
    assert input_range("X=-0.5,2") == ("X", (-0.5, 2.0))
    assert inputs_of(Namespace(inputs=[("X", (0.0, 1.0)), ("Y", (2.0, 2.0))])) == {"X": (0.0, 1.0), "Y": (2.0, 2.0)}
    assert inputs_of(Namespace(inputs=[])) is None
    with pytest.raises(UsageError, match="--input X is given twice"):
        inputs_of(Namespace(inputs=[("X", (0.0, 1.0)), ("X", (0.0, 2.0))]))


@pytest.mark.parametrize("text", ["X", "X=1", "X=2,1", "X=0,inf", "X=nan,1", "X=1,2,3", "=0,1", "X=a,b"])
def test_what_is_no_range_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"write NAME=LOW,HIGH, such as X=0\.1,2"):
        input_range(text)


def test_every_command_has_a_help_page() -> None:
    text = build_parser().format_help()
    for command in COMMANDS:
        assert command.name in text
        assert command.summary


def test_errors_are_messages_with_status_2_and_no_traceback() -> None:
    err = io.StringIO()
    status = main(["db", "stats", "--db", "sqlite:///there-is-no-such.db"], Console(io.StringIO(), err))
    assert status == 2
    assert err.getvalue().startswith("metasched db: there is no database at")
    assert "Traceback" not in err.getvalue()


def test_an_unknown_rule_lists_those_there_are() -> None:
    err = io.StringIO()
    assert main(["rules", "show", "nonsense"], Console(io.StringIO(), err)) == 2
    assert "no rule or preset `nonsense` is installed" in err.getvalue()


def test_ctrl_c_while_a_command_is_imported_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(_: Command) -> Implementation:
        raise KeyboardInterrupt

    err = io.StringIO()
    monkeypatch.setattr(Command, "load", pressed)
    assert main(["db", "stats"], Console(io.StringIO(), err)) == 130
    assert err.getvalue() == "interrupted\n"


def test_output_that_cannot_be_written_is_no_matter_of_temporary_files() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "metasched", "show", "op:softmax"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "metasched show: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_more_threads_than_cores_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3})
    for threads, noted in (
        (2, ""),
        (9999, "warning: kernels run with 9999 threads on 2 cores that this process may use; --threads 2 gives each a"),
    ):
        err = io.StringIO()
        assert timed_target(Namespace(threads=threads), Console(io.StringIO(), err)).threads == threads
        assert err.getvalue().startswith(noted)
        assert bool(err.getvalue()) == bool(noted)


def test_searches_of_programs_and_networks_share_options() -> None:
    options = ["--strategy", "random", "--model", "roofline", "--runner", "local", "--seed", "3", "--rules", "cpu"]
    for given, model in ((["tune", "p.ms"], "model"), (["net", "tune", "m.onnx"], "cost_model")):
        args = build_parser().parse_args([*given, *options])
        assert (args.strategy, getattr(args, model), args.runner, args.seed) == ("random", "roofline", "local", 3)


@pytest.mark.parametrize("command", [("tune",), ("net", "tune"), ("rules", "try", "r.py")])
def test_a_seed_is_one_everywhere(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args([*command, "p.ms", "--seed", "-1"])
    assert "a seed is an integer from 0 to 2**63 - 1" in capsys.readouterr().err


def test_several_databases_where_they_are_read_and_one_where_it_is_written() -> None:
    several = ["--db", "sqlite:///a.db", "--db", "sqlite:///b.db"]
    for read in (["db", "stats"], ["db", "export"], ["report"]):
        assert build_parser().parse_args([*read, *several]).db == ("sqlite:///a.db", "sqlite:///b.db")
    assert build_parser().parse_args(["db", "prune", *several]).db == "sqlite:///b.db"


def test_a_setting_may_be_an_element_type() -> None:
    assert setting("T=bool") == ("T", "bool")
