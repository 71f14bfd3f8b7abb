from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metasched.compiler.cpu.codegen import compile_text
from metasched.compiler.cpu.emit.module import ENTRY
from metasched.compiler.cpu.emit.runtime import STATE
from metasched.lang import parse_program
from metasched.measure.checking.check import prepare
from metasched.measure.checking.inputs import Given, Inputs, given_inputs
from metasched.measure.compiling import code_hash, compile_func
from metasched.measure.records import Artefact, Reason
from metasched.measure.timing import TimingPlan
from metasched.measure.workers.candidate_timer import CandidateTimer
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.support.stopwatch import Stopwatch
from metasched.target import Target

TARGET = Target.detect(threads=1)
PLAN = TimingPlan(sample_s=1e-4, samples=4, budget_s=1e-2)
DOUBLE = "program double[N=5](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] * 2\n"
DENSE = """
program dense[N=7, M=9, K=33](A: f32[N, K], B: f32[K, M], alpha: f32, n: i64) -> D: f32[N, M]:
    mm: C[i, j] = sum[k](A[i, k] * B[k, j])
    D[i, j] = max(C[i, j] * alpha, 0) if i < n else 1
"""


@pytest.fixture(scope="module")
def timer() -> CandidateTimer:
    return CandidateTimer(threads=1)


def request(tmp_path: Path, text: str, artefact: Artefact, code: bytes, inputs: Inputs | None = None) -> Message:
    func = parse_program(text).func
    path = tmp_path / "cases.npz"
    prepare(func, given_inputs(func, inputs, 0), 0).save(path)
    body: dict[str, Any] = {
        "artefact": artefact.to_json(),
        "data": str(path),
        "plan": asdict(PLAN),
        "best_s": None,
        "first": True,
        "verify": True,
    }
    return Message(MessageKind.RUN, json.loads(json.dumps(body)), code)


def answer(timer: CandidateTimer, tmp_path: Path, text: str, built: str, inputs: Inputs | None = None) -> Message:
    """What comes of checking the program `built` as if it were `text`."""
    artefact, code = compile_func(parse_program(built).func, TARGET, Stopwatch())
    return timer.run(request(tmp_path, text, artefact, code, inputs))


def test_a_right_kernel_is_timed(timer: CandidateTimer, tmp_path: Path) -> None:
    done = answer(timer, tmp_path, DENSE, DENSE, {"n": np.asarray(5), "alpha": (0.5, 2.0)})
    assert done.kind is MessageKind.DONE, done.body
    assert len(done.body["times"]) == PLAN.samples
    assert all(0 < t < 1 for t in done.body["times"])
    assert set(done.body["phases"]) == {"load", "check", "run"}


@pytest.mark.parametrize(
    "wrong",
    [
        DENSE.replace("B[k, j])", "B[k, j] if k < 32 else 0)"),
        DENSE.replace("i < n", "i <= n"),
        DENSE.replace("* alpha", "* alpha * alpha"),
        DENSE.replace("else 1", "else 1.0001"),
        DENSE.replace(", 0)", ", 0.001)"),
    ],
)
def test_a_kernel_that_is_slightly_wrong_is_caught(timer: CandidateTimer, tmp_path: Path, wrong: str) -> None:
    failed = answer(timer, tmp_path, DENSE, wrong, {"n": np.asarray(5)})
    assert failed.kind is MessageKind.FAILED
    assert failed.body["reason"] == Reason.WRONG_RESULT.value
    assert "`D`: " in failed.body["detail"]
    assert "expected" in failed.body["detail"]


def hand_written(body: str, workspace_bytes: int = 0) -> tuple[Artefact, bytes]:
    """A kernel of `double` as LLVM text; `%a` and `%b` are its buffers of 5 floats."""
    text = f"""
@{STATE} = global ptr null
define i32 @{ENTRY}(ptr %a, ptr %b, ptr %workspace) {{
  %x = load <5 x float>, ptr %a, align 4
  %y = fmul <5 x float> %x, splat (float 2.0)
  {body}
}}
"""
    return Artefact(ENTRY, workspace_bytes, False, str(TARGET), ()), compile_text(text, TARGET).data


STORE = "store <5 x float> %y, ptr %b, align 4\n"
OK = "ret i32 0\n"
PAST_END = "%c = getelementptr float, ptr %{buffer}, i64 {index}\n store float 1.0, ptr %c, align 4\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (STORE + OK, None),
        (OK, Reason.WRONG_RESULT),
        ("store <4 x float> zeroinitializer, ptr %b, align 4\n" + OK, Reason.WRONG_RESULT),
        (STORE + "store <5 x float> %y, ptr %a, align 4\n" + OK, Reason.INPUTS_MODIFIED),
        (STORE + PAST_END.format(buffer="b", index=5) + OK, Reason.OUT_OF_BOUNDS),
        (STORE + PAST_END.format(buffer="b", index=-1) + OK, Reason.OUT_OF_BOUNDS),
        (STORE + PAST_END.format(buffer="a", index=6) + OK, Reason.OUT_OF_BOUNDS),
        (STORE + PAST_END.format(buffer="workspace", index=16) + OK, Reason.OUT_OF_BOUNDS),
        (STORE + PAST_END.format(buffer="workspace", index=15) + OK, None),
        (STORE + "ret i32 1\n", Reason.OUT_OF_MEMORY),
        (STORE + "ret i32 7\n", Reason.STATUS),
    ],
)
def test_what_a_kernel_may_do_wrong(timer: CandidateTimer, tmp_path: Path, body: str, reason: Reason | None) -> None:
    found = timer.run(request(tmp_path, DOUBLE, *hand_written(body, workspace_bytes=64)))
    assert found.body.get("reason") == (reason.value if reason else None)
    assert found.kind is (MessageKind.FAILED if reason else MessageKind.DONE)


def test_a_kernel_that_goes_wrong_after_a_few_calls_is_caught(timer: CandidateTimer, tmp_path: Path) -> None:
    text = f"""
@{STATE} = global ptr null
@count = internal global i64 0
define i32 @{ENTRY}(ptr %a, ptr %b, ptr %workspace) {{
  %n = load i64, ptr @count
  %next = add i64 %n, 1
  store i64 %next, ptr @count
  %late = icmp sgt i64 %n, 2
  %factor = select i1 %late, float 3.0, float 2.0
  %one = insertelement <5 x float> poison, float %factor, i64 0
  %all = shufflevector <5 x float> %one, <5 x float> poison, <5 x i32> zeroinitializer
  %x = load <5 x float>, ptr %a, align 4
  %y = fmul <5 x float> %x, %all
  store <5 x float> %y, ptr %b, align 4
  ret i32 0
}}
"""
    artefact = Artefact(ENTRY, 0, False, str(TARGET), ())
    found = timer.run(request(tmp_path, DOUBLE, artefact, compile_text(text, TARGET).data))
    assert found.body.get("reason") == Reason.WRONG_RESULT.value


def test_a_later_visit_is_timed_on_the_same_data(timer: CandidateTimer, tmp_path: Path) -> None:
    asked = request(tmp_path, DOUBLE, *hand_written(STORE + OK))
    later = replace(asked, body=asked.body | {"first": False})
    assert len(timer.run(later).body["times"]) == PLAN.samples, "in a process that never saw it before"
    assert timer.run(asked).kind is MessageKind.DONE
    assert timer.run(later).kind is MessageKind.DONE
    late = request(tmp_path, DOUBLE, *hand_written("store <4 x float> zeroinitializer, ptr %b, align 4\n" + OK))
    assert timer.run(replace(late, body=late.body | {"first": False})).kind is MessageKind.FAILED
    unverified = replace(late, body=late.body | {"first": False, "verify": False})
    assert timer.run(unverified).kind is MessageKind.DONE


def test_what_one_candidate_spoils_is_mended_for_the_next(timer: CandidateTimer, tmp_path: Path) -> None:
    good = request(tmp_path, DOUBLE, *hand_written(STORE + OK))
    bad = request(tmp_path, DOUBLE, *hand_written(STORE + "store <5 x float> %y, ptr %a, align 4\n" + OK))
    assert timer.run(bad).body["reason"] == Reason.INPUTS_MODIFIED.value
    assert timer.run(replace(good, body=good.body | {"first": False})).kind is MessageKind.DONE


def test_equal_code_has_equal_hashes_whatever_its_loops_are_called() -> None:
    text = (
        "define i32 @f(ptr %a) {\nentry:\n  %x.1 = load i32, ptr %a\n  br label %done.2\ndone.2:\n  ret i32 %x.1\n}\n"
    )
    renamed = text.replace("x.1", '"i j.7"').replace("done.2:", '"end":').replace("%done.2", '%"end"')
    renamed = renamed.replace('%""i j.7""', '%"i j.7"')
    assert code_hash(renamed) == code_hash(text)
    assert code_hash(text.replace("ret i32 %x.1", "ret i32 0")) != code_hash(text)
    assert code_hash(text.replace("load i32, ptr %a", "load i32, ptr %a, align 4")) != code_hash(text)


def test_caller_data_is_what_kernels_are_checked_on(tmp_path: Path) -> None:
    func = parse_program(DOUBLE).func
    cases = prepare(func, Given({"A": np.arange(5, dtype=np.float32)}, {}), 0)
    assert cases.integers.expected[0].tolist() == [0, 2, 4, 6, 8]
    assert cases.random.inputs[0].tolist() == [0, 1, 2, 3, 4]
