"""Whatever a student returns can be sent, and only plain data is."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grader.sandbox.wire.messages import Returned
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.unpacking import Unpacking
from grader.sandbox.wire.values import Opaque

from .frames import PLAIN, frame_of, read


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        PLAIN | st.integers() | st.characters(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner)
        ),
        max_leaves=10,
    )
)
def test_whatever_a_student_returns_can_be_sent(value: Any) -> None:
    packing = Packing()
    read(frame_of(Returned(packing.pack(value)), packing))


def test_nothing_is_ever_pickled() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            raise AssertionError("pickled")

    packing = Packing()
    frame = frame_of(Returned(packing.pack([Bomb(), {"a": Bomb()}, (Bomb(),)])), packing)
    first, second, third = Unpacking(bytearray()).unpack(read(frame).value)
    assert {type(each) for each in (first, second["a"], *third)} == {Opaque}
