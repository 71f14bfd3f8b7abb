from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.measure.workers.protocol import Decoder, Message, MessageKind, ProtocolError

MESSAGES = st.builds(
    Message,
    st.sampled_from(MessageKind),
    st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.floats(-1, 1))),
    st.binary(),
)


@given(st.lists(MESSAGES), st.integers(1, 64))
def test_messages_survive_a_stream_cut_anywhere(messages: list[Message], piece: int) -> None:
    stream = b"".join(message.encode() for message in messages)
    decoder = Decoder()
    read: list[Message] = []
    for start in range(0, len(stream), piece):
        decoder.feed(stream[start : start + piece])
        while (message := decoder.next_message()) is not None:
            read.append(message)
    assert read == messages


def test_half_a_message_is_none_yet() -> None:
    decoder = Decoder()
    decoder.feed(Message(MessageKind.BUILD, {"a": 1}, b"12345").encode()[:-1])
    assert decoder.next_message() is None


@pytest.mark.parametrize(
    "data",
    [
        b"Segmentation fault, says a candidate to our pipe",
        Message(MessageKind.DONE).encode().replace(b"done", b"dine"),
        Message(MessageKind.DONE).encode().replace(b'"kind"', b'"kine"'),
        Message(MessageKind.DONE).encode().replace(b"{", b"]"),
        b"msw1" + b"\xff" * 12,
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    decoder = Decoder()
    decoder.feed(data)
    with pytest.raises(ProtocolError):
        decoder.next_message()
