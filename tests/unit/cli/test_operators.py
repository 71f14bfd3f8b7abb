"""`op:NAME` in the place of a program's file."""

from __future__ import annotations

import pytest

import metasched as ms
from tests.support.command_line import run


def test_an_operator_is_shown_and_takes_parameters() -> None:
    status, out, _ = run("show", "op:matmul_nn", "-D", "M=8", "-D", "T=i8", "-D", "ACC=i32", "--schedule")
    assert status == 0
    assert "func matmul_nn(A: i8[8, 512], B: i8[512, 512]) -> C: i32[8, 512]:" in out


def test_an_operator_that_is_not_there_is_named() -> None:
    status, _, err = run("show", "op:matmul_mn")
    assert status == 2
    assert "there is no operator `matmul_mn`" in err
    assert "did you mean `matmul_" in err


def test_a_type_that_does_not_fit_is_an_error_in_the_operators_file() -> None:
    status, _, err = run("show", "op:softmax", "-D", "T=bf16")
    assert status == 2
    assert "softmax.ms:6:19: `sum` over bf16 would round to bf16 at every step" in err
    assert "or give another type for one of `T` and `ACC`, such as `ACC=f32`" in err


def test_operators_in_python() -> None:
    assert ms.operator("softmax", M=4, T="f64") == ms.operators.load("softmax", M=4, T="f64", ACC="f64")
    assert "softmax" in ms.operators.names()
    assert ms.operators.source("softmax").startswith("# Softmax over the last axis")
    with pytest.raises(ms.MetaschedError, match="there is no operator `soft_max`"):
        ms.operator("soft_max")


def test_an_expert_trace_of_the_library_stands_where_a_file_could() -> None:
    size = ("-D", "M=17", "-D", "N=13", "-D", "K=9")
    status, out, _ = run("show", "op:matmul_nn", *size, "--trace", "op:matmul_nn.blocked", "--repair")
    assert status == 0
    assert "func matmul_nn(A: f32[17, 9]" in out
    assert "parallel" in out
    status, _, err = run("show", "op:matmul_nn", "--trace", "op:matmul_nn.blocks")
    assert status == 2
    assert "there is no expert trace `matmul_nn.blocks`\n  hint: did you mean `matmul_nn.blocked`?" in err
