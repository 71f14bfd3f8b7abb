"""A builder process of networks, forked from `python -m metasched.graph.code.builder_worker`; `building` starts it."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from metasched.graph.code.archive import to_bytes
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.code.default_choice import default_choice, is_tiny
from metasched.graph.code.task_code import compile_task
from metasched.ir.program import Program
from metasched.ir.source import settings_from_json
from metasched.lang import parse_program
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.measure.workers.worker import Worker, main
from metasched.schedule.trace import Trace
from metasched.support.data_classes import dataclass
from metasched.target import Target

# A search for cycles of objects takes as long as three tasks after sixty of them, and finds 1 MB a task: one after some
# hundreds of tasks is enough.
_OBJECTS_BETWEEN_COLLECTIONS = 3_000_000


@dataclass(frozen=True)
class WantedCode:
    """Machine code to be made: a program, a schedule where one is chosen, and strides where there are gaps; and how
    often loops are taken to run it in a call.
    """

    program: Program
    choice: Choice | None
    strides: Mapping[str, Sequence[int]] = field(default_factory=dict)
    runs: int = 1

    def chosen(self, target: Target) -> Choice:
        """The schedule that is chosen, or by default."""
        return self.choice or default_choice(self.program, target, self.runs)

    @property
    def is_tiny(self) -> bool:
        """Whether by default it runs as it is written, as `default_choice` has it."""
        return is_tiny(self.program, self.runs)


def request(wanted: WantedCode, target: Target) -> Message:
    """The message that asks for the machine code of a program; without a choice, by the guess."""
    program, choice = wanted.program, wanted.choice
    strides = {name: list(steps) for name, steps in wanted.strides.items()}
    body: dict[str, Any] = {
        "program": str(program),
        "params": program.params,
        "target": str(target),
        "strides": strides,
        "runs": wanted.runs,
    }
    if choice is not None:
        trace = None if choice.trace is None else str(choice.trace)
        body |= {"origin": choice.origin.value, "detail": choice.detail, "trace": trace}
    return Message(MessageKind.BUILD, body)


class TaskBuilder(Worker):
    """Answers requests for machine code of tasks."""

    @classmethod
    def warm(cls) -> None:
        from metasched.compiler.cpu.first_use import import_code_generator
        from metasched.cost.learning.trained import read_shipped_model
        from metasched.graph.code.default_choice import load_guess_data

        import_code_generator()
        read_shipped_model()
        load_guess_data()

    def preload(self) -> None:
        self.warm()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)

    def handle(self, message: Message) -> Message:
        """The machine code of a request. Raises ScheduleError and BuildError."""
        body = message.body
        program = parse_program(body["program"], **dict(settings_from_json(body["params"])))
        target = Target.parse(body["target"])
        if "origin" in body:
            trace = None if body["trace"] is None else Trace.parse(body["trace"])
            choice = Choice(trace, ScheduleOrigin(body["origin"]), body["detail"])
        else:
            choice = default_choice(program, target, body["runs"])
        return Message(MessageKind.DONE, {}, to_bytes(compile_task(program, choice, target, body["strides"])))


if __name__ == "__main__":
    main(TaskBuilder)
