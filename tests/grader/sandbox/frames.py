"""Frames written like a sandbox and read like the judge, with all kinds of plain data."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from typing import Any

import msgspec
from hypothesis import strategies as st

from grader.sandbox.wire.channel import Channel
from grader.sandbox.wire.messages import Reply
from grader.sandbox.wire.packing import Packing

HEADER = struct.Struct("<IQI16x")

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary()
)


def wait_for(channel: Channel) -> Any:
    return lambda seconds: select.select([channel], [], [], seconds)


def frame_of(reply: Reply, packing: Packing) -> bytes:
    structure, blob = msgspec.msgpack.encode(reply), b"".join(packing.blobs)
    return HEADER.pack(len(structure), len(blob), 0) + structure + blob


def read(frame: bytes, seconds: float = 60) -> Any:
    """Receive one frame as the judge does, and return the reply with its values unpacked."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # A long frame does not fit into the socket's buffer, so a thread sends it.
        sending = threading.Thread(target=_send, args=(theirs, frame))
        (sending.start if len(frame) > 2**15 else sending.run)()
        channel = Channel(ours)
        try:
            reply, _ = channel.receive_reply(time.monotonic() + seconds, wait_for(channel))
        finally:
            ours.close()
            if sending.ident is not None:
                sending.join()
    return reply


def _send(connection: socket.socket, frame: bytes) -> None:
    with connection, contextlib.suppress(ConnectionError):
        connection.sendall(frame)
