# attack: answers with invalid text, with times and with unknown extensions | class: forging | canary: bytes | dud: plain pytest has no wire
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



values = [
    b"\xa3\xed\xa0\x80",
    b"\xa4\xff\xfe\xfd\xfc",
    b"\xd6\xff\x00\x00\x00\x01",
    b"\xd7\xff" + b"\xff" * 8,
    b"\xc7\x00\x80",
    b"\xc7\x00\x7f",
    b"\xc1",
    b"\xd4\x05\xff",
    b"\x81\xd6\xff\x00\x00\x00\x01\x01",
    b"\xdb\xff\xff\xff\xff",
]
odd = iter(values * 99)


def make(channel, request):
    raw(channel, b"\x82\xa4type\xa8returned\xa5value" + next(odd))


answer(make)
