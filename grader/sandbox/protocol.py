"""The wire between the judge and a sandbox: what may be said, how it is written, and how much of it.

Theory of operation. Each side writes *frames* to a stream socket: a header of two lengths, then a
MessagePack *structure* (msgspec, one of the typed requests or replies below), then the raw bytes
of all tensors and arrays, one after the other. The structure refers to these bytes by position, so
that a megabyte of weights is never walked by a decoder. Nothing is ever pickled, in either
direction: a reply is data from an enemy.

The judge asks, the sandbox answers, one reply a request. The judge reads a reply with a deadline
for the whole of it (a drip of bytes gains nothing), refuses lengths above its limits before it
allocates, decodes into typed structs, and unpacks values into plain data: None, bool, int, float,
str, bytes, tensors and arrays, lists, tuples, dicts, `Record` for a named tuple and `Opaque` for
everything else. Whatever does not fit is a `ProtocolError`, which costs the sandbox its test.
"""

from __future__ import annotations

import math
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy
    import torch

__all__ = [
    "Backward",
    "Build",
    "Built",
    "Call",
    "Channel",
    "ForbiddenReply",
    "Forward",
    "Guard",
    "Load",
    "LoadProbe",
    "Loaded",
    "Opaque",
    "ProtocolError",
    "Raised",
    "Ready",
    "Record",
    "Reply",
    "Request",
    "Returned",
]

MAX_STRUCTURE_BYTES = 2**20
MAX_BLOB_BYTES = 64 * 2**20
MAX_DEPTH = 24
MAX_TEXT = 2_000
MAX_DIMENSIONS = 16
MAX_ITEMS = 100_000
# Of all values in one frame: a few bytes of MessagePack are an empty list that takes fifty here.
MAX_VALUES = 4 * MAX_ITEMS
# A structure as small as this is decoded as it is; in a larger one the keys are looked at first.
MAX_UNCHECKED_BYTES = 2**14

# What a probe is called in tracebacks.
PROBE_FILE = "<probe>"

_HEADER = struct.Struct("<IQ")
_TENSOR, _ARRAY, _TUPLE, _RECORD, _OPAQUE = 1, 2, 3, 4, 5


class ProtocolError(Exception):
    """The other side said something that does not fit; the text says what."""


class ChannelClosed(Exception):
    """The other side is gone."""


class Opaque(msgspec.Struct, frozen=True):
    """Something that is not plain data: only the name of its type crossed the wire."""

    type_name: str


class Record(msgspec.Struct, frozen=True):
    """A named tuple: its fields are attributes, in the order of the tuple."""

    type_name: str
    fields: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        # A field may well be called `fields`; the struct's own attributes come first.
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields.values())

    def __len__(self) -> int:
        return len(self.fields)


# --- requests -----------------------------------------------------------------------------------


class Guard(msgspec.Struct, frozen=True):
    """What calls of these entry points may not use, watched as they run."""

    entry_points: frozenset[str]
    operators: tuple[str, ...]
    names: tuple[str, ...]


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Run the student's file as the module `name`; `file` is what its tracebacks show."""

    name: str
    file: str
    source: bytes
    guards: tuple[Guard, ...]


class LoadProbe(msgspec.Struct, frozen=True, tag="load_probe"):
    """Keep the suite's probe functions under `name` for later calls.

    `code` is the module's code object, marshalled: the judge compiles a probe once, for all of its
    sandboxes. Only the judge says this, and the sandbox believes it; never the other way round.
    """

    name: str
    code: bytes


class Call(msgspec.Struct, frozen=True, tag="call"):
    """Call a function of the student's module, or of a probe module if `probe` names one.

    `seed` seeds the sandbox first (None: go on). `wants` are the positions of tensors, in the order
    in which they were packed, for which the judge needs gradients.
    """

    function: str
    arguments: Any
    keywords: Any
    probe: str | None = None
    seed: int | None = None
    wants: tuple[int, ...] = ()


class Build(msgspec.Struct, frozen=True, tag="build"):
    """Construct a module of the student's class and keep it under the next handle."""

    class_name: str
    arguments: Any
    keywords: Any
    seed: int | None = None


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    """Call a built module with this state: parameters and buffers by name, and the training mode."""

    handle: int
    parameters: Any
    buffers: Any
    trainable: tuple[str, ...]
    training: bool
    arguments: Any
    keywords: Any
    seed: int | None = None
    wants: tuple[int, ...] = ()


class Backward(msgspec.Struct, frozen=True, tag="backward"):
    """The vector-Jacobian product of an earlier call `graph` with these output gradients.

    With `differentiable` the product is a new graph of its own, over the inputs of the first
    and then the output gradients.
    """

    graph: int
    gradients: Any
    differentiable: bool
    seed: int | None = None


Request = Load | LoadProbe | Call | Build | Forward | Backward

# --- replies ------------------------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The first frame of a sandbox, written before it knows any student's code: its walls."""

    walls: tuple[str, ...]


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The module, or the probe, is there."""


class Built(msgspec.Struct, frozen=True, tag="built"):
    """A module was constructed: its parameters and buffers by name, and which of them it saves."""

    handle: int
    parameters: Any
    buffers: Any
    saved: tuple[str, ...]
    trainable: tuple[str, ...]
    training: bool


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """A call returned.

    `graph` is kept for `Backward` if any output needs gradients, and `differentiable` are the
    positions of those among the packed tensors; `mutated` names the arguments changed in place.
    """

    value: Any
    graph: int | None = None
    differentiable: tuple[int, ...] = ()
    mutated: tuple[str, ...] = ()


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """A call raised: the type, the names of its bases, and the lines of the student's own file."""

    type_name: str
    ancestry: tuple[str, ...]
    text: str
    frames: tuple[tuple[int, str], ...]
    in_probe: bool = False


class ForbiddenReply(msgspec.Struct, frozen=True, tag="forbidden"):
    """A call reached an operator or a name that a guard watches."""

    name: str
    frames: tuple[tuple[int, str], ...]


Reply = Ready | Loaded | Built | Returned | Raised | ForbiddenReply

# --- values -------------------------------------------------------------------------------------


class _TensorHead(msgspec.Struct, frozen=True, array_like=True):
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


class _RecordHead(msgspec.Struct, frozen=True, array_like=True):
    type_name: str
    names: tuple[str, ...]
    values: list[Any]


class Packing:
    """The tensors and arrays of one frame, in the order in which they were met."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.tensors: list[torch.Tensor] = []

    def pack(self, value: Any, depth: int = 0) -> Any:
        """`value` as MessagePack can carry it; what is not plain data becomes an `Opaque`."""
        if value is None or type(value) in (bool, float, bytes):
            return value
        if type(value) is str:
            return _text(value)
        if depth > MAX_DEPTH:
            return _extension(_OPAQUE, "something nested too deeply")
        if type(value) is int:
            return (
                value
                if _INTEGERS[0] <= value <= _INTEGERS[1]
                else _extension(_OPAQUE, "int (huge)")
            )
        if isinstance(value, (list, tuple, dict)) and len(value) > MAX_ITEMS:
            return _extension(_OPAQUE, f"{type(value).__name__} of {len(value)} items")
        if type(value) is list:
            return self._pack_all(value, depth)
        if type(value) is dict:
            return self._pack_dict(value, depth)
        if isinstance(value, tuple):
            return self._pack_tuple(value, depth)
        return self._pack_object(value, depth)

    def _pack_all(self, values: Iterable[Any], depth: int) -> list[Any]:
        # Most of what is long is a list of floats, and a call takes longer than a float.
        return [each if type(each) is float else self.pack(each, depth + 1) for each in values]

    def _pack_dict(self, value: dict[Any, Any], depth: int) -> Any:
        if all(_is_key(key) for key in value):
            return dict(zip(value, self._pack_all(value.values(), depth), strict=True))
        return _extension(_OPAQUE, "dict with keys that are neither strings nor numbers")

    def _pack_tuple(self, value: tuple[Any, ...], depth: int) -> Any:
        names = getattr(value, "_fields", None)
        packed = self._pack_all(tuple.__iter__(value), depth)
        if isinstance(names, tuple) and len(names) == len(packed):
            head = _RecordHead(type(value).__name__, tuple(map(str, names)), packed)
            return msgspec.msgpack.Ext(_RECORD, _encode(head))
        return msgspec.msgpack.Ext(_TUPLE, _encode(packed))

    def _pack_object(self, value: Any, depth: int) -> Any:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._pack_tensor(value, torch)
        if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
            return self._pack_array(value)
        if isinstance(value, (bool, int, float, str, bytes)):
            # numpy.float64, enums of strings and other children of the plain types.
            plain: Any = next(t for t in (bool, int, float, str, bytes) if isinstance(value, t))
            return self.pack(plain(value), depth + 1)
        if isinstance(value, dict):
            return self._pack_dict(dict(value), depth)
        if isinstance(value, list):
            return self._pack_all(value, depth)
        return _extension(_OPAQUE, _type_name(value))

    def _pack_tensor(self, value: torch.Tensor, torch: Any) -> Any:
        dtype = str(value.dtype).removeprefix("torch.")
        if value.layout is not torch.strided or value.is_meta or dtype not in _DTYPES:
            return _extension(_OPAQUE, f"Tensor ({value.layout}, {value.dtype}, {value.device})")
        plain = value.detach()
        if plain.is_conj() or plain.is_neg() or plain.device.type != "cpu":
            plain = plain.cpu().resolve_conj().resolve_neg()
        if value.dtype is torch.bfloat16:
            plain = plain.view(torch.int16)  # NumPy has no bfloat16, and the bytes are the same
        self.tensors.append(value)
        return self._blob(_TENSOR, dtype, value.shape, plain.numpy().tobytes())

    def _pack_array(self, value: numpy.ndarray[Any, Any]) -> Any:
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        return self._blob(_ARRAY, little.dtype.str, value.shape, little.tobytes())

    def _blob(self, code: int, dtype: str, shape: Any, data: bytes) -> Any:
        self.blobs.append(data)
        return msgspec.msgpack.Ext(code, _encode(_TensorHead(dtype, tuple(shape), len(data))))


_INTEGERS = (-(2**63), 2**64 - 1)


def _text(value: str) -> str:
    """The string as UTF-8 can carry it: half of a surrogate pair cannot go alone."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _is_key(value: object) -> bool:
    if isinstance(value, str):
        return _text(value) == value
    if isinstance(value, int):
        return _INTEGERS[0] <= value <= _INTEGERS[1]
    return isinstance(value, float)


def _type_name(value: object) -> str:
    kind = type(value)
    module = getattr(kind, "__module__", "")
    return str(kind.__qualname__ if module in ("builtins", "") else f"{module}.{kind.__qualname__}")


def _extension(code: int, text: str) -> Any:
    return msgspec.msgpack.Ext(code, text[:MAX_TEXT].encode("utf-8", "replace"))


_encode = msgspec.msgpack.Encoder().encode
_decode_tensor = msgspec.msgpack.Decoder(_TensorHead).decode
_decode_record = msgspec.msgpack.Decoder(_RecordHead).decode
_decode_list = msgspec.msgpack.Decoder(list[Any]).decode


class Unpacking:
    """The values of one received frame; `tensors` lists its tensors in the order of the sender."""

    def __init__(self, blob: bytearray) -> None:
        self._blob = memoryview(blob)
        self._position = 0
        self._values = 0
        self.tensors: list[torch.Tensor] = []

    def unpack(self, value: Any) -> Any:
        """Plain data from a decoded structure; raises ProtocolError for what does not fit."""
        try:
            return self._unpack_all([value], -1)[0]
        except _UNREADABLE as error:
            raise ProtocolError(f"a value cannot be read: {error}"[:MAX_TEXT]) from error

    def _unpack(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH + 2:
            raise ProtocolError("a value is nested too deeply")
        if isinstance(value, list):
            return self._unpack_all(value, depth)
        if isinstance(value, dict):
            if not all(isinstance(key, (str, int, float)) for key in value):
                raise ProtocolError(_ODD_KEY)
            return dict(zip(value, self._unpack_all(value.values(), depth), strict=True))
        if isinstance(value, msgspec.msgpack.Ext):
            return self._unpack_extension(value, depth)
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return value
        raise ProtocolError(f"a value of type {type(value).__name__} does not belong here")

    def _unpack_all(self, values: Collection[Any], depth: int) -> list[Any]:
        self._values += len(values)
        if self._values > MAX_VALUES:
            raise ProtocolError("an answer holds too many values")
        # Most of what is long is a list of floats, and a call takes longer than a float.
        return [each if type(each) is float else self._unpack(each, depth + 1) for each in values]

    def _unpack_extension(self, value: Any, depth: int) -> Any:
        match value.code:
            case 1:
                return self._unpack_tensor(_decode_tensor(value.data))
            case 2:
                return self._unpack_array(_decode_tensor(value.data))
            case 3:
                refuse_compound_keys(value.data)
                return tuple(self._unpack_all(_decode_list(value.data), depth))
            case 4:
                refuse_compound_keys(value.data)
                head = _decode_record(value.data)
                values = self._unpack_all(head.values, depth)
                return Record(head.type_name, dict(zip(head.names, values, strict=True)))
            case 5:
                return Opaque(bytes(value.data).decode("utf-8", "replace")[:MAX_TEXT])
        raise ProtocolError(f"unknown extension {value.code}")

    def _take(self, head: _TensorHead, itemsize: int) -> memoryview:
        if len(head.shape) > MAX_DIMENSIONS or any(not 0 <= n < 2**40 for n in head.shape):
            raise ProtocolError("a tensor has an impossible shape")
        # No elements, but a million millions of rows, which a suite might go through one by one.
        if not head.nbytes and math.prod(max(n, 1) for n in head.shape) > MAX_ITEMS:
            raise ProtocolError("a tensor has an impossible shape")
        end = self._position + head.nbytes
        if head.nbytes != math.prod(head.shape) * itemsize or not head.nbytes >= 0:
            raise ProtocolError("a tensor's bytes do not fit its shape")
        if end > len(self._blob):
            raise ProtocolError("a tensor's bytes are missing")
        data = self._blob[self._position : end]
        # Of two ways to ask whether such a one is true, one says yes and the other no.
        if head.dtype in ("bool", "|b1") and data.tobytes().strip(b"\0\1"):
            raise ProtocolError("a boolean is neither true nor false")
        self._position = end
        return data

    def _unpack_tensor(self, head: _TensorHead) -> torch.Tensor:
        import torch

        dtype = getattr(torch, head.dtype, None)
        if head.dtype not in _DTYPES or not isinstance(dtype, torch.dtype):
            raise ProtocolError(f"unknown dtype {head.dtype[:40]!r}")
        data = self._take(head, dtype.itemsize)
        if data.nbytes:
            # Through bytes of its own: offsets in the frame need not suit the dtype's alignment.
            tensor = torch.frombuffer(bytearray(data), dtype=dtype).reshape(head.shape)
        else:
            tensor = torch.empty(head.shape, dtype=dtype)
        self.tensors.append(tensor)
        return tensor

    def _unpack_array(self, head: _TensorHead) -> Any:
        import numpy

        if head.dtype not in _ARRAY_DTYPES:
            raise ProtocolError(f"unknown array dtype {head.dtype[:40]!r}")
        dtype = numpy.dtype(head.dtype)
        data = self._take(head, dtype.itemsize)
        return numpy.frombuffer(bytearray(data), dtype=dtype).reshape(head.shape)


# --- keys ---------------------------------------------------------------------------------------

_ODD_KEY = "a dict has a key that is neither a string nor a number"
_ARRAYS, _MAPS = (
    frozenset([*range(0x90, 0xA0), 0xDC, 0xDD]),
    frozenset([*range(0x80, 0x90), 0xDE, 0xDF]),
)
# Of MessagePack's first bytes: how many follow that say a length, and how many have a fixed one.
_LENGTHS = {
    **dict.fromkeys((0xC4, 0xC7, 0xD9), 1),
    **dict.fromkeys((0xC5, 0xC8, 0xDA, 0xDC, 0xDE), 2),
    **dict.fromkeys((0xC6, 0xC9, 0xDB, 0xDD, 0xDF), 4),
}
_FIXED = {
    **{0xA0 + size: size for size in range(32)},
    **{first + power: 2**power for first in (0xCC, 0xD0) for power in range(4)},
    **{0xD4 + power: 2**power + 1 for power in range(5)},
    0xCA: 4,
    0xCB: 8,
}


def refuse_compound_keys(data: bytes | bytearray | memoryview) -> None:
    """Raise ProtocolError if a map in large MessagePack has an array or a map for a key.

    Such a key is decoded to a tuple. Tuples of integers with one and the same hash can be computed,
    whatever PYTHONHASHSEED is, and a dict of them takes the square of their number: the 60,000 that
    fit into a frame took 20 s, in C, where nobody looks at a deadline. What makes no sense at all is
    left to the decoder.
    """
    end, position = len(data), 0
    if end <= MAX_UNCHECKED_BYTES:
        return
    # What is still to come of each container around, and whether it is a map: there, an even number
    # means that a key is next.
    left, maps = [1], [False]
    while left and position < end:
        if not left[-1]:
            left.pop()
            maps.pop()
            continue
        first = data[position]
        position += 1
        is_map = first in _MAPS
        is_container = is_map or first in _ARRAYS
        if is_container and maps[-1] and left[-1] % 2 == 0:
            raise ProtocolError(_ODD_KEY)
        left[-1] -= 1
        size = _FIXED.get(first, 0)
        if width := _LENGTHS.get(first, 0):
            size = int.from_bytes(data[position : position + width], "big")
            position += width + (0xC7 <= first <= 0xC9)  # the type of an extension
        elif is_container:
            size = first & 0x0F
        if is_container:
            left.append(size * 2 if is_map else size)
            maps.append(is_map)
        else:
            position += size


# What a decoder raises for bytes that make no sense, and for more of them than it can hold.
_UNREADABLE = (
    msgspec.DecodeError,
    ArithmeticError,
    LookupError,
    MemoryError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)
_DTYPES = frozenset(
    [
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
)
_ARRAY_DTYPES = frozenset(
    [
        "|b1",
        "|i1",
        "|u1",
        "<i2",
        "<i4",
        "<i8",
        "<u2",
        "<u4",
        "<u8",
        "<f2",
        "<f4",
        "<f8",
        "<c8",
        "<c16",
    ]
)

# --- frames -------------------------------------------------------------------------------------

_decode_request = msgspec.msgpack.Decoder(Request).decode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


class Channel:
    """Frames over a connected stream socket; `fileno` lets a caller wait for it beside others."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        # Received and not yet used: most frames arrive whole, in one piece.
        self._received = bytearray()
        self._timeout: float | None = None
        connection.settimeout(None)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, message: Request | Reply, packing: Packing, timeout: float | None) -> None:
        """Write one frame; raises TimeoutError or ChannelClosed."""
        structure = _encode(message)
        blob = b"".join(packing.blobs)
        frame = _HEADER.pack(len(structure), len(blob)) + structure + blob
        try:
            sent = self._sent_at_once(frame) if timeout is not None else 0
            if sent < len(frame):
                self._set_timeout(timeout)
                self._socket.sendall(memoryview(frame)[sent:])
        except ConnectionError as error:
            raise ChannelClosed from error

    def _sent_at_once(self, frame: bytes) -> int:
        # Nearly every frame finds room. Whoever waits with a limit never blocks but for a long one, and
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
        structure, blob = self._receive(lambda: None)
        return _decode_request(structure), Unpacking(blob)

    def receive_reply(
        self, deadline: float, idle: Callable[[float], None]
    ) -> tuple[Reply, Unpacking]:
        """Read one reply before `deadline` (of time.monotonic).

        `idle` waits until this channel is readable or the seconds that it is given are over, and
        may serve others while it waits. Raises TimeoutError, ChannelClosed or ProtocolError.
        """

        def wait() -> None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            idle(remaining)

        self._set_timeout(0)
        structure, blob = self._receive(wait)
        refuse_compound_keys(structure)
        try:
            return _decode_reply(structure), Unpacking(blob)
        except _UNREADABLE as error:
            raise ProtocolError(f"a reply cannot be read: {error}"[:MAX_TEXT]) from error

    def _receive(self, wait: Callable[[], None]) -> tuple[bytearray, bytearray]:
        self._receive_at_least(_HEADER.size, wait)
        structure_bytes, blob_bytes = _HEADER.unpack_from(self._received)
        if structure_bytes > MAX_STRUCTURE_BYTES or blob_bytes > MAX_BLOB_BYTES:
            raise ProtocolError("a reply is larger than is allowed")
        middle = _HEADER.size + structure_bytes
        end = middle + blob_bytes
        self._receive_at_least(end, wait)
        structure, blob = self._received[_HEADER.size : middle], self._received[middle:end]
        del self._received[:end]
        return structure, blob

    def _receive_at_least(self, size: int, wait: Callable[[], None]) -> None:
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
