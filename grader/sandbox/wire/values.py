"""The values that may cross the wire, the limits on their number, and their form in MessagePack.

MessagePack has None, bool, int, float and str. Everything else is an extension of a type below: bytes, tensors
and arrays, the type's name of a value that is not plain data, and also every list, dict, tuple and named tuple.
So a decoder reads one container at a time, which has only scalars and extensions, and refuses MessagePack's own
maps and arrays. A map with hostile keys would take quadratic time in C, where no deadline is checked.
`packing` writes values, `unpacking` reads them.
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
# In one frame: an empty list is a few bytes of MessagePack, but fifty in memory.
MAX_VALUES = 4 * MAX_ITEMS
# In one dict. Since hashes of numbers are predictable, the sum of the dicts' squares is bounded, too.
MAX_KEYS = 5_000

# The numbers of the extension types.
TENSOR, ARRAY, TUPLE, RECORD, OPAQUE, LIST, DICT, BYTES = range(1, 9)

# Begins the type's name of a named tuple that the other side sent and now gets back.
RETURNED = "returned "

if TYPE_CHECKING:
    Value = Any
else:
    # The decoded form; `unpacking` makes plain data of it.
    Value = None | bool | int | float | str | msgspec.msgpack.Ext

# The dtypes by their names in torch, and in NumPy's notation.
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

# The exceptions of decoders for invalid or too many bytes.
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
    """A message of the other side is invalid; the text says which part."""


class Opaque(msgspec.Struct, frozen=True):
    """A value that is not plain data: only the name of its type crossed the wire."""

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
    """A live argument: the result of a call that the sandbox makes when it carries out a request.

    `function` is in the probe module `probe`, or in the student's module if that is None. Within one request,
    the same `number` is the same object.
    """

    number: int
    probe: str | None
    function: str
    arguments: list[Any]
    keywords: dict[str, Any]


class TensorHead(msgspec.Struct, frozen=True, array_like=True):
    """The head of a tensor or array, whose bytes are in the frame's second part.

    Only requests may have tensors that are not contiguous: `strides` and `offset` count elements, and the bytes
    are the storage from the offset to the last element.
    """

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    strides: tuple[int, ...] | None = None
    offset: int = 0


class DictHead(msgspec.Struct, frozen=True, array_like=True):
    """The packed form of a dict: its keys and its values."""

    keys: list[bool | int | float | str]
    values: list[Value]


class RecordHead(msgspec.Struct, frozen=True, array_like=True):
    """The packed form of a named tuple: its type's name, and the names and values of its fields."""

    type_name: str
    names: list[str]
    values: list[Value]
