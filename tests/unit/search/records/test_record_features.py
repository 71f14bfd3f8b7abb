"""Features of records are those of their programs, worked out many at a time; what does not apply is counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metasched.cost.core import DEFAULT_CORE
from metasched.cost.features import features_of
from metasched.schedule.trace import Trace
from metasched.search.records.other_names import program_of
from metasched.search.records.record_features import describe_records
from tests.support.recorded import dense, records_of
from tests.support.targets import AVX512


def test_features_of_records_are_those_of_their_scheduled_programs() -> None:
    records = [*records_of(dense(), 6), *records_of(dense(N=48), 2)]
    found = describe_records(records, DEFAULT_CORE)
    assert found.positions == tuple(range(8))
    assert not found.refused
    for record, features in zip(records, found.features, strict=True):
        scheduled = Trace.parse(record.trace).apply_to(program_of(record)).func
        assert np.array_equal(features, features_of(scheduled, AVX512))


def test_what_no_longer_applies_is_counted_and_left_out() -> None:
    first, second, third = records_of(dense(), 3)
    damaged = replace(first, trace="no trace")
    other = replace(second, program=second.program.replace("dense:", "product:"))
    found = describe_records([damaged, other, third], DEFAULT_CORE)
    assert found.positions == (2,)
    assert found.refused.total() == 2
    assert found.refused["the trace does not parse"] == 1
    assert describe_records([], DEFAULT_CORE).positions == ()
