"""Values out of a frame that an enemy may have written: plain data, or a ProtocolError."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from grader.sandbox.wire.map_keys import ODD_KEY, refuse_compound_keys
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

__all__ = ["Unpacking"]

_decode_tensor = msgspec.msgpack.Decoder(TensorHead).decode
_decode_record = msgspec.msgpack.Decoder(RecordHead).decode
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
        data = self._take(head, dtype.itemsize)
        if data.nbytes:
            # Through bytes of its own: offsets in the frame need not suit the dtype's alignment.
            tensor = torch.frombuffer(bytearray(data), dtype=dtype).reshape(head.shape)
        else:
            tensor = torch.empty(head.shape, dtype=dtype)
        self.tensors.append(tensor)
        return tensor

    def _unpack_array(self, head: TensorHead) -> Any:
        import numpy

        if head.dtype not in ARRAY_DTYPES:
            raise ProtocolError(f"unknown array dtype {head.dtype[:40]!r}")
        dtype = numpy.dtype(head.dtype)
        data = self._take(head, dtype.itemsize)
        return numpy.frombuffer(bytearray(data), dtype=dtype).reshape(head.shape)
