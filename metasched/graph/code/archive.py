"""Machine code of a task as bytes: JSON that says what it is, and the code itself. Reading it runs nothing."""

from __future__ import annotations

import json
import struct
from typing import Any

from metasched.graph.code.step_code import StepArgument, StepArgumentKind, StepCode, TaskCode

_LENGTH = struct.Struct("<Q")


def to_bytes(code: TaskCode) -> bytes:
    """The bytes of a task's machine code."""
    parts = [part for part in (code.main, code.prologue) if part is not None]
    said = {"origin": code.origin, "trace": code.trace, "parts": [describe_part(part) for part in parts]}
    text = json.dumps(said).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *(part.data for part in parts)])


def from_bytes(data: bytes) -> TaskCode:
    """What `to_bytes` was given. Raises ValueError for anything else."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + length
        said = json.loads(data[_LENGTH.size : at])
        parts = []
        for one in said["parts"]:
            end = at + int(one["bytes"])
            parts.append(part_of(one, data[at:end]))
            at = end
        if at != len(data) or len(parts) not in (1, 2):
            raise ValueError(f"{len(data)} bytes, and {at} are described")
        return TaskCode(parts[0], parts[1] if len(parts) > 1 else None, str(said["origin"]), said["trace"])
    except (struct.error, KeyError, TypeError) as error:
        raise ValueError(f"no machine code of a task: {error!r}") from error


def describe_part(part: StepCode) -> dict[str, Any]:
    """The description of a part without its bytes, as JSON values."""
    return {
        "bytes": len(part.data),
        "arguments": [(a.kind.value, a.number, a.nbytes) for a in part.arguments],
        "workspace": part.workspace_bytes,
        "parallel": part.parallel,
    }


def part_of(said: dict[str, Any], data: bytes) -> StepCode:
    """A part by what `describe_part` said, and its bytes."""
    arguments = tuple(
        StepArgument(StepArgumentKind(kind), number, nbytes) for kind, number, nbytes in said["arguments"]
    )
    return StepCode(arguments, data, int(said["workspace"]), bool(said["parallel"]))
