from __future__ import annotations

import io
from argparse import ArgumentTypeError, Namespace

import pytest

from metasched.cli.arguments import UsageError, input_range, inputs_of, params, positive, setting
from metasched.cli.command import Console
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
    assert "no rule `nonsense` is installed" in err.getvalue()


def test_a_setting_may_be_an_element_type() -> None:
    assert setting("T=bool") == ("T", "bool")
