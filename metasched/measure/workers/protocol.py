"""The messages between a parent and its workers: frames of JSON and bytes over a pipe.

A frame is a header (magic, length of the JSON, length of the blob) and then both. Nothing that is received is
ever executed, so that a candidate which scribbles over its worker's memory can at worst make a frame that does
not read.
"""

from __future__ import annotations

import json
import struct
from dataclasses import field
from enum import Enum
from typing import Any

from metasched.support.data_classes import dataclass

_HEADER = struct.Struct("<4sIQ")
_MAGIC = b"msw1"
_MAX_JSON = 1 << 28
_MAX_BLOB = 1 << 32


class ProtocolError(Exception):
    """Bytes that are no frame."""


class MessageKind(Enum):
    """What a message is. A worker sends READY once, then one of the last four for each request."""

    READY = "ready"
    PREPARE = "prepare"
    LOWER = "lower"
    COMPILE = "compile"
    BUILD = "build"  # both of them
    BUILD_WHOLE = "build-whole"  # the same of a candidate that was built in two parts, as one
    RUN = "run"
    CHECK = "check"
    DONE = "done"
    FAILED = "failed"  # the candidate's fault: `reason` to count by, and `detail`
    LACK = "lack"  # the machine's: `detail` says what it denies
    BUG = "bug"  # ours: `traceback`


@dataclass(frozen=True)
class Message:
    """`body` holds JSON values only; `blob` carries machine code, or the text it is made from."""

    kind: MessageKind
    body: dict[str, Any] = field(default_factory=dict)
    blob: bytes = b""

    @property
    def error_text(self) -> str:
        """The text of what went wrong, by an answer that is not DONE."""
        body = self.body
        return str(body.get("traceback") or body.get("detail") or body.get("reason") or body)

    def encode(self) -> bytes:
        """The frame."""
        text = json.dumps({"kind": self.kind.value, "body": self.body}).encode()
        return _HEADER.pack(_MAGIC, len(text), len(self.blob)) + text + self.blob


class Decoder:
    """Frames out of a stream of bytes that arrive in any pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_message(self) -> Message | None:
        """The next whole message, if it has arrived; raises `ProtocolError` for bytes that are no frame."""
        if len(self._buffer) < _HEADER.size:
            return None
        magic, text_size, blob_size = _HEADER.unpack_from(self._buffer)
        if magic != _MAGIC or text_size > _MAX_JSON or blob_size > _MAX_BLOB:
            raise ProtocolError(f"not a frame: {bytes(self._buffer[:32])!r}")
        end = _HEADER.size + text_size + blob_size
        if len(self._buffer) < end:
            return None
        text = bytes(self._buffer[_HEADER.size : _HEADER.size + text_size])
        blob = bytes(self._buffer[_HEADER.size + text_size : end])
        del self._buffer[:end]
        try:
            data = json.loads(text)
            return Message(MessageKind(data["kind"]), dict(data["body"]), blob)
        except (ValueError, KeyError, TypeError) as error:
            raise ProtocolError(f"not a message: {text[:200]!r}") from error
