"""Hostile frames: each gives a reply or an error of the sender, within limits on bytes and time."""

from __future__ import annotations

import random
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator

import pytest
import torch

from grader.sandbox.wire.channel import MAX_BLOB_BYTES, MAX_STRUCTURE_BYTES, Channel, ChannelClosed
from grader.sandbox.wire.messages import (
    Built,
    ForbiddenReply,
    Imports,
    ListImports,
    Loaded,
    Raised,
    Ready,
    Returned,
)
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import ProtocolError

from .frames import HEADER, frame_of, read, wait_for

MUTATIONS = 100_000


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def replies() -> list[bytes]:
    """Return one frame of every kind of reply, with every kind of value."""
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


def mutated(frame: bytes, draw: random.Random) -> bytes:
    """Change, cut, repeat or insert a few bytes of a frame, and mostly correct its lengths."""
    body = bytearray(frame[HEADER.size :])
    structure, _, _ = HEADER.unpack_from(frame)
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
    return HEADER.pack(*lengths, 0) + bytes(body)


@pytest.mark.thorough
def test_mutated_replies_give_data_or_an_error_of_the_sender() -> None:
    draw = random.Random(0)
    frames = replies()
    kinds = {"data": 0, "refused": 0}
    for _ in range(MUTATIONS):
        try:
            read(mutated(draw.choice(frames), draw))
            kinds["data"] += 1
        except (ProtocolError, ChannelClosed):
            kinds["refused"] += 1
    # A mutator that never breaks a frame, or always does, would prove nothing.
    assert min(kinds.values()) > MUTATIONS // 100


@pytest.mark.parametrize(
    "structure",
    [
        b"\x81\xa4type\xa8returned",  # only a tag
        b"\x91" * 100_000 + b"\x90",  # depth
        b"\x82\xa4type\xa8returned\xa5value" + b"\x91" * 5_000 + b"\x90",
        b"\xdd\xff\xff\xff\xff",  # an array of four billion
        b"\xc6\xff\xff\xff\xff",  # bytes that do not follow
        b"",
        b"\xc1",
    ],
)
def test_hostile_structures_are_refused(structure: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(HEADER.pack(len(structure), 0, 0) + structure)


@pytest.mark.parametrize("at", [0, 12, 16, 40, -1])
def test_an_altered_frame_is_refused(at: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        judge, sandbox = Channel(ours), Channel(theirs)
        for _ in range(2):
            judge.send(ListImports(), Packing(), timeout=1)
            sandbox.receive_request()
            sandbox.send(Imports(("torch",)), Packing(), timeout=None, told=3)
            reply, _ = judge.receive_reply(time.monotonic() + 60, wait_for(judge))
        assert (reply, judge.told) == (Imports(("torch",)), 3)
        judge.send(ListImports(), Packing(), timeout=1)
        frame = bytearray(theirs.recv(2**16))
        frame[at] ^= 1
        ours.sendall(frame + bytes(9))
        with pytest.raises(ProtocolError):
            sandbox.receive_request()


def test_an_announced_length_costs_no_memory(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(HEADER.pack(MAX_STRUCTURE_BYTES, MAX_BLOB_BYTES, 0) + b"x")
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
        read(HEADER.pack(*lengths, 0) + bytes(64))


def test_a_drip_of_bytes_gains_no_time(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stop, bytes_sent = threading.Event(), 0

    def drip() -> None:
        nonlocal bytes_sent
        theirs.sendall(HEADER.pack(1000, 0, 0))
        while not stop.wait(0.02):
            theirs.sendall(b"x")
            bytes_sent += 1

    dripping = threading.Thread(target=drip)
    dripping.start()
    channel = Channel(ours)
    with pytest.raises(TimeoutError):
        channel.receive_reply(time.monotonic() + 0.5, wait_for(channel))
    stop.set()
    dripping.join()
    assert bytes_sent < 1000, "it waited for the whole frame"
