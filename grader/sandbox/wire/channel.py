"""The wire between the judge and a sandbox: frames over a stream socket, and how long they may be.

Theory of operation. Each side writes *frames* to a stream socket: a header of two lengths and a number, then a
MessagePack *structure* (msgspec, one of the requests or replies of `messages`), then the raw bytes
of all tensors and arrays, one after the other. The structure refers to these bytes by position, so
that a megabyte of weights is never walked by a decoder. Nothing is ever pickled, in either
direction: a reply is data from an enemy.

The judge asks, the sandbox answers, one reply a request, with the number of the request, which is drawn: code
that finds the descriptor and writes a reply itself does not know it. The judge reads a reply with a deadline
for the whole of it (a drip of bytes gains nothing), refuses lengths above its limits before it
allocates, decodes it into a typed struct, and unpacks the values in it (`unpacking`) into plain data:
None, bool, int, float, str, bytes, tensors and arrays, lists, tuples, dicts, `Record` for a named tuple
and `Opaque` for everything else. Whatever does not fit is a `ProtocolError`, which costs the sandbox its
test, and a reply that has taken too long once it is decoded and unpacked is late.
"""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from grader.sandbox.wire.messages import Built, Reply, Request, Returned
from grader.sandbox.wire.packing import Packing, utf8
from grader.sandbox.wire.unpacking import Unpacking
from grader.sandbox.wire.values import MAX_TEXT, UNREADABLE, ProtocolError

if TYPE_CHECKING:
    import torch

MAX_STRUCTURE_BYTES = 2**20
MAX_BLOB_BYTES = 64 * 2**20

_HEADER = struct.Struct("<IQQ")

_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(Request).decode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


class ChannelClosed(Exception):
    """The other side is gone."""


class Channel:
    """Frames over a connected stream socket; `fileno` lets a caller wait for it beside others."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        # Received and not yet used: most frames arrive whole, in one piece.
        self._received = bytearray()
        self._timeout: float | None = None
        # Of the running request: drawn by who asks.
        self._number = 0
        connection.settimeout(None)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def has_ended(self) -> bool:
        """Whether the other side is gone, as far as can be told without waiting."""
        if self._socket.fileno() < 0:
            return True
        self._set_timeout(0)
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def send(self, message: Request | Reply, packing: Packing, timeout: float | None) -> None:
        """Write one frame; raises TimeoutError or ChannelClosed."""
        try:
            structure = _encode(message)
        except UnicodeEncodeError:
            # Half of a surrogate pair, in an exception's text or in a name of the student's.
            structure = _encode(_carried(message))
        blob = b"".join(packing.blobs)
        if isinstance(message, Request):
            self._number = secrets.randbits(64)
        frame = _HEADER.pack(len(structure), len(blob), self._number) + structure + blob
        try:
            sent = self._sent_at_once(frame) if timeout is not None else 0
            if sent < len(frame):
                self._set_timeout(timeout)
                self._socket.sendall(memoryview(frame)[sent:])
        except ConnectionError as error:
            raise ChannelClosed from error

    def _sent_at_once(self, frame: bytes) -> int:
        # Nearly every frame finds room. A caller that waits with a limit blocks only for a long one, and
        # need not tell the kernel twice a call.
        self._set_timeout(0)
        try:
            return self._socket.send(frame)
        except BlockingIOError:
            return 0

    def _set_timeout(self, timeout: float | None) -> None:
        if timeout != self._timeout:
            self._socket.settimeout(timeout)
            self._timeout = timeout

    def receive_request(self) -> tuple[Request, Unpacking]:
        """Wait for the next request (in the sandbox, which trusts the judge)."""
        self._set_timeout(None)
        structure, blob, self._number = self._receive(lambda: None)
        return _decode_request(structure), Unpacking(blob, strided=True)

    def receive_reply(
        self, deadline: float, idle: Callable[[float], None]
    ) -> tuple[Reply, list[torch.Tensor]]:
        """Read one reply before `deadline` (of time.monotonic): plain data, and the tensors in it.

        `idle` waits until this channel is readable or the seconds that it is given are over, and
        may serve others while it waits. Raises TimeoutError, ChannelClosed or ProtocolError.
        """

        def wait() -> None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            idle(remaining)

        self._set_timeout(0)
        structure, blob, number = self._receive(wait)
        if number != self._number:
            raise ProtocolError("a reply is to no request")
        unpacking = Unpacking(blob)
        try:
            reply = _decode_reply(structure)
        except UNREADABLE as error:
            raise ProtocolError(f"a reply cannot be read: {error}"[:MAX_TEXT]) from error
        match reply:
            case Returned(value=value, left=left):
                value, left = unpacking.unpack(value), unpacking.unpack(left)
                reply = replace(reply, value=value, left=left)
            case Built(parameters=parameters, buffers=buffers):
                parameters, buffers = unpacking.unpack(parameters), unpacking.unpack(buffers)
                reply = replace(reply, parameters=parameters, buffers=buffers)
        if time.monotonic() > deadline:
            raise TimeoutError
        return reply, unpacking.tensors

    def _receive(self, wait: Callable[[], None]) -> tuple[bytearray, bytearray, int]:
        """The structure, the blob and the number of the next frame, after a look at their announced lengths."""
        self._receive_at_least(_HEADER.size, wait)
        structure_bytes, blob_bytes, number = _HEADER.unpack_from(self._received)
        if structure_bytes > MAX_STRUCTURE_BYTES or blob_bytes > MAX_BLOB_BYTES:
            raise ProtocolError("a reply is larger than is allowed")
        middle = _HEADER.size + structure_bytes
        end = middle + blob_bytes
        self._receive_at_least(end, wait)
        structure, blob = self._received[_HEADER.size : middle], self._received[middle:end]
        del self._received[:end]
        return structure, blob, number

    def _receive_at_least(self, size: int, wait: Callable[[], None]) -> None:
        """Receive until so many bytes are there; `wait` is called before each look."""
        # Grows with what arrives: an announced length alone costs no memory.
        while len(self._received) < size:
            wait()
            try:
                part = self._socket.recv(2**16)
            except BlockingIOError:
                continue
            except ConnectionError as error:
                raise ChannelClosed from error
            if not part:
                raise ChannelClosed
            self._received += part


def _carried(value: Any) -> Any:
    """A message as UTF-8 can carry it; packed values in it are bytes already."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, (tuple, list)):
        return [_carried(part) for part in value]
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return type(value)(*(_carried(getattr(value, field)) for field in fields))
    return value
