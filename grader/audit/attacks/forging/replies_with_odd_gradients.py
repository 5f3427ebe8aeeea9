# attack: builds a module whose graph promises gradients that do not exist | class: forging | canary: bytes | dud: plain pytest has no wire
import ctypes
import sys

import msgspec

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
        request, unpacking = channel.receive_request()
        make(channel, request)

import struct


def raw(channel, structure, blob=b""):
    structure = msgspec.msgpack.encode(structure)
    channel._socket.sendall(channel.sealed(structure, blob))


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
