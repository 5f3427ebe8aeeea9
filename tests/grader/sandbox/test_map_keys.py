"""Keys that MessagePack has and Python must not meet are found before anything is decoded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.sandbox.wire.unpacking import MAX_UNCHECKED_BYTES, refuse_compound_keys
from grader.sandbox.wire.values import ProtocolError

from .frames import PLAIN

# Nested values and, in its dicts, keys that MessagePack has and Python must not meet.
KEYED = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=50,
)


@settings(max_examples=300, deadline=None)
@given(KEYED, st.booleans())
def test_an_array_as_a_key_is_refused_wherever_it_stands(value: Any, odd: bool) -> None:
    # Behind much of every kind, so that the walk has to come past all of it.
    large = bytes(MAX_UNCHECKED_BYTES)
    data = msgspec.msgpack.encode([large, value, {"a": [{(1, 2) if odd else 1: value}]}, value])
    if odd:
        with pytest.raises(ProtocolError, match="key"):
            refuse_compound_keys(data)
    else:
        refuse_compound_keys(data)
