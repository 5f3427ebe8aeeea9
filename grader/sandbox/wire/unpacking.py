"""Values out of a frame that an enemy may have written: plain data, or a ProtocolError."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from grader.sandbox.wire.values import (
    ARRAY,
    ARRAY_DTYPES,
    DTYPES,
    MAX_DEPTH,
    MAX_DIMENSIONS,
    MAX_ITEMS,
    MAX_TEXT,
    MAX_VALUES,
    OPAQUE,
    RECORD,
    TENSOR,
    TUPLE,
    UNREADABLE,
    Opaque,
    ProtocolError,
    Record,
    RecordHead,
    TensorHead,
)

if TYPE_CHECKING:
    import torch


_decode_tensor = msgspec.msgpack.Decoder(TensorHead).decode
_decode_record = msgspec.msgpack.Decoder(RecordHead).decode
_decode_list = msgspec.msgpack.Decoder(list[Any]).decode


class Unpacking:
    """The values of one received frame; `tensors` lists its tensors in the order of the sender.

    `strided` are the frames of the judge: strides of an enemy would make much memory of a few bytes.
    """

    def __init__(self, blob: bytearray, strided: bool = False) -> None:
        self._strided = strided
        self._blob = memoryview(blob)
        self._position = 0
        self._values = 0
        self.tensors: list[torch.Tensor] = []

    def unpack(self, value: Any) -> Any:
        """Plain data from a decoded structure; raises ProtocolError for what does not fit."""
        try:
            return self._unpack_all([value], -1)[0]
        except UNREADABLE as error:
            raise ProtocolError(f"a value cannot be read: {error}"[:MAX_TEXT]) from error

    def _unpack(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH + 2:
            raise ProtocolError("a value is nested too deeply")
        if isinstance(value, list):
            return self._unpack_all(value, depth)
        if isinstance(value, dict):
            if not all(isinstance(key, (str, int, float)) for key in value):
                raise ProtocolError(ODD_KEY)
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
        code = value.code
        if code == TENSOR:
            return self._unpack_tensor(_decode_tensor(value.data))
        if code == ARRAY:
            return self._unpack_array(_decode_tensor(value.data))
        if code == TUPLE:
            refuse_compound_keys(value.data)
            return tuple(self._unpack_all(_decode_list(value.data), depth))
        if code == RECORD:
            refuse_compound_keys(value.data)
            head = _decode_record(value.data)
            values = self._unpack_all(head.values, depth)
            return Record(head.type_name, dict(zip(head.names, values, strict=True)))
        if code == OPAQUE:
            return Opaque(bytes(value.data).decode("utf-8", "replace")[:MAX_TEXT])
        raise ProtocolError(f"unknown extension {code}")

    def _take(self, head: TensorHead, itemsize: int) -> memoryview:
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

    def _unpack_tensor(self, head: TensorHead) -> torch.Tensor:
        import torch

        dtype = getattr(torch, head.dtype, None)
        if head.dtype not in DTYPES or not isinstance(dtype, torch.dtype):
            raise ProtocolError(f"unknown dtype {head.dtype[:40]!r}")
        if head.strides is not None:
            tensor = self._unpack_strided(head, dtype)
            self.tensors.append(tensor)
            return tensor
        data = self._take(head, dtype.itemsize)
        if data.nbytes:
            # Through bytes of its own: offsets in the frame need not suit the dtype's alignment.
            tensor = torch.frombuffer(bytearray(data), dtype=dtype).reshape(head.shape)
        else:
            tensor = torch.empty(head.shape, dtype=dtype)
        self.tensors.append(tensor)
        return tensor

    def _unpack_strided(self, head: TensorHead, dtype: torch.dtype) -> torch.Tensor:
        import torch

        if not self._strided or head.strides is None:
            raise ProtocolError("a tensor has strides")
        flat = TensorHead(head.dtype, (head.nbytes // dtype.itemsize,), head.nbytes)
        data = self._take(flat, dtype.itemsize)
        storage = torch.zeros(head.offset + flat.shape[0], dtype=dtype)
        if data.nbytes:
            storage[head.offset :] = torch.frombuffer(bytearray(data), dtype=dtype)
        # Its own tensor and no view, so that it is a leaf like any other.
        return torch.empty(0, dtype=dtype).set_(
            storage.untyped_storage(), head.offset, head.shape, head.strides
        )

    def _unpack_array(self, head: TensorHead) -> Any:
        import numpy

        if head.dtype not in ARRAY_DTYPES:
            raise ProtocolError(f"unknown array dtype {head.dtype[:40]!r}")
        dtype = numpy.dtype(head.dtype)
        data = self._take(head, dtype.itemsize)
        return numpy.frombuffer(bytearray(data), dtype=dtype).reshape(head.shape)


# A structure as small as this is decoded as it is; in a larger one the keys are looked at first.
MAX_UNCHECKED_BYTES = 2**14

ODD_KEY = "a dict has a key that is neither a string nor a number"
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
            raise ProtocolError(ODD_KEY)
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
