"""What the candidates of a program are checked against: its data and expected results, in a file, computed once."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

import psutil

from metasched.errors import ResourceError
from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.measure.checking.archive import write_arrays
from metasched.measure.checking.arithmetic import AS_WRITTEN, AllowedArithmetic
from metasched.measure.checking.inputs import Inputs, given_inputs
from metasched.measure.records import CheckError, MeasureCandidate, Reason, WorkerBug
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.measure.workers.resources import explaining

MEMORY_HINT = (
    "it may take three quarters of the memory that this machine has to spare: end what holds memory, "
    "or tune the program at a smaller size, and compile it at this one with that trace"
)
_Key = tuple[str, tuple[tuple[str, Setting], ...]]  # a program's text and parameters


def memory_for_expected_results(least: int) -> int:
    """The bytes that a worker may hold while it computes expected results.

    The program and its sizes say what that takes, no candidate: it may have most of what the machine has to spare.
    """
    return max(least, int(psutil.virtual_memory().available) * 3 // 4)


class Begin(Protocol):
    """Begins a call on a thread of its own, such as `ThreadPoolExecutor.submit`."""

    def __call__(self, call: Callable[[], Path], /) -> Future[Path]: ...


class ExpectedResults:
    """Files of data and expected results, with the tolerance of a way to compute them, made when first asked for.

    Args:
        folder: where the files are put.
        seed: of the data.
        inputs: what data arguments take, where nothing else is said for a program.
        begin: begins a call on another thread.
        ask: the answer of a worker to a request, and what it is about, for messages.
    """

    def __init__(
        self, folder: Path, seed: int, inputs: Inputs | None, begin: Begin, ask: Callable[[Message, str], Message]
    ) -> None:
        self._folder = folder
        self._seed = seed
        self._inputs = inputs
        self._begin = begin
        self._ask = ask
        self._given: dict[_Key, Inputs | None] = {}
        self._files: dict[tuple[_Key, AllowedArithmetic], Future[Path]] = {}
        self._lock = threading.Lock()

    def file_of(
        self, program: Program, arithmetic: AllowedArithmetic = AS_WRITTEN, inputs: Inputs | None = None
    ) -> Future[Path]:
        """The file of a program, for a way to compute it. It keeps the inputs that it was first asked for with."""
        key = (str(program), program.params)
        with self._lock:
            data = self._given.setdefault(key, inputs or self._inputs)
            if (key, arithmetic) not in self._files:
                self._files[key, arithmetic] = self._begin(lambda: self._compute_file(program, arithmetic, data))
            return self._files[key, arithmetic]

    def forget_failed(self, program: Program, arithmetic: AllowedArithmetic) -> None:
        """Have a file that could not be made be made anew for who asks next: what was lacking may be there by then.

        Until then whoever waits for it gets the same error, and it is made once.
        """
        key = (str(program), program.params), arithmetic
        with self._lock:
            file = self._files.get(key)
            if file is not None and file.done() and file.exception() is not None:
                del self._files[key]

    def _compute_file(self, program: Program, arithmetic: AllowedArithmetic, inputs: Inputs | None) -> Path:
        """Have a worker compute a program's data and expected results."""
        text = str(program)
        said = json.dumps((text, program.params, arithmetic.steps, arithmetic.fastmath))
        name = hashlib.sha256(said.encode()).hexdigest()[:16]
        given = given_inputs(program.func, inputs, self._seed)
        given_path, path = self._folder / f"{name}.given.npz", self._folder / f"{name}.npz"
        with explaining(f"writing data to {self._folder}"):
            write_arrays(given_path, given.arrays)
        body = {
            "program": text,
            "params": program.params,
            "given": str(given_path),
            "ranges": given.ranges,
            "seed": self._seed,
            "steps": arithmetic.steps,
            "fastmath": arithmetic.fastmath,
            "path": str(path),
        }
        what = f"computing the expected result of {program.key}"
        answer = self._ask(Message(MessageKind.PREPARE, body), what)
        if answer.kind is MessageKind.FAILED and answer.body["reason"] == Reason.OUT_OF_MEMORY.value:
            raise CheckError(f"{what} failed: {answer.error_text}", hint=MEMORY_HINT)
        if answer.kind is MessageKind.FAILED:
            raise CheckError(f"{what} failed: {answer.error_text}", tuple(answer.body.get("arguments", ())))
        if answer.kind is MessageKind.LACK:
            raise ResourceError(f"{what} failed: {answer.error_text}")
        if answer.kind is not MessageKind.DONE:
            raise WorkerBug(f"{what} failed", answer.error_text, MeasureCandidate(text, program.params, "", ""))
        return path
