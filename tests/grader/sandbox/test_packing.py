"""Any value that a student returns can be sent, and only plain data is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.sandbox.wire.messages import Returned
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.unpacking import Unpacking
from grader.sandbox.wire.values import Opaque, ProtocolError

from .frames import PLAIN, frame_of, read


@pytest.mark.thorough
@settings(max_examples=300)
@given(
    st.recursive(
        PLAIN | st.integers() | st.characters(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner)
        ),
        max_leaves=10,
    )
)
def test_any_value_can_be_sent(value: Any) -> None:
    packing = Packing()
    read(frame_of(Returned(packing.pack(value)), packing))


def test_nothing_is_ever_pickled() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            raise AssertionError("pickled")

    packing = Packing()
    frame = frame_of(Returned(packing.pack([Bomb(), {"a": Bomb()}, (Bomb(),)])), packing)
    first, second, third = read(frame).value
    assert {type(each) for each in (first, second["a"], *third)} == {Opaque}


def test_numpy_numbers_arrive_as_python_numbers() -> None:
    """A student may count with np.prod."""
    import numpy as np

    values = [np.int64(3), np.float32(0.5), np.bool_(True), np.uint8(7), np.prod(())]
    packing = Packing()
    arrived = read(frame_of(Returned(packing.pack(values)), packing)).value
    assert arrived == [3, 0.5, True, 7, 1.0]
    assert [type(value) for value in arrived] == [int, float, bool, int, float]


def test_only_the_judge_may_send_strides() -> None:
    """With strides, a few hostile bytes could make a tensor of any size."""
    import torch

    packing = Packing(strided=True)
    frame = frame_of(Returned(packing.pack(torch.ones(1).expand(10**9))), packing)
    assert len(frame) < 200
    with pytest.raises(ProtocolError, match="strides"):
        read(frame)


@settings(max_examples=200)
@given(st.data())
def test_any_view_arrives_unchanged(data: st.DataObject) -> None:
    import torch

    view = torch.arange(60).reshape(3, 4, 5)
    for dimension in range(3):
        start, step = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
        view = view[(slice(None),) * dimension + (slice(start, None, step),)]
    view = view.permute(data.draw(st.permutations(range(3))))
    if data.draw(st.booleans()):
        view = view[:1].expand(4, *view.shape[1:]) if len(view) else view
    packing = Packing(strided=True)
    packed = packing.pack(view)
    found = Unpacking(bytearray(b"".join(packing.blobs)), strided=True).unpack(packed)
    assert torch.equal(found, view)
    assert found.stride() == view.stride() and found.storage_offset() == view.storage_offset()
