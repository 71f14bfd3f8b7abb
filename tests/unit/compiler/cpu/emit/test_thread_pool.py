"""The pool of threads: every chunk once, phases one after another, whoever calls it and from where."""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.pool_regions import X86, code, dependent_regions, launch, region


@pytest.mark.parametrize("chunks", [1, 2, 3, 8, 33])
@pytest.mark.parametrize("phases", [0, 1, 5])
def test_every_chunk_of_every_phase_runs_once(phases: int, chunks: int) -> None:
    ran: list[tuple[int, int]] = []
    region(lambda phase, chunk: ran.append((phase, chunk)), phases, chunks)
    assert sorted(ran) == [(phase, chunk) for phase in range(phases) for chunk in range(chunks)]


def test_a_phase_begins_when_the_one_before_has_ended() -> None:
    """Under random delays, longer than threads look for work and shorter."""
    rng = np.random.default_rng(0)
    phases, chunks = 12, 5
    delays = rng.choice([0.0, 1e-5, 1e-4, 2e-3], size=(phases, chunks))
    events: list[tuple[int, str]] = []

    def body(phase: int, chunk: int) -> None:
        events.append((phase, "begun"))
        time.sleep(delays[phase, chunk])
        events.append((phase, "ended"))

    region(body, phases, chunks)
    assert [phase for phase, _ in events] == sorted(phase for phase, _ in events)
    assert len(events) == 2 * phases * chunks


@pytest.mark.parametrize(("count", "phases", "chunks"), [(100_000, 1, 2), (20_000, 5, 2), (3_000, 7, 5), (200, 3, 40)])
def test_what_a_phase_stored_is_seen_by_the_next(count: int, phases: int, chunks: int) -> None:
    assert dependent_regions(count, phases, chunks) == 0


def test_several_threads_call_at_once() -> None:
    shapes = [(3000, 3, 2), (2000, 2, 5), (4000, 1, 3), (500, 6, 8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda shape: dependent_regions(*shape), shapes * 4)) == [0] * 16


def test_numbers_of_chunks_change_from_region_to_region() -> None:
    rng = np.random.default_rng(1)
    for chunks, phases in zip(rng.integers(1, 12, 500), rng.integers(1, 5, 500), strict=True):
        assert dependent_regions(3, int(phases), int(chunks)) == 0


def test_a_region_inside_a_region_runs_on_its_caller() -> None:
    inner: list[tuple[int, int]] = []

    def body(_phase: int, chunk: int) -> None:
        mine = threading.get_ident()
        region(lambda phase, c: inner.append((int(threading.get_ident() == mine), 10 * phase + c)), 2, 3)

    region(body, 2, 4)
    assert len(inner) == 2 * 4 * 2 * 3
    assert all(same for same, _ in inner)


def test_threads_join_who_are_late() -> None:
    """A phase that needs two threads at once: the region would not end if one took both chunks."""
    meeting = threading.Barrier(2, timeout=60)
    for _ in range(20):
        region(lambda *_: meeting.wait(), 3, 2)
        time.sleep(1e-3)


@pytest.mark.skipif(not X86, reason="the modes are in a register of x86")
def test_chunks_have_the_floating_point_modes_of_the_caller() -> None:
    """Threads were started with others: flushing denormals to zero, and rounding down."""
    modes = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code().address("set_modes"))
    chunks = 4
    meeting = threading.Barrier(2, timeout=60)
    region(lambda *_: meeting.wait(), 1, 2)
    for value in (0x1F80, 0x9FC0, 0x3F80):
        found = np.zeros(chunks, np.uint32)
        given, plain = (ctypes.c_uint32 * 1)(value), (ctypes.c_uint32 * 1)(0x1F80)
        for _ in range(200):
            modes(given)
            launch(code().address("modes"), found.ctypes.data, 1, chunks)
            modes(plain)
            assert found.tolist() == [value] * chunks
