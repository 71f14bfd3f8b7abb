"""Programs and traces by what commands call them."""

from __future__ import annotations

from pathlib import Path

import pytest

from metasched import operators
from metasched.errors import MetaschedError
from metasched.operators.named import program_named, trace_named

PROGRAM = "program copy[N=4](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n"


def test_a_name_of_the_library() -> None:
    assert program_named("op:softmax", N=5) == operators.load("softmax", N=5)
    assert trace_named("op:matmul_nn.blocked") == operators.expert("matmul_nn.blocked").trace
    with pytest.raises(MetaschedError, match="there is no operator `softmix`"):
        program_named("op:softmix")
    with pytest.raises(MetaschedError, match="there is no expert trace"):
        trace_named("op:matmul_nn")


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.ms").write_text(PROGRAM)
    program = program_named(f"{tmp_path}/p.ms::copy", N=8)
    assert program.params == (("N", 8),)
    with pytest.raises(FileNotFoundError):
        program_named(str(tmp_path / "gone.ms"))


@pytest.mark.parametrize("name", ["t.trace", "t.json", "t.py"])
def test_a_trace_in_each_form(tmp_path: Path, name: str) -> None:
    trace = operators.expert("matmul_nn.blocked").trace
    program = operators.expert("matmul_nn.blocked").program()
    text = {"t.trace": str(trace), "t.json": trace.as_json(), "t.py": trace.as_python(program)}[name]
    (tmp_path / name).write_text(text)
    assert trace_named(str(tmp_path / name)).canonical() == trace.canonical()
