"""Unpacking of values from a frame that may be hostile: plain data, or a ProtocolError."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from grader.sandbox.private import keep_builtins
from grader.sandbox.wire.values import (
    ARRAY,
    ARRAY_DTYPES,
    BYTES,
    DICT,
    DTYPES,
    LIST,
    MAX_DEPTH,
    MAX_DIMENSIONS,
    MAX_ITEMS,
    MAX_KEYS,
    MAX_TEXT,
    MAX_VALUES,
    OPAQUE,
    RECORD,
    TENSOR,
    TUPLE,
    UNREADABLE,
    DictHead,
    Opaque,
    ProtocolError,
    Record,
    RecordHead,
    TensorHead,
    Value,
)

if TYPE_CHECKING:
    import torch

keep_builtins(globals())

# The bound on the sum of the squared sizes of a frame's dicts. CPython's worst case takes 0.2 s for it, and
# honest answers stay far below.
_MAX_SQUARES = 10 * MAX_KEYS**2

# MessagePack decodes these exact types, never their subclasses.
_PLAIN = frozenset({type(None), bool, int, float, str})

_decode_tensor = msgspec.msgpack.Decoder(TensorHead).decode
_decode_record = msgspec.msgpack.Decoder(RecordHead).decode
_decode_dict = msgspec.msgpack.Decoder(DictHead).decode
_decode_list: Callable[[Any], list[Any]] = msgspec.msgpack.Decoder(list[Value]).decode


class Unpacking:
    """The values of one received frame; `tensors` lists its tensors in the order of the sender.

    Only the judge's frames may be `strided`: in hostile ones, strides could turn a few bytes into much memory.
    """

    def __init__(self, blob: bytearray, strided: bool = False) -> None:
        self._strided = strided
        self._blob = memoryview(blob)
        self._position = 0
        self._values = 0
        self._squares = 0
        self.tensors: list[torch.Tensor] = []

    def unpack(self, value: Any) -> Any:
        """Return plain data from a decoded structure; raises ProtocolError for an invalid value."""
        try:
            return self._unpack(value, 0)
        except UNREADABLE as error:
            raise ProtocolError(f"a value cannot be read: {error}"[:MAX_TEXT]) from error

    def _unpack(self, value: Any, depth: int) -> Any:
        """Return the value of one extension or scalar, `depth` containers deep."""
        if type(value) in _PLAIN:
            return value
        if not isinstance(value, msgspec.msgpack.Ext):
            raise ProtocolError(f"a value of type {type(value).__name__} does not belong here")
        if depth > MAX_DEPTH + 2:
            raise ProtocolError("a value is nested too deeply")
        code, data = value.code, value.data
        if code == TENSOR:
            return self._unpack_tensor(_decode_tensor(data))
        if code == LIST:
            return self._unpack_all(_decode_list(data), depth)
        if code == TUPLE:
            return tuple(self._unpack_all(_decode_list(data), depth))
        if code == DICT:
            pairs = _decode_dict(data)
            return self._unpack_dict(pairs.keys, pairs.values, depth)
        if code == RECORD:
            head = _decode_record(data)
            return Record(head.type_name, self._unpack_dict(head.names, head.values, depth))
        if code == ARRAY:
            return self._unpack_array(_decode_tensor(data))
        if code == BYTES:
            return bytes(data)
        if code == OPAQUE:
            return Opaque(bytes(data).decode("utf-8", "replace")[:MAX_TEXT])
        raise ProtocolError(f"unknown extension {code}")

    def _unpack_all(self, values: Collection[Any], depth: int) -> list[Any]:
        self._values += len(values)
        if self._values > MAX_VALUES:
            raise ProtocolError("an answer holds too many values")
        # Most items of long lists are plain, and a check of the type is faster than a call.
        return [item if type(item) in _PLAIN else self._unpack(item, depth + 1) for item in values]

    def _unpack_dict(self, keys: Sequence[Any], values: list[Any], depth: int) -> dict[Any, Any]:
        # The hash of a string is salted, but numbers can be chosen so that all of their hashes collide.
        self._squares += (len(keys) - [type(key) for key in keys].count(str)) ** 2
        if len(keys) > MAX_KEYS or self._squares > _MAX_SQUARES:
            raise ProtocolError("a dict has too many keys")
        return dict(zip(keys, self._unpack_all(values, depth), strict=True))

    def _take(self, head: TensorHead, itemsize: int) -> memoryview:
        """Return the bytes of the next tensor if they fit its head; `itemsize` is its dtype's."""
        if len(head.shape) > MAX_DIMENSIONS or any(not 0 <= n < 2**40 for n in head.shape):
            raise ProtocolError("a tensor has an impossible shape")
        # It has no elements, but maybe 10^12 rows, which a suite might iterate over.
        if not head.nbytes and math.prod(max(n, 1) for n in head.shape) > MAX_ITEMS:
            raise ProtocolError("a tensor has an impossible shape")
        end = self._position + head.nbytes
        if head.nbytes != math.prod(head.shape) * itemsize or not head.nbytes >= 0:
            raise ProtocolError("a tensor's bytes do not fit its shape")
        if end > len(self._blob):
            raise ProtocolError("a tensor's bytes are missing")
        data = self._blob[self._position : end]
        # For a byte other than 0 and 1, different operations disagree on whether it is true.
        if head.dtype in ("bool", "|b1") and data.tobytes().strip(b"\0\1"):
            raise ProtocolError("a boolean is neither true nor false")
        self._position = end
        return data

    def _unpack_tensor(self, head: TensorHead) -> torch.Tensor:
        """Return a tensor with its own memory."""
        import torch

        # DTYPES is checked first, since looking up some names of torch imports a module.
        dtype = getattr(torch, head.dtype, None) if head.dtype in DTYPES else None
        if not isinstance(dtype, torch.dtype):
            raise ProtocolError(f"unknown dtype {head.dtype[:40]!r}")
        if head.strides is not None:
            tensor = self._unpack_strided(head, dtype)
            self.tensors.append(tensor)
            return tensor
        data = self._take(head, dtype.itemsize)
        if data.nbytes:
            # Copied, since offsets in the frame need not suit the dtype's alignment.
            tensor = torch.frombuffer(bytearray(data), dtype=dtype).reshape(head.shape)
        else:
            tensor = torch.empty(head.shape, dtype=dtype)
        self.tensors.append(tensor)
        return tensor

    def _unpack_strided(self, head: TensorHead, dtype: torch.dtype) -> torch.Tensor:
        """Return a tensor with the strides and the offset that it has in the judge."""
        import torch

        if not self._strided or head.strides is None:
            raise ProtocolError("a tensor has strides")
        flat = TensorHead(head.dtype, (head.nbytes // dtype.itemsize,), head.nbytes)
        data = self._take(flat, dtype.itemsize)
        storage = torch.zeros(head.offset + flat.shape[0], dtype=dtype)
        if data.nbytes:
            storage[head.offset :] = torch.frombuffer(bytearray(data), dtype=dtype)
        # A tensor of its own, not a view, so that it is a leaf like any other.
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
