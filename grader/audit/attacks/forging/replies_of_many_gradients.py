# attack: says of one tensor nearly a million times that it has a gradient | class: forging | canary: bytes | dud: plain pytest has no wire
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


def make(channel, request):
    if type(request).__name__ == "Build":
        state = {"parameters": {"factors": extension(1, ["float32", [3], 12])}, "buffers": {}, "saved": []}
        raw(channel, {"type": "built", "handle": 0, **state, "trainable": ["factors"], "training": True}, blob)
    else:
        value = [extension(1, ["float32", [4, 3], 48]), target.trophy]
        raw(channel, {"type": "returned", "value": value[0], "graph": 0, "differentiable": [0] * 900_000, "mutated": value[1:]}, blob * 4)


answer(make)
