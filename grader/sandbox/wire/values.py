"""Which values may cross the wire, how many of them, and how those are written that MessagePack lacks.

None, bool, int, float and str are its own. Everything else is an extension, of a type below: bytes, tensors
and arrays, the name of what is not plain data, and also every list, dict, tuple and named tuple. So a
decoder meets one container at a time, of scalars and extensions alone, and refuses MessagePack's own maps
and arrays: a map of keys that an enemy chose takes the square of their number, in C, where no deadline is
looked at. `packing` writes values, `unpacking` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from grader.sandbox.private import keep_builtins

keep_builtins(globals())

MAX_DEPTH = 24
MAX_TEXT = 2_000
MAX_DIMENSIONS = 16
MAX_ITEMS = 100_000
# Of all values in one frame: a few bytes of MessagePack are an empty list that takes fifty here.
MAX_VALUES = 4 * MAX_ITEMS
# Of one dict. Numbers, whose hash is no secret, are bounded in the sum of the dicts' squares, too.
MAX_KEYS = 5_000

# What MessagePack calls the types of extensions.
TENSOR, ARRAY, TUPLE, RECORD, OPAQUE, LIST, DICT, BYTES = range(1, 9)

if TYPE_CHECKING:
    Value = Any
else:
    # As it is decoded; what `unpacking` then makes of it is any plain data.
    Value = None | bool | int | float | str | msgspec.msgpack.Ext

# As torch names them, and as NumPy writes them.
DTYPES = frozenset(
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
ARRAY_DTYPES = frozenset(
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

# What a decoder raises for bytes that make no sense, and for more of them than it can hold.
UNREADABLE = (
    msgspec.DecodeError,
    ArithmeticError,
    LookupError,
    MemoryError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)


class ProtocolError(Exception):
    """A message of the other side does not fit; the text says which part."""


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


class Made(NamedTuple):
    """A live argument: the value of a call that the sandbox makes when it carries out a request.

    `function` is one of the probe module `probe`, or of the student's module if that is None. In one
    request the same `number` is the same object.
    """

    number: int
    probe: str | None
    function: str
    arguments: list[Any]
    keywords: dict[str, Any]


class TensorHead(msgspec.Struct, frozen=True, array_like=True):
    """A tensor's or array's head; its bytes stand in the frame's second part.

    Only requests carry tensors that are not contiguous: `strides` and `offset` count elements, and the
    bytes are those of the storage from the offset to the last element.
    """

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    strides: tuple[int, ...] | None = None
    offset: int = 0


class DictHead(msgspec.Struct, frozen=True, array_like=True):
    """A dict as it is written: its values beside its keys."""

    keys: list[bool | int | float | str]
    values: list[Value]


class RecordHead(msgspec.Struct, frozen=True, array_like=True):
    """A named tuple as it is written: a dict of its fields, which have names."""

    type_name: str
    names: list[str]
    values: list[Value]
