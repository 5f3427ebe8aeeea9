"""The wire against an enemy: every reply ends in plain data or a ProtocolError, bounded in all ways."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.sandbox import protocol
from grader.sandbox.protocol import (
    Built,
    Channel,
    ChannelClosed,
    ForbiddenReply,
    Loaded,
    Opaque,
    Packing,
    ProtocolError,
    Raised,
    Ready,
    Returned,
    Unpacking,
)

# What a frame may cost at most: its own bytes a few times over, and the limits of the structure.
MUTATIONS = 100_000
HEADER = struct.Struct("<IQ")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def wait_for(channel: Channel) -> Any:
    return lambda seconds: select.select([channel], [], [], seconds)


def frame_of(reply: protocol.Reply, packing: Packing) -> bytes:
    structure, blob = msgspec.msgpack.encode(reply), b"".join(packing.blobs)
    return HEADER.pack(len(structure), len(blob)) + structure + blob


def replies() -> list[bytes]:
    """One frame of every kind, with every kind of value in it."""
    packing = Packing()
    value = {
        "tensor": torch.arange(6.0).reshape(2, 3),
        "numbers": [1, 2.5, True, None, 2**63],
        "tuple": (1, ("a", b"b")),
        "opaque": object(),
        "array": torch.ones(3).numpy(),
        3: torch.ones(2, dtype=torch.bfloat16),
    }
    returned = Returned(packing.pack(value), 3, (0,), ("x",))
    state = Packing()
    built = Built(0, state.pack({"w": torch.ones(2)}), state.pack({}), ("w",), ("w",), True)
    raised = Raised("ValueError", ("ValueError", "Exception"), "text", ((3, "f"),))
    return [
        frame_of(returned, packing),
        frame_of(built, state),
        *(
            frame_of(r, Packing())
            for r in (raised, Ready(("a",)), Loaded(), ForbiddenReply("n", ()))
        ),
    ]


def read(frame: bytes, seconds: float = 5) -> Any:
    """Receive one frame as the judge does, and unpack every value in it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(frame)
        theirs.close()
        channel = Channel(ours)
        reply, unpacking = channel.receive_reply(time.monotonic() + seconds, wait_for(channel))
    for name in ("value", "parameters", "buffers"):
        if hasattr(reply, name):
            unpacking.unpack(getattr(reply, name))
    return reply


def mutated(frame: bytes, draw: random.Random) -> bytes:
    """The frame with a few bytes changed, cut, repeated or inserted; its lengths mostly mended."""
    body = bytearray(frame[HEADER.size :])
    structure, _ = HEADER.unpack_from(frame)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(body) + 1)
        match draw.randrange(5):
            case 0 if body:
                body[at % len(body)] = draw.randrange(256)
            case 1 if body:
                body[at % len(body)] ^= 1 << draw.randrange(8)
            case 2:
                del body[at : at + draw.randint(1, 8)]
            case 3:
                body[at:at] = draw.randbytes(draw.randint(1, 8))
            case _:
                part = body[at : at + draw.randint(1, 16)]
                body[at:at] = part * draw.randint(1, 3)
    if draw.random() < 0.1:
        lengths = draw.randrange(2**32), draw.randrange(2**64)
    else:
        structure = min(
            structure + draw.choice((0, 0, len(body) - len(frame) + HEADER.size)), len(body)
        )
        lengths = max(structure, 0), len(body) - max(structure, 0)
    return HEADER.pack(*lengths) + bytes(body)


def test_a_hundred_thousand_odd_replies_end_in_data_or_an_error_of_theirs() -> None:
    draw = random.Random(0)
    frames = replies()
    kinds = {"data": 0, "refused": 0}
    for _ in range(MUTATIONS):
        try:
            read(mutated(draw.choice(frames), draw))
            kinds["data"] += 1
        except (ProtocolError, ChannelClosed):
            kinds["refused"] += 1
    # A mutator that never, or always, breaks a frame would prove nothing.
    assert min(kinds.values()) > MUTATIONS // 100


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary()
)
STRUCTURES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.integers(-9, 9), inner, max_size=4)
        | st.builds(
            lambda code, data: msgspec.msgpack.Ext(code, msgspec.msgpack.encode(data)),
            st.integers(0, 6),
            inner,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(STRUCTURES)
def test_any_structure_ends_in_data_or_an_error_of_theirs(value: Any) -> None:
    with contextlib.suppress(ProtocolError):
        read(frame_of(Returned(value), Packing()))


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


@pytest.mark.parametrize(
    "structure",
    [
        b"\x81\xa4type\xa8returned",  # a tag alone
        b"\x91" * 100_000 + b"\x90",  # depth
        b"\x82\xa4type\xa8returned\xa5value" + b"\x91" * 5_000 + b"\x90",
        b"\xdd\xff\xff\xff\xff",  # an array of four billion
        b"\xc6\xff\xff\xff\xff",  # bytes that are not there
        b"",
        b"\xc1",
    ],
)
def test_hostile_structures_are_refused(structure: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(HEADER.pack(len(structure), 0) + structure)


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


# Nested values and, in its dicts, keys that MessagePack has and Python must not meet.
KEYED = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=50,
)


@settings(max_examples=300, deadline=None)
@given(KEYED, st.booleans())
def test_an_array_as_a_key_is_refused_wherever_it_stands(value: Any, odd: bool) -> None:
    # Behind much of every kind, so that the walk has to come past all of it.
    large = bytes(protocol.MAX_UNCHECKED_BYTES)
    data = msgspec.msgpack.encode([large, value, {"a": [{(1, 2) if odd else 1: value}]}, value])
    if odd:
        with pytest.raises(ProtocolError, match="key"):
            protocol.refuse_compound_keys(data)
    else:
        protocol.refuse_compound_keys(data)


def test_a_small_array_as_a_key_is_refused_too() -> None:
    with pytest.raises(ProtocolError, match="key"):
        Unpacking(bytearray()).unpack(msgspec.msgpack.decode(b"\x81\x92\x01\x02\xc0"))


def test_an_announced_length_costs_no_memory(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(HEADER.pack(protocol.MAX_STRUCTURE_BYTES, protocol.MAX_BLOB_BYTES) + b"x")
    channel = Channel(ours)
    tracemalloc.start()
    with pytest.raises(TimeoutError):
        channel.receive_reply(time.monotonic() + 0.2, wait_for(channel))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 2**20


@pytest.mark.parametrize("lengths", [(2**32 - 1, 0), (0, 2**64 - 1), (2**22, 0), (0, 2**30)])
def test_a_length_above_the_limits_is_refused(lengths: tuple[int, int]) -> None:
    with pytest.raises(ProtocolError, match="larger than is allowed"):
        read(HEADER.pack(*lengths) + bytes(64))


def test_a_drip_of_bytes_gains_no_time(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stop = threading.Event()

    def drip() -> None:
        theirs.sendall(HEADER.pack(1000, 0))
        while not stop.wait(0.02):
            theirs.sendall(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    channel, begin = Channel(ours), time.monotonic()
    with pytest.raises(TimeoutError):
        channel.receive_reply(begin + 0.5, wait_for(channel))
    stop.set()
    dripping.join()
    assert time.monotonic() - begin < 2


def test_nothing_is_ever_pickled() -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            raise AssertionError("pickled")

    packing = Packing()
    frame = frame_of(Returned(packing.pack([Bomb(), {"a": Bomb()}, (Bomb(),)])), packing)
    first, second, third = Unpacking(bytearray()).unpack(read(frame).value)
    assert {type(each) for each in (first, second["a"], *third)} == {Opaque}
