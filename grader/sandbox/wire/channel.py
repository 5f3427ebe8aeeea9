"""The wire between the judge and a sandbox: frames over a stream socket, and limits on their length.

Theory of operation. Each side writes *frames* to a stream socket. A frame is a header of two lengths, a count
and a seal; then a MessagePack *structure* (msgspec, one of the requests or replies of `messages`); then the raw
bytes of all tensors and arrays. The structure refers to these bytes by position, so a decoder never walks
through a megabyte of weights. Nothing is ever pickled in either direction, since a reply is hostile data.

The judge asks and the sandbox answers, with one reply for each request. If the solution replaces a function of
the student's, a reply may ask back (`StandInCall`), and the next request has the answer.

The first request has a key, and comes before any student's code. From then on, each frame is sealed: the seal
is a hash of the key, of the number of frames so far, and of the frame. Code that finds the descriptor may read
a request in the worker's place, alter one, or write a reply, but it does not have the key. It also cannot
change the number of reports (`told`), which is in the header of each reply.

The judge reads a reply with a deadline for all of it, so slow bytes gain nothing. It refuses lengths above its
limits before it allocates memory, decodes the structure into a typed struct, and unpacks its values
(`unpacking`) into plain data: None, bool, int, float, str, bytes, tensors and arrays, lists, tuples, dicts,
`Record` for a named tuple and `Opaque` for everything else. Anything invalid is a `ProtocolError`, which costs
the sandbox its test. Decoding and unpacking count towards the deadline.
"""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from grader.sandbox.private import keep_builtins
from grader.sandbox.wire.messages import (
    Built,
    Reply,
    Request,
    Returned,
    StandInBackward,
    StandInCall,
)
from grader.sandbox.wire.packing import Packing, utf8
from grader.sandbox.wire.unpacking import Unpacking
from grader.sandbox.wire.values import MAX_TEXT, UNREADABLE, ProtocolError

if TYPE_CHECKING:
    import torch

keep_builtins(globals())

MAX_STRUCTURE_BYTES = 2**20
MAX_BLOB_BYTES = 64 * 2**20

_LENGTHS = struct.Struct("<IQI")
_SEAL_BYTES = 16
_HEADER_BYTES = _LENGTHS.size + _SEAL_BYTES

_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(Request).decode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


class ChannelClosed(Exception):
    """The other side has ended."""


class Channel:
    """Frames over a connected stream socket; with `fileno`, you can wait for several."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        # Bytes received but not yet used; most frames arrive in one piece.
        self._received = bytearray()
        self._timeout: float | None = None
        self._key: bytes | None = None
        # Frames since the key, in both directions.
        self._frames = 0
        # The number of reports so far, from the last reply.
        self.told = 0
        connection.settimeout(None)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def has_ended(self) -> bool:
        """Whether the other side is known to have ended, without waiting."""
        if self._socket.fileno() < 0:
            return True
        self._set_timeout(0)
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def send(
        self, message: Request | Reply, packing: Packing, timeout: float | None, told: int = 0
    ) -> None:
        """Write one frame; raises TimeoutError or ChannelClosed."""
        try:
            structure = _encode(message)
        except UnicodeEncodeError:
            # Half of a surrogate pair, in an exception's text or a student's name.
            structure = _encode(_carried(message))
        blob = b"".join(packing.blobs)
        if self._key is None and isinstance(message, Request):
            self._key = secrets.token_bytes(_SEAL_BYTES)
            frame = self._framed(structure, blob, told, self._key)
        else:
            frame = self.sealed(structure, blob, told)
        try:
            sent = self._sent_at_once(frame) if timeout is not None else 0
            if sent < len(frame):
                self._set_timeout(timeout)
                self._socket.sendall(memoryview(frame)[sent:])
        except ConnectionError as error:
            raise ChannelClosed from error

    def sealed(self, structure: bytes, blob: bytes, told: int = 0) -> bytes:
        """Return the next frame, with a structure and a blob."""
        return self._framed(structure, blob, told, self._seal(structure, blob, told))

    def _framed(self, structure: bytes, blob: bytes, told: int, seal: bytes) -> bytes:
        return _LENGTHS.pack(len(structure), len(blob), told) + seal + structure + blob

    def _seal(self, structure: bytes | bytearray, blob: bytes | bytearray, told: int) -> bytes:
        """Return the seal of the next frame, zeros until there is a key."""
        if self._key is None:
            return bytes(_SEAL_BYTES)
        self._frames += 1
        seal = blake2b(key=self._key, digest_size=_SEAL_BYTES)
        seal.update(_LENGTHS.pack(self._frames, len(structure), told))
        seal.update(structure)
        seal.update(blob)
        return seal.digest()

    def _sent_at_once(self, frame: bytes) -> int:
        # Nearly every frame fits into the socket's buffer, so the timeout need not be set twice for each call.
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
        structure, blob, told, seal = self._receive(lambda: None)
        if self._key is None:
            self._key = seal
        elif seal != self._seal(structure, blob, told):
            raise ProtocolError("a request is not the judge's")
        return _decode_request(structure), Unpacking(blob, strided=True)

    def receive_reply(
        self, deadline: float, idle: Callable[[float], None]
    ) -> tuple[Reply, list[torch.Tensor]]:
        """Read one reply before `deadline` (of time.monotonic); return plain data and its tensors.

        `idle` gets a number of seconds. It waits for at most this long until this channel is readable, and may
        serve others meanwhile.

        Raises TimeoutError, ChannelClosed or ProtocolError.
        """

        def wait() -> None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            idle(remaining)

        self._set_timeout(0)
        structure, blob, self.told, seal = self._receive(wait)
        if seal != self._seal(structure, blob, self.told):
            raise ProtocolError("a reply is not the sandbox's own")
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
            case StandInCall(arguments=arguments, keywords=keywords):
                arguments, keywords = unpacking.unpack(arguments), unpacking.unpack(keywords)
                reply = replace(reply, arguments=arguments, keywords=keywords)
            case StandInBackward(gradients=gradients):
                reply = replace(reply, gradients=unpacking.unpack(gradients))
        if time.monotonic() > deadline:
            raise TimeoutError
        return reply, unpacking.tensors

    def _receive(self, wait: Callable[[], None]) -> tuple[bytearray, bytearray, int, bytes]:
        """Return structure, blob, count and seal of the next frame, after checking the announced lengths."""
        self._receive_at_least(_HEADER_BYTES, wait)
        structure_bytes, blob_bytes, told = _LENGTHS.unpack_from(self._received)
        seal = bytes(self._received[_LENGTHS.size : _HEADER_BYTES])
        if structure_bytes > MAX_STRUCTURE_BYTES or blob_bytes > MAX_BLOB_BYTES:
            raise ProtocolError("a reply is larger than is allowed")
        middle = _HEADER_BYTES + structure_bytes
        end = middle + blob_bytes
        self._receive_at_least(end, wait)
        structure, blob = self._received[_HEADER_BYTES:middle], self._received[middle:end]
        del self._received[:end]
        return structure, blob, told, seal

    def _receive_at_least(self, size: int, wait: Callable[[], None]) -> None:
        """Receive at least `size` bytes; `wait` is called before each read."""
        # The buffer grows with the data, so announcing a length costs no memory.
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
    """Return a message that UTF-8 can encode; packed values in it are bytes already."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, (tuple, list)):
        return [_carried(part) for part in value]
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return type(value)(*(_carried(getattr(value, field)) for field in fields))
    return value
