"""What travels is read as data, and what is none is refused."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from metasched.errors import ResourceError
from metasched.measure.checking.inputs import Given
from metasched.measure.cluster import payloads
from metasched.measure.cluster.payloads import Fault, Greeting, MachineFault
from metasched.measure.cluster.yardstick import MachinePace
from metasched.measure.records import CheckError, Failure, Lowered, MeasureCandidate, Measurement, WorkerBug
from metasched.measure.timing import Surroundings, TimingPlan
from metasched.measure.workers.protocol import Message, MessageKind, ProtocolError
from metasched.target import TargetError
from tests.support.cluster import TARGET

CANDIDATE = MeasureCandidate("program", (("N", 4), ("T", "bf16")), "trace", str(TARGET))


def test_all_but_code_and_arrays_is_json_and_comes_back() -> None:
    assert payloads.candidate_from(json.loads(json.dumps(payloads.candidate_to(CANDIDATE)))) == CANDIDATE
    plan = TimingPlan(visits=5, surroundings=Surroundings.MEMORY, in_turns=True)
    assert payloads.plan_from(json.loads(json.dumps(payloads.plan_to(plan)))) == plan
    measured = Measurement(CANDIDATE, ((1e-3, 2e-3), (1e-3,)), True, None, (("run", 0.5),), "code", 0.25)
    failed = Measurement(CANDIDATE, (), False, Failure("crash", "why"), ())
    for one in (measured, failed):
        assert payloads.measurement_from(json.loads(json.dumps(payloads.measurement_to(one))), CANDIDATE) == one
    greeting = Greeting(str(TARGET), "x86_64", "metasched 1", 4, MachinePace(1e-3, 2e-3))
    assert Greeting.from_payload(json.loads(json.dumps(greeting.to_payload()))) == greeting


def test_texts_code_and_arrays() -> None:
    lowered = Lowered(CANDIDATE, "c", None, {"code": "c"}, b"define void @f()" * 1000)
    sent = payloads.lowered_to(lowered)
    assert len(sent["text"]) < 200
    assert payloads.lowered_from(sent, CANDIDATE) == lowered
    arrays = {"A": np.arange(6.0).reshape(2, 3), "W": np.ones(2, ml_dtypes.bfloat16)}
    given = payloads.given_from(payloads.given_to(Given(arrays, {"B": (0.0, 2.0)})))
    assert given["B"] == (0.0, 2.0)
    assert np.array_equal(given["A"], arrays["A"])  # type: ignore[arg-type]
    assert given["W"].dtype == ml_dtypes.bfloat16  # type: ignore[union-attr]
    message = Message(MessageKind.DONE, {"code": "c"}, b"\x00\x01")
    assert payloads.message_from(message.encode()) == message


def test_what_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProtocolError):
        payloads.message_from(b"not a frame at all")
    with pytest.raises(ProtocolError, match="cut short"):
        payloads.message_from(Message(MessageKind.DONE, {}, b"code").encode()[:-1])
    monkeypatch.setattr(payloads, "_MOST_BYTES", 1000)
    bomb = {**payloads.lowered_to(Lowered(CANDIDATE, "c")), "text": zlib.compress(bytes(100_000))}
    with pytest.raises(ValueError, match="longer than 1000 bytes"):
        payloads.lowered_from(bomb, CANDIDATE)
    greeting = Greeting(str(TARGET), "x86_64", "metasched 1", 4, MachinePace(1e-3, float("nan")))
    with pytest.raises(ValueError, match="yardsticks"):
        Greeting.from_payload(greeting.to_payload())
    with pytest.raises(TargetError, match="not a target"):
        Greeting.from_payload({**replace(greeting, pace=MachinePace(1, 1)).to_payload(), "target": "a toaster"})


@pytest.mark.parametrize(
    ("error", "fault", "raised"),
    [
        (CheckError("no data", ("A",)), Fault.UNCHECKED, CheckError),
        (CheckError("no memory", hint="run fewer"), Fault.UNCHECKED, CheckError),
        (ResourceError("no memory"), Fault.LACK, MachineFault),
        (ZeroDivisionError("oh"), Fault.BUG, WorkerBug),
    ],
)
def test_whose_fault_it_is(error: Exception, fault: Fault, raised: type[Exception]) -> None:
    payload = payloads.fault_of(error, f"Traceback: {error}")
    assert payload["fault"] == fault.value
    with pytest.raises(raised, match=re.escape(str(error))):
        payloads.require_no_fault(payload, CANDIDATE)
    payloads.require_no_fault({"measured": []}, CANDIDATE)
