"""What a cluster's worker is asked to do, as functions that are sent by name.

Each takes and gives payloads (`metasched.measure.cluster.payloads`); none raises: what went wrong is in the payload.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, cast

from metasched.measure.cluster.dask_package import require_distributed
from metasched.measure.cluster.machine import Built, Machine, misfit
from metasched.measure.cluster.payloads import (
    Fault,
    Payload,
    candidate_from,
    fault_of,
    fault_to,
    given_from,
    lowered_from,
    lowered_to,
    measurement_to,
    message_from,
    plan_from,
)
from metasched.measure.records import Measurement, RunnerClosed
from metasched.target import Target

# The name of the plugin that holds a worker's machine, and our resources: one is timing, and builds are for builders.
PLUGIN = "metasched"
TIMING, BUILDING = "metasched-timing", "metasched-building"


def greet() -> Payload:
    """What the machine says of itself."""
    return _catch_faults(lambda machine: machine.greeting.to_payload())


def lower(candidate: Payload) -> Payload:
    """A candidate as LLVM text."""
    return _catch_faults(lambda machine: lowered_to(machine.lower_candidate(candidate_from(candidate))))


def build(candidate: Payload, lowered: Payload | None) -> Payload:
    """A candidate's machine code, as a frame of the protocol of workers."""

    def build_on(machine: Machine) -> Payload:
        wanted = candidate_from(candidate)
        text = None if lowered is None else lowered_from(lowered, wanted)
        return {"frame": machine.build(wanted, text).encode()}

    return _catch_faults(build_on)


def measure(built: list[Payload], given: Payload | None, topic: str, number: int) -> Payload:
    """The measurements of candidates of one program, in their order; that it has begun is told under a topic."""

    def measure_on(machine: Machine) -> Payload:
        require_distributed().get_worker().log_event(topic, {"begun": number})
        chunk = [_built_from(one) for one in built]
        reason = misfit(Target.parse(machine.greeting.target), Target.parse(chunk[0].candidate.target))
        if reason is not None:
            return fault_to(Fault.UNFIT, reason)
        found = machine.measure_built(chunk, None if given is None else given_from(given))
        return {"measured": [_result(one) for one in found]}

    return _catch_faults(measure_on)


def _built_from(payload: Payload) -> Built:
    best_s = payload["best_s"]
    return Built(
        candidate_from(payload["candidate"]),
        message_from(payload["frame"]),
        None if best_s is None else float(best_s),
        plan_from(payload["plan"]),
    )


def _result(found: Measurement | BaseException) -> Payload:
    if isinstance(found, RunnerClosed):
        return fault_to(Fault.UNFIT, str(found))
    if isinstance(found, BaseException):
        return fault_of(found, "".join(traceback.format_exception(found)))
    return measurement_to(found)


def _catch_faults(act: Callable[[Machine], Payload]) -> Payload:
    """The result of an act, or a payload of what it raises, whatever that is."""
    try:
        machine = cast(Machine, _plugins()[PLUGIN].machine)
        return act(machine)
    except RunnerClosed as error:
        return fault_to(Fault.UNFIT, str(error))
    except Exception as error:  # noqa: BLE001 - it is raised by who asked, with this traceback
        return fault_of(error, traceback.format_exc())


def _plugins() -> Any:
    return require_distributed().get_worker().plugins
