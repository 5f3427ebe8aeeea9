# attack: answers with tensors of impossible shapes, sizes and dtypes | class: forging | canary: bytes | dud: plain pytest has no wire
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



def raw(channel, structure, blob=b""):
    structure = msgspec.msgpack.encode(structure)
    channel._socket.sendall(channel.sealed(structure, blob))


def extension(code, value):
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value))


odd = iter(
    [
        ("float32", [-5], -20),
        ("float32", [2**39, 2**39], 0),
        ("float32", [5], 20),
        ("float32", [0] * 60, 0),
        ("object", [1], 8),
        ("float32", [0, 2**39, 2**39], 0),
        ("storage", [1], 1),
        ("bool", [5], 5),
    ]
    * 99
)


def make(channel, request):
    raw(channel, {"type": "returned", "value": extension(1, next(odd))}, b"\xff" * 5)


answer(make)
