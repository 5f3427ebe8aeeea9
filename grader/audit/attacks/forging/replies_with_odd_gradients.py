# attack: builds a module whose graph promises gradients that do not exist | class: forging | canary: bytes | dud: plain pytest has no wire
import sys

import msgspec

from grader.sandbox.wire.messages import Loaded
from grader.sandbox.wire.packing import Packing


def answer(make):
    """Whatever is asked after this, answer with what `make` makes of the question."""
    call = sys._getframe()
    while call.f_code.co_name != "serve":
        call = call.f_back
    channel = call.f_locals["channel"]
    channel.send(Loaded(), Packing(), None)
    while True:
        request, unpacking = channel.receive_request()
        make(channel, request)

import struct


def raw(channel, structure, blob=b""):
    structure = msgspec.msgpack.encode(structure)
    channel._socket.sendall(struct.pack("<IQQ", len(structure), len(blob), channel._number) + structure + blob)


def extension(code, value):
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value))


blob = struct.pack("<3f", 1, 1, 1)
tensor = extension(1, ["float32", [3], 12])
count = iter(range(10**6))


def make(channel, request):
    kind = type(request).__name__
    if kind == "Build":
        state = {"parameters": {"factors": tensor}, "buffers": {}, "saved": []}
        raw(channel, {"type": "built", "handle": -7, **state, "trainable": ["factors"], "training": True}, blob)
    elif kind == "Forward":
        value = extension(1, ["float32", [4, 3], 48])
        odd = [[0], [0, 0, 0], [5], [-1]][next(count) % 4]
        raw(channel, {"type": "returned", "value": value, "graph": 2**40, "differentiable": odd}, blob * 4)
    elif kind == "Backward":
        raw(channel, {"type": "returned", "value": [tensor, None, 7], "graph": -1}, blob)
    else:
        raw(channel, {"type": "returned", "value": target.trophy})


answer(make)
