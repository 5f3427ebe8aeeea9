"""Packing of values into a frame: plain data, and the name of the type of anything else."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from grader.sandbox.private import keep_builtins
from grader.sandbox.wire.values import (
    ARRAY,
    BYTES,
    DICT,
    DTYPES,
    LIST,
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_KEYS,
    MAX_TEXT,
    OPAQUE,
    RECORD,
    RETURNED,
    TENSOR,
    TUPLE,
    DictHead,
    Opaque,
    Record,
    RecordHead,
    TensorHead,
)

if TYPE_CHECKING:
    import numpy
    import torch

keep_builtins(globals())

# The range of integers in MessagePack.
_INTEGERS = (-(2**63), 2**64 - 1)
_AS_IT_IS = frozenset({type(None), bool, float})
# The Python type of a NumPy scalar, by the kind of its dtype.
_PLAIN_KINDS = {"b": bool, "i": int, "u": int, "f": float}

_encode = msgspec.msgpack.Encoder().encode


class Packing:
    """The tensors and arrays of one frame, in order of packing, and the classes of its named tuples by name.

    With `strided`, for requests, tensors keep their strides and their offset in the storage.
    """

    def __init__(self, strided: bool = False) -> None:
        self._strided = strided
        self.classes: dict[str, type] = {}
        self.blobs: list[bytes] = []
        self.tensors: list[torch.Tensor] = []

    def pack(self, value: Any, depth: int = 0) -> Any:
        """Return `value` in a form that MessagePack can encode; values that are not plain become `Opaque`."""
        if type(value) in _AS_IT_IS:
            return value
        if type(value) is str:
            return utf8(value)
        if type(value) is bytes:
            return msgspec.msgpack.Ext(BYTES, value)
        if depth > MAX_DEPTH:
            return _extension(OPAQUE, "something nested too deeply")
        if type(value) is int:
            return (
                value if _INTEGERS[0] <= value <= _INTEGERS[1] else _extension(OPAQUE, "int (huge)")
            )
        if isinstance(value, (list, tuple, dict)) and len(value) > MAX_ITEMS:
            return _extension(OPAQUE, f"{type(value).__name__} of {len(value)} items")
        if type(value) is list:
            return self._pack_sequence(LIST, value, depth)
        if type(value) is dict:
            return self._pack_dict(value, depth)
        if isinstance(value, tuple):
            return self._pack_tuple(value, depth)
        return self._pack_object(value, depth)

    def _pack_all(self, values: Iterable[Any], depth: int) -> list[Any]:
        # Most items of reports and long lists need no packing, and a check is faster than a call.
        return [
            item
            if type(item) in _AS_IT_IS or (type(item) is str and item.isascii())
            else self.pack(item, depth + 1)
            for item in values
        ]

    def _pack_sequence(self, code: int, values: Iterable[Any], depth: int) -> Any:
        return msgspec.msgpack.Ext(code, _encode(self._pack_all(values, depth)))

    def _pack_dict(self, value: dict[Any, Any], depth: int) -> Any:
        if len(value) > MAX_KEYS:
            return _extension(OPAQUE, f"dict of {len(value)} items")
        if not _are_keys(value):
            return _extension(OPAQUE, "dict with keys that are neither strings nor numbers")
        keys = [str(key) if isinstance(key, str) else key for key in value]
        head = DictHead(keys, self._pack_all(value.values(), depth))
        return msgspec.msgpack.Ext(DICT, _encode(head))

    def _pack_tuple(self, value: tuple[Any, ...], depth: int) -> Any:
        names = getattr(value, "_fields", None)
        packed = self._pack_all(tuple.__iter__(value), depth)
        if isinstance(names, tuple) and len(names) == len(packed):
            name = utf8(type(value).__name__)
            self.classes[name] = type(value)
            head = RecordHead(name, [utf8(str(name)) for name in names], packed)
            return msgspec.msgpack.Ext(RECORD, _encode(head))
        return msgspec.msgpack.Ext(TUPLE, _encode(packed))

    def _pack_object(self, value: Any, depth: int) -> Any:
        """Pack a tensor, an array or an instance of a plain type's subclass, else the name of the type."""
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._pack_tensor(value, torch)
        if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
            return self._pack_array(value)
        if isinstance(value, (bool, int, float, str, bytes)):
            # numpy.float64, enums of strings and other subclasses of the plain types.
            plain: Any = next(t for t in (bool, int, float, str, bytes) if isinstance(value, t))
            return self.pack(plain(value), depth + 1)
        if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biuf":
            # A NumPy scalar counts as a number; a probe can check for Python's own types.
            return self.pack(_PLAIN_KINDS[value.dtype.kind](value), depth + 1)
        if isinstance(value, dict):
            return self._pack_dict(dict(value), depth)
        if isinstance(value, list):
            return self._pack_sequence(LIST, value, depth)
        if isinstance(value, Record):
            # Marked, so that a student's own class `Made` is not carried out as one of ours.
            packed = self._pack_all(value.fields.values(), depth)
            head = RecordHead(RETURNED + value.type_name, list(value.fields), packed)
            return msgspec.msgpack.Ext(RECORD, _encode(head))
        if isinstance(value, Opaque):
            return _extension(OPAQUE, value.type_name)
        return _extension(OPAQUE, _type_name(value))

    def _pack_tensor(self, value: torch.Tensor, torch: Any) -> Any:
        """Pack a tensor as its head and bytes, or as the name of its kind if it has no plain numbers."""
        dtype = str(value.dtype).removeprefix("torch.")
        if value.layout is not torch.strided or value.is_meta or dtype not in DTYPES:
            return _extension(OPAQUE, f"Tensor ({value.layout}, {value.dtype}, {value.device})")
        plain = value.detach()
        if plain.is_conj() or plain.is_neg() or plain.device.type != "cpu":
            plain = plain.cpu().resolve_conj().resolve_neg()
        if value.dtype is torch.bfloat16:
            plain = plain.view(torch.int16)  # NumPy has no bfloat16, and the bytes are the same
        self.tensors.append(value)
        shape, strides, offset = tuple(plain.shape), plain.stride(), plain.storage_offset()
        # In a contiguous tensor, a dimension of size 1 may have any stride.
        if self._strided and (offset or strides != torch.empty(shape, device="meta").stride()):
            last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
            span = plain.as_strided((last + 1 if plain.numel() else 0,), (1,), offset)
            return self._blob(TENSOR, dtype, shape, span.numpy().tobytes(), strides, offset)
        return self._blob(TENSOR, dtype, shape, plain.numpy().tobytes())

    def _pack_array(self, value: numpy.ndarray[Any, Any]) -> Any:
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        return self._blob(ARRAY, little.dtype.str, value.shape, little.tobytes())

    def _blob(self, code: int, dtype: str, shape: Any, data: bytes, *layout: Any) -> Any:
        self.blobs.append(data)
        head = TensorHead(dtype, tuple(shape), len(data), *layout)
        return msgspec.msgpack.Ext(code, _encode(head))


def utf8(value: str) -> str:
    """Return the string with halves of surrogate pairs escaped, so that UTF-8 can encode it."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")


def _are_keys(values: Collection[object]) -> bool:
    try:
        # Nearly always, these are the names of a report: check all of them at once.
        return "".join(values).isascii() or all(map(_is_key, values))  # type: ignore[arg-type]
    except TypeError:
        return all(map(_is_key, values))


def _is_key(value: object) -> bool:
    if isinstance(value, str):
        return utf8(value) == value
    if isinstance(value, int):
        return _INTEGERS[0] <= value <= _INTEGERS[1]
    return isinstance(value, float)


def _type_name(value: object) -> str:
    kind = type(value)
    module = getattr(kind, "__module__", "")
    return str(kind.__qualname__ if module in ("builtins", "") else f"{module}.{kind.__qualname__}")


def _extension(code: int, text: str) -> Any:
    return msgspec.msgpack.Ext(code, utf8(text[:MAX_TEXT]).encode())
