"""Decoding a hostile frame never takes long: no part of it takes quadratic time.

These tests count calls, and `python -m bench.hostile` measures seconds. A dict of crowded keys takes quadratic
time within a single call, so its size is limited.
"""

from __future__ import annotations

import functools
import random
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest
import torch

from grader.sandbox.wire.channel import MAX_STRUCTURE_BYTES
from grader.sandbox.wire.messages import Built, Returned
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.unpacking import Unpacking
from grader.sandbox.wire.values import (
    ARRAY,
    BYTES,
    DICT,
    LIST,
    MAX_KEYS,
    OPAQUE,
    RECORD,
    TENSOR,
    TUPLE,
    ProtocolError,
)

from .frames import HEADER, frame_of, read

pytestmark = pytest.mark.thorough

# The limit of calls for each byte of a frame. The worst frame below takes 2.2.
MAX_CALLS = 4
encode = msgspec.msgpack.encode


def ext(code: int, value: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, value if isinstance(value, bytes) else encode(value))


def crowded(count: int, size: int) -> list[int]:
    """Return integers that collide repeatedly in a dict of `size` slots."""
    filled = count * 2 // 3
    orbit, slot = [], 0
    for _ in range(filled):
        orbit.append(slot)
        slot = (5 * slot + 1) & (size - 1)
    place = torch.full((size,), size)
    place[torch.tensor(orbit)] = torch.arange(filled)
    keys: list[int] = []
    first = size
    while len(keys) < count - filled:
        numbers = torch.arange(first, first + 2**20)
        first += 2**20
        slots, perturb = numbers & (size - 1), numbers
        while len(numbers) and perturb.any():
            taken = place[slots] < size
            numbers, slots, perturb = numbers[taken], slots[taken], perturb[taken] >> 5
            slots = (5 * slots + perturb + 1) & (size - 1)
        keys += numbers[place[slots] < filled // 4].tolist()
    return orbit + keys[: count - filled]


@functools.cache
def _keys(count: int) -> list[int]:
    return crowded(count, 1 << (count * 3 // 2 - 1).bit_length())


def a_dict(count: int) -> msgspec.msgpack.Ext:
    return ext(DICT, [_keys(count), [None] * count])


def a_map(count: int) -> bytes:
    return encode(dict.fromkeys(range(count)))


def nested(value: Any, codes: list[int]) -> Any:
    for code in codes:
        value = ext(code, [value])
    return value


def probes(keys: list[int], size: int) -> int:
    """Count the slots that CPython inspects to insert these keys into a dict of `size` slots."""
    taken, count = set(), 0
    for key in keys:
        slot, perturb = key & (size - 1), key
        while slot in taken:
            count += 1
            perturb >>= 5
            slot = (5 * slot + perturb + 1) & (size - 1)
        taken.add(slot)
        count += 1
    return count


def test_crowded_keys_take_many_probes() -> None:
    assert probes(list(range(MAX_KEYS)), 2**13) == MAX_KEYS
    assert probes(_keys(MAX_KEYS), 2**13) > 20 * MAX_KEYS


def holds_data(frame: bytes) -> bool:
    """Whether a frame is read rather than refused. Fails if that takes more than a few calls for each byte.

    Each frame takes up to a thousand calls in addition.
    """
    calls, most = 0, 1_000 + MAX_CALLS * len(frame)

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        assert calls <= most

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        read(frame)
    except ProtocolError:
        return False
    finally:
        sys.setprofile(before)
    return True


REFUSED: dict[str, Callable[[], Any]] = {
    "a map of MessagePack's own": lambda: {1: None},
    "a map in a tuple": lambda: ext(TUPLE, [{1: None}]),
    "a map for a tuple": lambda: ext(TUPLE, a_map(80_000)),
    "a map in a record": lambda: ext(RECORD, ["R", ["a"], [{1: None}]]),
    "a map for a tensor": lambda: ext(TENSOR, a_map(80_000)),
    "a map for keys": lambda: ext(DICT, [{1: None}, []]),
    "an array for a key": lambda: ext(DICT, [[[1, 2]], [None]]),
    "an extension for a key": lambda: ext(DICT, [[ext(LIST, [])], [None]]),
    "crowded keys": lambda: a_dict(MAX_KEYS + 1),
    "crowded keys deep down": lambda: nested(a_dict(MAX_KEYS + 1), [TUPLE, LIST] * 5),
    "one key too many": lambda: ext(DICT, [list(range(MAX_KEYS + 1)), [None] * (MAX_KEYS + 1)]),
    "many dicts of crowded keys": lambda: ext(LIST, [a_dict(MAX_KEYS)] * 40),
    "a record of many fields": lambda: ext(RECORD, ["R", ["a"] * 90_000, [None] * 90_000]),
    "a dtype that is a module of torch's": lambda: ext(TENSOR, ["_inductor", [1], 1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_structures_that_could_take_long_are_refused_early(name: str) -> None:
    before = set(sys.modules)
    frame = frame_of(Returned(REFUSED[name]()), Packing())
    assert not holds_data(frame)
    assert not [module for module in set(sys.modules) - before if module.startswith("torch.")]


def full(one: Callable[[int], Any]) -> Any:
    """Return a list of as many of these as fit into a frame."""
    parts, size = [], 100
    for number in range(400_000):
        part = one(number)
        size += len(encode(part))
        if size > MAX_STRUCTURE_BYTES:
            break
        parts.append(part)
    return ext(LIST, parts)


HEAVY: dict[str, Callable[[], Any]] = {
    "crowded keys": lambda: ext(LIST, [a_dict(MAX_KEYS)] * 10),
    "dicts of two": lambda: full(lambda n: ext(DICT, [[n % 100, 64], [None, None]])),
    "long dicts of strings": lambda: full(
        lambda n: ext(DICT, [[f"{n}:{i}" for i in range(MAX_KEYS)], [None] * MAX_KEYS])
    ),
    "empty lists": lambda: full(lambda n: ext(LIST, [])),
    "empty tuples in tuples": lambda: full(lambda n: nested(ext(TUPLE, []), [TUPLE] * 20)),
    "deep and wide": lambda: nested(full(lambda n: None), [LIST] * 8),
    "records": lambda: full(lambda n: ext(RECORD, ["R", ["a"], [1]])),
    "opaque": lambda: full(lambda n: ext(OPAQUE, b"x")),
    "one long name": lambda: ext(OPAQUE, b"\xff" * 900_000),
    "bytes": lambda: full(lambda n: ext(BYTES, b"")),
    "tensors": lambda: full(lambda n: ext(TENSOR, ["int8", [0], 0])),
    "tensors of many dimensions": lambda: full(lambda n: ext(TENSOR, ["int8", [0] * 16, 0])),
    "a tensor of too many dimensions": lambda: ext(TENSOR, ["int8", [1] * 900_000, 1]),
    "arrays": lambda: full(lambda n: ext(ARRAY, ["|i1", [0], 0])),
    "strings": lambda: full(lambda n: "\U0001f600"),
    "large numbers": lambda: full(lambda n: 2**64 - 1 - n),
    "numbers that are none": lambda: full(lambda n: float("nan")),
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_full_frame_takes_a_few_calls_for_each_byte(name: str) -> None:
    holds_data(frame_of(Returned(HEAVY[name]()), Packing()))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("differentiable", encode([7] * 900_000)),
        ("mutated", encode([""] * 900_000)),
        ("unheard of", a_map(150_000)),
    ],
)
def test_long_fields_of_a_reply_take_a_few_calls_for_each_byte(field: str, value: bytes) -> None:
    structure = encode({"type": "returned", "value": None, field: msgspec.Raw(value)})
    holds_data(HEADER.pack(len(structure), 0, 0) + structure)


def test_parameters_are_limited_like_answers() -> None:
    crowd = Built(0, a_dict(MAX_KEYS + 1), None, (), (), True)
    with pytest.raises(ProtocolError):
        read(frame_of(crowd, Packing()))


def test_a_reply_that_takes_longer_than_its_deadline_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, unpack = 0.0, Unpacking.unpack

    def takes_a_minute(unpacking: Unpacking, value: Any) -> Any:
        nonlocal now
        now += 30.0
        return unpack(unpacking, value)

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(Unpacking, "unpack", takes_a_minute)
    frame = frame_of(Returned(1), Packing())
    read(frame, seconds=60)
    with pytest.raises(TimeoutError):
        read(frame, seconds=59)


CODES = [TENSOR, ARRAY, TUPLE, RECORD, OPAQUE, LIST, DICT, BYTES]


def drawn(draw: random.Random, depth: int) -> Any:
    """Draw a structure with parts of equal length, some of them well-formed."""
    count = draw.randrange((500, 20, 4, 4, 4)[depth])
    parts = [drawn(draw, depth + 1) if depth < 4 else None] * count
    match draw.randrange(6):
        case 0:
            return draw.choice([None, True, -1, 2**63, 0.5, "", "a" * count, {1: 2}, [1]])
        case 1:
            return ext(
                DICT, [draw.choice([list(range(count)), [str(n) for n in range(count)]]), parts]
            )
        case 2:
            return ext(RECORD, ["R", [str(n) for n in range(count)], parts])
        case 3:
            return ext(draw.choice((TENSOR, ARRAY)), [draw.choice(["int8", "|i1"]), [count], count])
        case 4:
            return ext(draw.choice(CODES), b"\x90" * count)
        case _:
            return ext(draw.choice((LIST, TUPLE)), parts)


def test_odd_structures_take_a_few_calls_for_each_byte() -> None:
    draw = random.Random(0)
    kinds = {True: 0, False: 0}
    for _ in range(600):
        kinds[holds_data(frame_of(Returned(drawn(draw, 0)), Packing()))] += 1
    assert min(kinds.values()) > 20
