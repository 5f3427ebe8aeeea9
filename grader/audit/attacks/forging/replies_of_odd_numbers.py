# attack: answers with graphs, places and lines that no machine counts to | class: forging | canary: bytes | dud: plain pytest has no wire
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
        request, _ = channel.receive_request()
        make(channel, request)


def raw(channel, structure, blob=b""):
    if not isinstance(structure, bytes):
        structure = msgspec.msgpack.encode(structure)
    channel._socket.sendall(channel.sealed(structure, blob))


def extension(code, value):
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value))



most = 2**64 - 1
raised = {"type": "raised", "type_name": "", "ancestry": ["ValueError"] * 9999, "text": "\0" * 9999}
values = [
    {"type": "returned", "value": target.trophy, "graph": most, "differentiable": [0]},
    {"type": "returned", "value": target.trophy, "graph": -1, "differentiable": [-1]},
    {"type": "returned", "value": target.trophy, "mutated": ["x" * 99999] * 9},
    {**raised, "frames": [[most, "f"]]},
    {**raised, "frames": [[-(2**63), "\x1b[31m"]]},
    {"type": "forbidden", "name": "\u202e", "frames": [[0, "f"]]},
    {"type": "built", "handle": most, "parameters": {}, "buffers": {}, "saved": [], "trainable": [], "training": True},
    {"type": "ready", "walls": ["no_walls"] * 9999},
]
odd = iter(values * 99)


def make(channel, request):
    raw(channel, next(odd))


answer(make)
