"""Hostile values give plain data or an error of the sender."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.sandbox.wire.messages import Returned
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.unpacking import Unpacking
from grader.sandbox.wire.values import ProtocolError

from .frames import PLAIN, frame_of, read

STRUCTURES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.integers(-9, 9), inner, max_size=4)
        | st.builds(
            lambda code, data: msgspec.msgpack.Ext(code, msgspec.msgpack.encode(data)),
            st.integers(0, 9),
            inner,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=300)
@given(STRUCTURES)
def test_any_structure_gives_data_or_an_error_of_the_sender(value: Any) -> None:
    with contextlib.suppress(ProtocolError):
        read(frame_of(Returned(value), Packing()))


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"),
    [
        ("float32", (2, 3), 23),
        ("float32", (-1, 3), 12),
        ("float32", (2**62, 4), 0),
        ("float32", (2**39, 2**39), 0),
        ("float32", (2**39, 0), 0),
        ("float32", (400, 0, 400), 0),
        ("float32", (3,), -12),
        ("float32", (0,) * 17, 0),
        ("float31", (3,), 12),
        ("Tensor", (3,), 12),
        ("__class__", (3,), 12),
        ("qint8", (3,), 3),
    ],
)
def test_impossible_tensors_are_refused(dtype: str, shape: tuple[int, ...], nbytes: int) -> None:
    packing = Packing()
    packing.blobs.append(bytes(max(nbytes, 0)))
    head = msgspec.msgpack.encode([dtype, list(shape), nbytes])
    with pytest.raises(ProtocolError):
        read(frame_of(Returned(msgspec.msgpack.Ext(1, head)), packing))


def test_a_boolean_that_is_neither_true_nor_false_is_refused() -> None:
    for code, dtype in ((1, "bool"), (2, "|b1")):
        odd = msgspec.msgpack.Ext(code, msgspec.msgpack.encode([dtype, [3], 3]))
        with pytest.raises(ProtocolError, match="neither true nor false"):
            Unpacking(bytearray(b"\0\2\1")).unpack(odd)
        assert Unpacking(bytearray(b"\0\1\1")).unpack(odd).tolist() == [False, True, True]
