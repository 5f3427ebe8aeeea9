# attack: answers with lists of names that are as long as a frame can be | class: forging | canary: bytes | dud: plain pytest has no wire
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
names = [str(each) for each in range(60_000)]
frames = [[1, "\u202e" * 20] for _ in range(8_000)]


def make(channel, request):
    kind = type(request).__name__
    if kind == "Build":
        tensors = {name: extension(1, ["float32", [1], 4]) for name in names[:9_000]}
        state = {"parameters": tensors, "buffers": {}, "saved": names, "trainable": names}
        raw(channel, {"type": "built", "handle": 0, **state, "training": True}, bytes(36_000))
    elif getattr(request, "probe", None):
        raised = {"type_name": "x" * 10**5, "ancestry": names, "text": "x", "frames": frames}
        raw(channel, {"type": "raised", **raised})
    else:
        tensor = extension(1, ["float32", [1], 4])
        raw(channel, {"type": "returned", "value": tensor, "mutated": names + [target.trophy]}, blob)


answer(make)
