"""How the constants of a core follow from what is measured."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from metasched.calibration.probes import PROBES, Probe, ProbeValue, Unit, probe_of_intrinsic, scale_defaults
from metasched.cost.core import DEFAULT_CORE, Core
from metasched.schedule.tensor import intrinsics

REFERENCES = {probe.constant: ProbeValue(probe.reference, 2) for probe in PROBES}
DECLARED = {name: ProbeValue(intrinsic.throughput) for name, intrinsic in intrinsics().items()}
TIMES_TWO = Probe("loads", "loads", Unit.A_CYCLE, 2.0)


def test_a_machine_like_the_reference_has_the_defaults_whatever_the_noise() -> None:
    for noise in (0.8, 1.0, 1.25):
        measured, throughputs = (
            {name: ProbeValue(noise * it.value, it.threads) for name, it in found.items()}
            for found in (REFERENCES, DECLARED)
        )
        assert scale_defaults(measured, throughputs) == DEFAULT_CORE


def test_a_tensor_intrinsic_has_the_throughput_that_was_measured() -> None:
    slow = intrinsics()["dot_u8i8_vnni"]
    core = scale_defaults(REFERENCES, {**DECLARED, slow.name: ProbeValue(2.1 * slow.throughput)})
    assert core == replace(DEFAULT_CORE, throughputs=((slow.name, 2 * slow.throughput),))
    assert core.throughput(slow) == probe_of_intrinsic(slow).constant_of(core) == 2 * slow.throughput
    assert probe_of_intrinsic(slow).constant_of(DEFAULT_CORE) == slow.throughput


def test_a_tensor_intrinsic_that_was_not_measured_is_as_it_is_declared() -> None:
    core = scale_defaults(REFERENCES, {})
    assert all(core.throughput(intrinsic) == intrinsic.throughput for intrinsic in intrinsics().values())


def test_no_tensor_intrinsic_has_the_name_of_a_constant() -> None:
    assert not set(intrinsics()) & {field.name for field in fields(Core)}


def test_probes_are_for_constants_of_their_own() -> None:
    names = [probe.constant for probe in PROBES]
    assert len(set(names)) == len(names)
    assert set(names) <= {field.name for field in fields(Core)}


@pytest.mark.parametrize("probe", [probe for probe in PROBES if not probe.blur], ids=lambda probe: probe.constant)
@pytest.mark.parametrize("times", [0.25, 4.0, 8.0])
def test_a_constant_is_scaled_by_how_much_a_machine_differs(probe: Probe, times: float) -> None:
    core = scale_defaults({**REFERENCES, probe.constant: ProbeValue(times * probe.reference, 2)}, DECLARED)
    changed = {f.name for f in fields(Core) if getattr(core, f.name) != getattr(DEFAULT_CORE, f.name)}
    assert changed == {probe.constant}
    assert getattr(core, probe.constant) == times * getattr(DEFAULT_CORE, probe.constant)


@pytest.mark.parametrize(("measured", "factor"), [(0.0, 1 / 8), (1e9, 8.0), (2.0 * 1.02, 1.0), (2.0 / 1.02, 1.0)])
def test_factors_are_bounded_and_rounded(measured: float, factor: float) -> None:
    assert TIMES_TWO.factor(ProbeValue(measured)) == factor


def test_two_calibrations_that_differ_by_noise_give_one_core() -> None:
    def slow(noise: float) -> Core:
        twice = {probe.constant: ProbeValue(4 * noise * probe.reference, 2) for probe in PROBES if not probe.blur}
        return scale_defaults({**REFERENCES, **twice}, DECLARED)

    assert slow(0.8) == slow(1.25) != DEFAULT_CORE


def test_one_thread_is_compared_with_one_thread() -> None:
    alone = {probe.constant: ProbeValue(probe.reference_in(1), 1) for probe in PROBES}
    assert scale_defaults(alone, DECLARED) == DEFAULT_CORE
    assert scale_defaults({name: ProbeValue(found.value, 2) for name, found in alone.items()}, DECLARED) != DEFAULT_CORE


def test_the_best_round_counts_where_other_cores_use_what_is_measured() -> None:
    probes = {probe.constant: probe for probe in PROBES}
    rounds = [3.0, 1.0, 2.0]
    found = {name: probes[name].summary(rounds) for name in ("loads", "l2_bytes", "l3_bytes", "barrier", "scatter")}
    assert found == {"loads": 2.0, "l2_bytes": 2.0, "l3_bytes": 3.0, "barrier": 1.0, "scatter": 1.0}


@pytest.mark.parametrize(("measured", "factor"), [(5.1, 1.0), (19.0, 1.0), (2.4, 0.25), (41.0, 4.0)])
def test_what_neighbours_take_of_what_is_shared_is_no_difference(measured: float, factor: float) -> None:
    shared = Probe("l3_bytes", "bytes", Unit.BYTES, 10.0, sure=2.0)
    assert shared.factor(ProbeValue(measured)) == factor


def test_what_is_known_to_half_a_cycle_is_not_scaled_by_less() -> None:
    overhead = Probe("branch_overhead", "a condition", Unit.CYCLES, 0.1, blur=0.5)
    assert overhead.factor(ProbeValue(0.0)) == overhead.factor(ProbeValue(0.2)) == 1.0
    assert overhead.factor(ProbeValue(2.0)) == 4.0
